"""The webhook over a real socket: the shape of its body, its signature by an independent verifier, every answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from tidegate.model.alert import AlertPhase, AlertState, Notice
from tidegate.model.policy import Channel
from tidegate.notify.webhook import Webhook, judge
from tidegate.runtime.errors import Permanent, Transient, TryLater
from tidegate.runtime.outbound import Response

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = datetime.now(UTC)  # the verifier holds the stamp against the real time


@dataclass
class Receiver:
    """What arrived, and what to answer."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    arrived: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""


@contextmanager
def receiver(status: int = 200, **headers: str) -> Iterator[Receiver]:
    made = Receiver(status, {name.replace("_", "-"): value for name, value in headers.items()})

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.arrived.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}/hook/very-secret-path?key=abc"
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def notice(phase: AlertPhase = AlertPhase.FIRING) -> Notice:
    state = AlertState(
        fingerprint="5f1d2c",
        rule="kv_cache_hit_rate_drop",
        labels={"alertname": "kv_cache_hit_rate_drop", "pool": "base"},
        phase=phase,
        since=NOW,
        starts_at=NOW - timedelta(minutes=20),
        ends_at=NOW if phase is AlertPhase.RESOLVED else None,
        value=0.13,
        baseline=0.57,
        annotations={"summary": "hit rate fell", "summary_zh": "命中率下降"},
    )
    return Notice("msg_0123", "ops", state, NOW)


def send(found: Receiver, told: Notice, secret: str = SECRET, *, allow_private: bool = True) -> None:
    channel = Channel("ops", found.url, secret, allow_private=allow_private)
    Webhook(lambda: {"ops": channel}, "http://controller:9092/").send(told, NOW)


@pytest.mark.parametrize(("phase", "status"), [(AlertPhase.FIRING, "firing"), (AlertPhase.RESOLVED, "resolved")])
def test_a_notice_arrives_signed_in_alertmanagers_shape(phase: AlertPhase, status: str) -> None:
    """An independent verifier accepts the signature; receivers for Alertmanager find what they look for in `data`."""
    with receiver() as found:
        send(found, notice(phase))

    headers, body = found.arrived[0]
    payload = Verifier(SECRET).verify(body, headers)
    assert payload == json.loads(body)
    assert (payload["type"], headers["webhook-id"]) == (f"alert.{status}", "msg_0123")
    data = payload["data"]
    assert (data["version"], data["status"], data["receiver"]) == ("4", status, "ops")
    (alert,) = data["alerts"]
    assert alert["labels"] == {"alertname": "kv_cache_hit_rate_drop", "pool": "base"}
    assert alert["annotations"]["summary_zh"] == "命中率下降"
    assert alert["endsAt"].startswith("0001-01-01" if status == "firing" else f"{NOW:%Y-%m-%d}")
    assert alert["values"] == {"value": 0.13, "baseline": 0.57}
    assert len(body) < 20_000


def test_the_same_notice_keeps_its_id_and_body_at_every_attempt() -> None:
    """The id is the receiver's key against duplicates."""
    with receiver() as found:
        send(found, notice())
        send(found, notice())

    assert found.arrived[0][1] == found.arrived[1][1]
    assert found.arrived[0][0]["webhook-id"] == found.arrived[1][0]["webhook-id"]


def test_without_a_secret_nothing_is_signed() -> None:
    """A receiver that cannot verify still gets the message."""
    with receiver() as found:
        send(found, notice(), secret="")

    assert "webhook-signature" not in found.arrived[0][0]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, Permanent),
        (410, Permanent),
        (400, Permanent),
        (404, Transient),
        (429, Transient),
        (500, Transient),
        (503, Transient),
    ],
)
def test_an_answer_that_is_no_success_is_named_by_what_to_do(status: int, kind: type[Exception]) -> None:
    """A redirect is never followed, a receiver that is gone is given up, the rest is tried again; no secret is told."""
    with receiver(status, Location="http://127.0.0.1:1/") as found, pytest.raises(kind) as raised:
        send(found, notice())

    assert "very-secret-path" not in str(raised.value)
    assert "abc" not in str(raised.value)
    assert len(found.arrived) == 1


@pytest.mark.parametrize(("said", "seconds"), [("120", 120), ("999999", 3600)])
def test_retry_after_is_honoured_up_to_an_hour(said: str, seconds: int) -> None:
    """A receiver cannot silence us for a day."""
    with receiver(429, Retry_After=said) as found, pytest.raises(TryLater) as raised:
        send(found, notice())

    assert raised.value.after.total_seconds() == seconds


def test_a_retry_after_that_is_a_date_is_held_against_the_receivers_own_clock() -> None:
    """Its clock may be off by hours; the span between its two dates is not."""
    headers = {"date": "Wed, 25 Nov 2026 12:00:00 GMT", "retry-after": "Wed, 25 Nov 2026 12:05:00 GMT"}

    with pytest.raises(TryLater) as raised:
        judge(Response(503, headers, b""), "channel ops")

    assert raised.value.after == timedelta(minutes=5)


@pytest.mark.parametrize(
    "said",
    [
        "\u00b2",
        "-5",
        "9" * 5000,
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2026 00:00:00 +99999999999999999999",
    ],
)
def test_a_retry_after_that_makes_no_sense_is_a_plain_failure(said: str) -> None:
    """A receiver's answer must not end the round in which every other channel is told."""
    answer = Response(429, {"retry-after": said, "date": "Mon, 01 Jan 2026 00:00:00 GMT"}, b"")

    with pytest.raises(Transient) as raised:
        judge(answer, "channel ops")
    assert type(raised.value) is Transient


def test_a_retry_after_that_is_none_is_a_plain_failure() -> None:
    """Whatever stands there."""
    with receiver(503, Retry_After="soon") as found, pytest.raises(Transient) as raised:
        send(found, notice())

    assert not isinstance(raised.value, TryLater)


def test_a_private_address_needs_the_operators_word() -> None:
    """A configuration that somebody else wrote cannot make us post inside the network."""
    with receiver() as found, pytest.raises(Permanent, match="allow_private"):
        send(found, notice(), allow_private=False)

    assert found.arrived == []


def test_a_receiver_that_does_not_listen_is_tried_again() -> None:
    """A restart of the receiver loses no alert."""
    with receiver() as found:
        gone = replace(found, url=found.url)

    with pytest.raises(Transient):
        send(gone, notice())


def test_a_channel_that_left_the_configuration_drops_its_notices() -> None:
    """There is nobody to tell."""
    with pytest.raises(Permanent, match="no longer in the configuration"):
        Webhook(dict, "http://controller/").send(notice(), NOW)
