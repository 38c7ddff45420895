"""The agent's link over real HTTP on loopback: what is delivered, and which error says what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from fakes.agent_parts import NOON, ManualClock, desired, layout, replica, report
from fakes.controller_server import ControllerServer

from tidegate.link.report_client import HttpControllerLink
from tidegate.runtime.errors import Permanent, Transient
from tidegate.wire import MAX_BODY_BYTES, Batch

BATCH = Batch(host="gpu-1", sent_at=NOON.timestamp(), layouts=[layout()], reports=[report(1), report(2)])


@pytest.fixture
def controller() -> Iterator[ControllerServer]:
    with ControllerServer() as server:
        yield server


@pytest.fixture
def link(controller: ControllerServer) -> Iterator[HttpControllerLink]:
    with closing(HttpControllerLink(controller.url, "tgh_good", "gpu-1", ManualClock())) as made:
        yield made


def test_a_batch_arrives_whole_and_its_answer_comes_back(
    controller: ControllerServer, link: HttpControllerLink
) -> None:
    answer = link.report(BATCH)
    assert controller.memory.batches == [BATCH]
    assert [(one.first, one.last) for one in answer.acknowledged] == [(1, 1), (2, 2)]


def test_a_long_poll_answers_as_soon_as_something_is_wanted(
    controller: ControllerServer, link: HttpControllerLink
) -> None:
    controller.want(desired(replica("b-1"), epoch=2, revision=7))
    assert link.desired(2, 6, timedelta(seconds=25)) == desired(replica("b-1"), epoch=2, revision=7)
    assert controller.polls == [{"after": ["6"], "after_epoch": ["2"], "wait": ["25.0"]}]


def test_a_long_poll_in_vain_is_none(controller: ControllerServer, link: HttpControllerLink) -> None:
    controller.want(desired(epoch=2, revision=7))
    assert link.desired(2, 7, timedelta(seconds=0.1)) is None


def test_a_bad_token_is_permanent_and_names_the_remedy(controller: ControllerServer) -> None:
    with (
        closing(HttpControllerLink(controller.url, "tgh_bad", "gpu-1", ManualClock())) as link,
        pytest.raises(Permanent, match="tidegate host enroll gpu-1") as refused,
    ):
        link.report(BATCH)
    assert "tgh_bad" not in str(refused.value)
    assert controller.memory.stored == {}


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_refused_batch_is_permanent_and_says_which_place_is_wrong(
    controller: ControllerServer, link: HttpControllerLink, status: int
) -> None:
    controller.fault = (
        status,
        b'{"error": "1 thing is wrong", "places": [{"place": "reports.0.at", "problem": "no"}]}',
    )
    with pytest.raises(Permanent, match=f"{status}: 1 thing is wrong; reports.0.at: no"):
        link.report(BATCH)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_waiting_helps_is_transient(controller: ControllerServer, link: HttpControllerLink, status: int) -> None:
    controller.fault = (status, b"<html>Bad gateway</html>")
    with pytest.raises(Transient, match=str(status)):
        link.report(BATCH)
    controller.fault = None
    assert link.report(BATCH).acknowledged


def test_a_redirect_and_a_strange_server_are_told_apart(controller: ControllerServer, link: HttpControllerLink) -> None:
    controller.fault = (301, b"")
    with pytest.raises(Permanent, match="redirects"):
        link.report(BATCH)
    controller.fault = (404, b"")
    with pytest.raises(Permanent, match=r"is .* the address of a Tidegate controller"):
        link.report(BATCH)


@pytest.mark.parametrize("body", [b"", b"<html>welcome</html>", b'{"now": "noon"}', b'{"now": 1, "acknow'])
def test_an_answer_that_is_no_controllers_is_transient(
    controller: ControllerServer, link: HttpControllerLink, body: bytes
) -> None:
    controller.fault = (200, body)
    with pytest.raises(Transient, match="not a controller's"):
        link.report(BATCH)


def test_an_endless_answer_is_cut(controller: ControllerServer, link: HttpControllerLink) -> None:
    controller.fault = (200, b" " * (5 * 1024 * 1024))
    with pytest.raises(Transient, match="over"):
        link.report(BATCH)


def test_nobody_listening_is_transient() -> None:
    with ControllerServer() as server:
        pass
    with closing(HttpControllerLink(server.url, "t", "gpu-1", ManualClock())) as link:
        with pytest.raises(Transient, match="no answer from the controller"):
            link.report(BATCH)
        link.close()
        with pytest.raises(Transient, match="closed"):
            link.desired(0, 0, timedelta())


def test_a_batch_that_no_controller_takes_is_not_sent(controller: ControllerServer, link: HttpControllerLink) -> None:
    huge = report(1).model_copy(update={"values": bytes(MAX_BODY_BYTES)})
    with pytest.raises(Permanent, match="more than a controller takes"):
        link.report(BATCH.model_copy(update={"reports": [huge]}))
    assert controller.requests == 0


@pytest.mark.parametrize("url", ["http://10.0.0.5:9092", "http://controller.example:9092", "http://[2001:db8::1]:9092"])
def test_a_token_never_travels_in_the_clear(url: str) -> None:
    with pytest.raises(Permanent, match="https://"):
        HttpControllerLink(url, "tgh_good", "gpu-1", ManualClock())


@pytest.mark.parametrize(
    "url", ["http://localhost:9092", "http://127.1.2.3:9092/", "http://[::1]:9092", "https://controller.example"]
)
def test_loopback_and_https_are_fine(url: str) -> None:
    HttpControllerLink(url, "tgh_good", "gpu-1", ManualClock()).close()


@pytest.mark.parametrize("url", ["ftp://controller", "controller:9092", ""])
def test_what_is_no_http_address_is_refused(url: str) -> None:
    with pytest.raises(Permanent, match="not an http or https address"):
        HttpControllerLink(url, "tgh_good", "gpu-1", ManualClock())
