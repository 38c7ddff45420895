"""The controller's HTTP endpoint, in process: who may speak, what is stored, what is refused and how."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from fakes.clock import ManualClock
from fakes.controller_world import H1, H2, World, batch, engine, host_state, own_engine, reading

from tidegate.expose.controller_pages import ControllerPages
from tidegate.link.application import build_app
from tidegate.link.bell import Bell
from tidegate.link.report_endpoint import ReportEndpoint
from tidegate.runtime.errors import Transient
from tidegate.runtime.tokens import token_hash
from tidegate.wire import MAX_BODY_BYTES

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
OF_H1 = {"Authorization": f"Bearer token of {H1}"}
OPERATOR = {"Authorization": "Bearer operators"}
VIEWER = {"Authorization": "Bearer viewers"}


class Server:
    """The application over the fake store."""

    def __init__(self) -> None:
        self.world = World(ManualClock(NOON))
        self.world.enroll(H1, H2)
        self.world.store.users.add("ann", "operator", token_hash("operators"), NOON)
        self.world.store.users.add("bob", "viewer", token_hash("viewers"), NOON)
        self.bell = Bell()
        rest = build_app(self.world.api, ControllerPages(self.world.clock, lambda: (True, "ready")))
        self.app = ReportEndpoint(self.world.agents, self.bell, rest)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://controller")

    def ask(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        async def call() -> httpx.Response:
            async with self.client() as client:
                return await client.request(method, path, **arguments)

        return asyncio.run(call())

    def stored(self) -> int:
        return len(self.world.store.reports.rows)


@pytest.fixture
def server() -> Server:
    return Server()


def body(host: str = H1, **changes: Any) -> dict[str, Any]:
    """A good batch of one report, as JSON data, with changes."""
    found = batch(H1, [reading(H1, NOON, [engine("vllm-a", NOON, running=1.0)])], host_state(2))
    return found.model_dump(mode="json") | {"host": host} | changes


# --- reports


def test_a_good_report_is_stored_acknowledged_and_answered_with_the_desired_state(server: Server) -> None:
    """One round trip is all that an agent needs."""
    answer = server.ask("POST", "/v1/report", headers=OF_H1, json=body())

    assert answer.status_code == 200
    found = answer.json()
    assert found["acknowledged"] == [{"boot_id": "b", "first": 1, "last": 1}]
    assert found["desired"] == {"epoch": 0, "revision": 0, "replicas": []}
    assert server.stored() == 1
    assert server.world.roster.all()[0].last_seen == NOON
    assert len(server.world.head) == 1


def test_the_same_batch_twice_is_stored_once_and_acknowledged_twice(server: Server) -> None:
    """An answer that was lost on its way is asked for again."""
    first = server.ask("POST", "/v1/report", headers=OF_H1, json=body())
    again = server.ask("POST", "/v1/report", headers=OF_H1, json=body())

    assert first.json()["acknowledged"] == again.json()["acknowledged"]
    assert server.stored() == len(server.world.head) == 1
    assert server.world.state.counts.tally().reports == {"stored": 1, "duplicate": 1}


def test_a_report_whose_layout_nobody_knows_is_asked_for_again(server: Server) -> None:
    """Neither stored nor acknowledged; the agent sends the layout along."""
    answer = server.ask("POST", "/v1/report", headers=OF_H1, json=body(layouts=[])).json()

    assert answer["need_layouts"] == [body()["reports"][0]["layout"]]
    assert answer["acknowledged"] == []
    assert server.stored() == 0


def test_a_layout_is_sent_once_and_the_head_is_fed_all_the_same(server: Server) -> None:
    """It is the store's to know: after a restart of the controller the agent does not send it again."""
    server.ask("POST", "/v1/report", headers=OF_H1, json=body())
    later = batch(H1, [reading(H1, NOON + timedelta(seconds=1), [engine("vllm-a", NOON, running=7.0)])], first=2)
    later = later.model_copy(update={"layouts": [], "sent_at": NOON.timestamp()})

    answer = server.ask("POST", "/v1/report", headers=OF_H1, content=later.model_dump_json())

    assert answer.json()["acknowledged"] == [{"boot_id": "b", "first": 2, "last": 2}]
    assert len(server.world.head) == 2


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer "}]
)
def test_without_a_hosts_token_nothing_is_stored(server: Server, headers: dict[str, str]) -> None:
    """401, with the command that makes a token."""
    answer = server.ask("POST", "/v1/report", headers=headers, json=body())

    assert answer.status_code == 401
    assert "tidegate host enroll" in answer.json()["remedy"]
    assert answer.headers["www-authenticate"] == "Bearer"
    assert server.stored() == 0


def test_a_revoked_host_is_nobody(server: Server) -> None:
    """From the moment of the command."""
    server.world.store.hosts.revoke(H1, NOON)

    assert server.ask("POST", "/v1/report", headers=OF_H1, json=body()).status_code == 401
    assert server.stored() == 0


def test_a_token_speaks_for_its_host_alone(server: Server) -> None:
    """403, and nothing stored for either."""
    answer = server.ask("POST", "/v1/report", headers=OF_H1, json=body(host=H2))

    assert answer.status_code == 403
    assert "gpu-1's" in answer.json()["error"]
    assert server.stored() == 0


def nested(depth: int) -> bytes:
    return b'{"version": 1, "host": "gpu-1", "sent_at": 1, "layouts": ' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"\xff\xfe{}", 400),
        (b"<html>", 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"version": 1, "host": "gpu-1", "sent_at": 1', 400),
        (nested(100_000), 400),
        (json.dumps(body(sent_at=float("nan"))).encode(), 422),
        (json.dumps(body(sent_at="soon")).encode(), 422),
        (json.dumps(body(sent_at=1e11)).encode(), 422),
        (json.dumps(body(state={"nvml_why": "\ud800"})).encode(), 400),
        (json.dumps(body(state={"spool_reports": 2**70})).encode(), 422),
        (
            json.dumps(body(state={"engines": [{"name": "e", "url": "", "state": "ready", "gpus": 2**40}]})).encode(),
            422,
        ),
        (json.dumps(body(extra=1)).encode(), 422),
        (json.dumps(body(host="a\x00b")).encode(), 422),
        (json.dumps(body(host="../../etc")).encode(), 422),
        (json.dumps(body(reports=[{**body()["reports"][0], "values": "AAAA"}])).encode(), 422),
        (json.dumps(body(reports=[{**body()["reports"][0], "values": ""}])).encode(), 422),
        (json.dumps(body(reports=[{**body()["reports"][0], "values": "!"}])).encode(), 422),
        (json.dumps(body(reports=[{**body()["reports"][0], "sequence": 0}])).encode(), 422),
        (json.dumps(body(reports=[{**body()["reports"][0], "at": -1}])).encode(), 422),
        (json.dumps(body(reports=body()["reports"] * 501)).encode(), 422),
        (json.dumps(body(layouts=[{"id": "0" * 32, "series": body()["layouts"][0]["series"]}])).encode(), 422),
    ],
)
def test_a_malformed_report_is_a_4xx_with_place_and_remedy_and_stores_nothing(
    server: Server, content: bytes, status: int
) -> None:
    """Never a 500, never a traceback, never half a batch."""
    answer = server.ask("POST", "/v1/report", headers=OF_H1, content=content)

    assert answer.status_code == status, answer.text
    found = answer.json()
    assert found["error"]
    assert found["remedy"]
    assert "Traceback" not in answer.text
    assert server.stored() == 0
    assert server.world.store.hosts.records[H1].last_seen is None
    assert server.world.state.counts.tally().reports == {"malformed": 1}


def test_a_message_that_is_wrong_in_two_places_names_both(server: Server) -> None:
    """The engineer mends it in one go."""
    answer = server.ask("POST", "/v1/report", headers=OF_H1, json=body(sent_at="x", version="y"))

    assert {place["place"] for place in answer.json()["places"]} == {"sent_at", "version"}


@pytest.mark.parametrize("extra", [{}, {"new_key_of_version_9": 1}])
def test_an_unknown_wire_version_says_which_to_upgrade_first(server: Server, extra: dict[str, int]) -> None:
    """Also when the newer message has keys that this version cannot read."""
    answer = server.ask("POST", "/v1/report", headers=OF_H1, json=body(version=9, **extra))

    assert answer.status_code == 400
    assert "upgrade the controller first" in answer.json()["remedy"]


def test_an_oversized_report_is_refused_while_it_is_read(server: Server) -> None:
    """413: by its declared length before the first byte, and by what arrives when no length is declared."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 65_536 + 2):
            yield b" " * 65_536

    declared = server.ask("POST", "/v1/report", headers=OF_H1, content=b" " * (MAX_BODY_BYTES + 1))
    streamed = server.ask("POST", "/v1/report", headers=OF_H1, content=endless())

    assert (declared.status_code, streamed.status_code) == (413, 413)
    assert server.stored() == 0
    assert server.world.state.counts.tally().reports == {"too_large": 2}


def test_a_compressed_body_is_not_unpacked(server: Server) -> None:
    """A small body cannot become a large one."""
    headers = OF_H1 | {"Content-Encoding": "gzip"}

    assert server.ask("POST", "/v1/report", headers=headers, content=b"\x1f\x8b").status_code == 415


def test_a_store_that_is_away_makes_the_agent_keep_its_reports(server: Server) -> None:
    """503 with a time to wait; nothing acknowledged."""

    def away(*_: object) -> None:
        raise Transient("database does not answer")

    server.world.store.reports.accept = away  # type: ignore[method-assign,assignment]
    answer = server.ask("POST", "/v1/report", headers=OF_H1, json=body())

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert server.world.state.counts.tally().reports == {"failed": 1}


def test_a_host_whose_clock_is_off_is_stamped_on_receipt_and_that_is_said(server: Server) -> None:
    """An hour ahead: its reports belong to now, not to the future."""
    ahead = NOON + timedelta(hours=1)
    found = batch(H1, [reading(H1, ahead, [engine("vllm-a", ahead, running=1.0)])], host_state(2), sent_at=ahead)

    server.ask("POST", "/v1/report", headers=OF_H1, content=found.model_dump_json())

    (row,) = server.world.store.reports.rows.values()
    assert row.at == NOON
    server.world.run()
    host = server.ask("GET", "/v1/status").json()["hosts"][0]
    assert (host["name"], host["clock_offset_seconds"]) == (H1, 3600.0)


# --- desired state


def start_base(server: Server) -> None:
    """One tick that wants a replica on gpu-1."""
    server.world.report(H1, reading(H1, NOON), state=host_state(2))
    server.world.run()


def test_a_newer_desired_state_is_answered_at_once(server: Server) -> None:
    """Newer by revision, or of a newer term."""
    start_base(server)
    server.world.store.replicas.epoch += 1

    found = server.ask("GET", "/v1/desired?after_epoch=0&after=99", headers=OF_H1)

    assert found.json()["epoch"] == 1
    assert [one["replica_id"] for one in found.json()["replicas"]] == ["base-1"]
    assert server.ask("GET", "/v1/desired?after_epoch=1&after=1", headers=OF_H1).status_code == 204


def test_a_waiting_poll_is_woken_by_a_change_from_another_thread(server: Server) -> None:
    """A command does not wait for the next report."""
    server.world.report(H1, reading(H1, NOON), state=host_state(2))

    async def poll() -> httpx.Response:
        async with server.client() as client:
            waiting = asyncio.create_task(client.get("/v1/desired?wait=20", headers=OF_H1))
            while not server.bell._waiters:
                await asyncio.sleep(0)
            await asyncio.to_thread(server.world.run)
            await asyncio.to_thread(server.bell.ring, server.world.woken[0])
            return await waiting

    answer = asyncio.run(poll())

    assert [one["want"] for one in answer.json()["replicas"]] == ["run"]
    assert not server.bell._waiters


def test_a_change_between_looking_and_waiting_is_not_missed(server: Server) -> None:
    """The poll listens before it looks."""
    replicas = server.world.store.replicas
    look = replicas.desired

    def look_then_change(host: Any) -> Any:
        found = look(host)
        replicas.desired = look  # type: ignore[method-assign]
        start_base(server)
        server.bell.ring(server.world.woken[0])
        return found

    replicas.desired = look_then_change  # type: ignore[method-assign]

    assert server.ask("GET", "/v1/desired?wait=20", headers=OF_H1).json()["revision"] == 1


def test_a_stopping_server_lets_nobody_wait(server: Server) -> None:
    """Every poll is answered, so that the stop does not take 25 seconds."""
    server.bell.close()

    assert server.ask("GET", "/v1/desired?wait=20", headers=OF_H1).status_code == 204


def test_a_host_sees_its_own_desired_state_alone(server: Server) -> None:
    """The token says which."""
    start_base(server)

    other = server.ask("GET", "/v1/desired", headers={"Authorization": f"Bearer token of {H2}"})

    assert other.status_code == 204
    assert server.ask("GET", "/v1/desired").status_code == 401


# --- endpoints


def test_endpoints_are_the_ready_replicas_that_take_traffic(server: Server) -> None:
    """In http_sd's format; a replica that is told to drain is gone from it before its host has heard of it."""
    state = host_state(2, [own_engine(url="http://10.1.1.1:8000/metrics"), own_engine("local", gpu_indices=[1])])
    engines = [engine("vllm-a", NOON, running=0.0), engine("local", NOON, running=0.0)]
    server.world.report(H1, reading(H1, NOON, engines), state=state)
    server.world.run()

    found = server.ask("GET", "/v1/endpoints?service=chat").json()

    assert [group["targets"] for group in found] == [["gpu-1:8000"], ["10.1.1.1:8000"]]
    assert found[0]["labels"] == {
        "pool": "base",
        "service": "chat",
        "replica": "gpu-1/local",
        "host": "gpu-1",
        "state": "ready",
    }
    assert server.ask("GET", "/v1/endpoints?service=other").json() == []


# --- people


def test_status_decisions_and_cost_are_read_without_a_token(server: Server) -> None:
    """They say what the status page says."""
    start_base(server)

    status = server.ask("GET", "/v1/status").json()
    decisions = server.ask("GET", "/v1/decisions?pool=base&limit=1&changes=true").json()
    cost = server.ask("GET", "/v1/cost").json()

    assert [pool["name"] for pool in status["pools"]] == ["base", "burst"]
    assert status["summary"]["target"] == 1
    assert [(found["pool"], found["target"]) for found in decisions] == [("base", 1)]
    assert cost["total"]["state"] == "estimated"


@pytest.mark.parametrize(
    "query",
    [
        "cost?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z",
        "cost?since=1999-01-01T00:00:00Z",
        "cost?since=9999-12-31T23:59:59Z",
        "cost?since=2024-01-01T00:00:00Z&until=2026-01-01T00:00:00Z",
        "cost?from=2026-01-01T00:00:00Z",
        "decisions?limit=0",
        "decisions?limit=100000",
        "decisions?pool=%00",
        "decisions?pool=a%20b",
    ],
)
def test_a_question_out_of_bounds_is_a_422_that_names_it(server: Server, query: str) -> None:
    """Before it reaches the database."""
    answer = server.ask("GET", f"/v1/{query}")

    assert answer.status_code == 422
    assert answer.json()["error"]


def test_an_operator_enrolls_rotates_and_revokes_a_host(server: Server) -> None:
    """The token is in the answer and nowhere else; the old one stops working at once."""

    def command(action: str) -> httpx.Response:
        return server.ask("POST", "/v1/hosts", headers=OPERATOR, json={"action": action, "name": "gpu-7"})

    def speaks(token: str) -> bool:
        return server.ask("GET", "/v1/desired", headers={"Authorization": f"Bearer {token}"}).status_code == 204

    assert command("rotate").status_code == 404
    first = command("enroll").json()["token"]
    assert first.startswith("tgh_")
    assert speaks(first)
    assert command("enroll").status_code == 409
    second = command("rotate").json()["token"]
    assert (speaks(first), speaks(second)) == (False, True)
    assert command("revoke").json()["token"] == ""
    assert not speaks(second)
    assert command("enroll").status_code == 200
    assert {host["name"] for host in server.ask("GET", "/v1/hosts").json()} == {"gpu-1", "gpu-2", "gpu-7"}


def test_only_an_operator_commands(server: Server) -> None:
    """A viewer is told that he is one; a host's token is no user's."""
    wish = {"action": "enroll", "name": "gpu-7"}

    assert server.ask("POST", "/v1/hosts", json=wish).status_code == 401
    assert server.ask("POST", "/v1/hosts", headers=OF_H1, json=wish).status_code == 401
    assert server.ask("POST", "/v1/hosts", headers=VIEWER, json=wish).status_code == 403
    assert server.ask("POST", "/v1/users", headers=VIEWER, json={"name": "eve", "role": "operator"}).status_code == 403
    assert "gpu-7" not in server.world.store.hosts.records


def test_a_new_user_may_command_with_the_token_that_was_printed(server: Server) -> None:
    """And with no other."""
    token = server.ask("POST", "/v1/users", headers=OPERATOR, json={"name": "eve", "role": "operator"}).json()["token"]

    answer = server.ask(
        "POST",
        "/v1/hosts",
        headers={"Authorization": f"Bearer {token}"},
        json={"action": "enroll", "name": "gpu-7"},
    )

    assert answer.status_code == 200


def test_a_command_that_is_too_large_or_malformed_is_refused(server: Server) -> None:
    """Every route has a cap."""
    large = server.ask("POST", "/v1/hosts", headers=OPERATOR, content=b" " * 70_000)
    wrong = server.ask("POST", "/v1/hosts", headers=OPERATOR, json={"action": "enroll", "name": "a b", "more": 1})

    assert large.status_code == 413
    assert wrong.status_code == 422
    assert server.world.state.counts.tally().reports == {}, "it is no report"


# --- pages


def test_pages_are_served_with_headers_that_keep_scripts_out(server: Server) -> None:
    """In the language that the browser asks for, or that the link names."""
    start_base(server)

    page = server.ask("GET", "/", headers={"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"})

    assert '<html lang="zh">' in page.text
    assert '<html lang="en">' in server.ask("GET", "/?lang=en", headers={"Accept-Language": "zh"}).text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text


def test_metrics_health_and_readiness_answer(server: Server) -> None:
    """What monitors ask for."""
    start_base(server)

    metrics = server.ask("GET", "/metrics").text

    assert 'tidegate_pool_target_replicas{pool="base"} 1.0' in metrics
    assert server.ask("GET", "/-/healthy").text == "alive\n"
    assert server.ask("GET", "/-/ready").text == "ready\n"


def test_an_unknown_path_is_a_404_in_the_same_shape(server: Server) -> None:
    """Programs read one form of error."""
    assert server.ask("GET", "/v2/status").json() == {"error": "Not Found", "remedy": "", "places": []}
