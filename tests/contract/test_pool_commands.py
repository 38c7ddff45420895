"""Operators' commands over a pool: from the command line through /v1 into the next tick, and the log of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from fakes.clock import ManualClock
from fakes.controller_world import (
    BASE,
    BURST,
    CHAT,
    H1,
    H2,
    World,
    engine,
    fleet_policy,
    host_state,
    own_engine,
    reading,
)
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.config.settings import Settings
from tidegate.expose.controller_pages import ControllerPages
from tidegate.link.application import build_app
from tidegate.link.command_client import CommandClient
from tidegate.link.pool_client import PoolClient
from tidegate.link.pool_messages import ModeCommand, PauseCommand, WishCommand
from tidegate.model.decision import Limit
from tidegate.model.fleet import Value
from tidegate.model.policy import Mode, PolicyName, ServicePolicy
from tidegate.runtime.errors import Permanent
from tidegate.runtime.serve import HttpServer, tcp
from tidegate.runtime.tokens import token_hash


@dataclass
class Desk:
    """A controller that serves, and an operator at his command line."""

    world: World
    url: str
    token: Path

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--controller", self.url], catch_exceptions=True)

    def command(self, *words: str) -> Result:
        return self.run(*words, "--token-file", str(self.token))

    def tick(self, seconds: float = 15, load: float = 25.0) -> None:
        """Time passes, the host of base reports some load, the controller looks."""
        self.world.clock.forward(seconds)
        now = self.world.clock.now()
        self.world.report(
            H1,
            reading(H1, now, [engine("vllm-a", now, running=load)]),
            state=host_state(2, [own_engine()], seen_at=now),
        )
        self.world.report(H2, reading(H2, now), state=host_state(4, seen_at=now))
        self.world.run()


@pytest.fixture
def desk(now: datetime, tmp_path: Path) -> Iterator[Desk]:
    world = World(ManualClock(now), Settings(Path("tidegate.toml"), target_policy()))
    world.enroll(H1, H2)
    world.store.users.add("ann", "operator", token_hash("operators"), now)
    world.store.users.add("vic", "viewer", token_hash("viewers"), now)
    token = tmp_path / "token"
    token.write_text("operators\n")
    server = HttpServer(
        build_app(world.api, ControllerPages(world.clock, lambda: (True, ""))), tcp("127.0.0.1", 0), "t"
    )
    server.start()
    try:
        yield Desk(world, f"http://127.0.0.1:{server.port}", token)
    finally:
        server.stop()


def target_policy() -> object:
    policy = fleet_policy()
    return replace(policy, services={CHAT: replace(policy.services[CHAT], policy=PolicyName.TARGET)})


def decided(desk: Desk, pool: str) -> set[Limit]:
    (found,) = [one.decision for one in desk.world.state.overview().pools if one.policy.name == pool]
    assert found is not None
    return set(found.limits)


def test_a_paused_pool_is_decided_and_shown_and_nothing_is_done(desk: Desk) -> None:
    desk.tick(load=5)
    assert "burst is paused from growing until" in desk.command("pool", "pause", "burst", "--out", "--for", "2h").output
    desk.tick()

    assert [one for one in desk.world.store.replicas.load() if one.managed and one.pool == BURST] == []
    assert Limit.PAUSED in decided(desk, BURST)
    shown = desk.run("pool", "explain", "burst").output
    assert "pause out by ann, until" in shown
    assert "paused" in shown

    assert "burst is resumed" in desk.command("pool", "resume", "burst").output
    assert "burst was not paused" in desk.command("pool", "resume", "burst").output
    desk.tick()
    assert Limit.PAUSED not in decided(desk, BURST)
    assert [one for one in desk.world.store.replicas.load() if one.pool == BURST]


def test_a_pause_ends_by_itself(desk: Desk) -> None:
    desk.tick(load=5)
    desk.command("pool", "pause", "burst", "--for", "60s")
    desk.tick()
    assert Limit.PAUSED in decided(desk, BURST)
    desk.tick(seconds=60)
    assert Limit.PAUSED not in decided(desk, BURST)


def test_bounds_hold_for_a_time_and_are_named(desk: Desk) -> None:
    desk.tick(load=5)
    said = desk.command("pool", "bounds", "burst", "--max", "1", "--for", "1h").output
    assert "burst has 0 to 1 replicas until" in said
    desk.tick()
    assert len([one for one in desk.world.store.replicas.load() if one.pool == BURST]) == 1
    assert "bounds ..1 by ann" in desk.run("pool", "explain", "burst").output
    assert "configured bounds again" in desk.command("pool", "bounds", "burst", "--clear").output


def test_the_mode_is_set_for_a_while_and_given_back(desk: Desk) -> None:
    desk.tick()
    assert "the mode is paused" in desk.command("pool", "mode", "paused").output
    desk.tick()
    assert desk.world.state.overview().mode is Mode.PAUSED
    assert "mode paused by ann, until it is ended" in desk.run("pool", "explain", "base").output
    assert "the configured one" in desk.command("pool", "mode", "configured").output
    desk.tick()
    assert desk.world.state.overview().mode is Mode.ACT


def test_the_list_and_the_explanation_are_read_without_a_token(desk: Desk) -> None:
    assert "no pools" in desk.run("pool", "list").output
    desk.tick()
    listed = desk.run("pool", "list").output.splitlines()
    assert listed[0].startswith("POOL")
    assert [line.split()[0] for line in listed[1:]] == ["base", "burst"]
    shown = desk.run("pool", "explain", "base").output
    for word in (
        "decision",
        "why",
        "bound by",
        "may change",
        "start time",
        "signal     gpu-1/vllm-a running = 25, 0 s old",
    ):
        assert word in shown
    assert '"requests_per_second"' in desk.run("pool", "explain", "base", "--json").output
    assert desk.run("pool", "list", "--json").output.startswith('[{"pool":')


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pool", "explain", "brust"), "there is no pool brust; one of base, burst"),
        (("pool", "pause", "none", "--token-file", "TOKEN"), "there is no pool none"),
        (("pool", "pause", "burst", "--for", "2 hours", "--token-file", "TOKEN"), "write a number and s, m, h or d"),
        (("pool", "pause", "burst", "--for", "0s", "--token-file", "TOKEN"), "write a number and s, m, h or d"),
        (("pool", "bounds", "burst", "--max", "1", "--token-file", "TOKEN"), "and --for how long (or --clear)"),
        (("pool", "bounds", "burst", "--min", "4", "--for", "1h", "--token-file", "TOKEN"), "min (4) is above max (3)"),
        (("pool", "mode", "off", "--token-file", "TOKEN"), "must be one of advise, act, paused, configured"),
    ],
)
def test_what_cannot_be_done_is_told_with_the_remedy(desk: Desk, words: tuple[str, ...], told: str) -> None:
    desk.tick()
    found = desk.run(*[str(desk.token) if word == "TOKEN" else word for word in words])
    assert found.exit_code != 0
    assert told in " ".join((found.output + str(found.exception)).replace("│", " ").split())


def test_only_an_operator_commands_and_the_log_names_him(desk: Desk, tmp_path: Path) -> None:
    desk.tick()
    other = tmp_path / "viewer"
    other.write_text("viewers")
    calls: list[Callable[[PoolClient], object]] = [
        lambda client: client.pause("burst", PauseCommand()),
        lambda client: client.resume("burst"),
        lambda client: client.bounds("burst", None),
        lambda client: client.mode(ModeCommand(mode=Mode.PAUSED)),
        lambda client: client.wish("chat", WishCommand(replicas=2)),
    ]
    for call in calls:
        with pytest.raises(Permanent, match="vic is a viewer"):
            call(PoolClient(CommandClient(desk.url, other)))
    desk.command("pool", "pause", "burst", "--in")
    desk.command("pool", "resume", "burst")
    (only,) = desk.world.api.commands(10)
    assert (only.order.by, only.ended_by) == ("ann", "ann")


def test_a_wish_of_another_program_sizes_a_service_under_external(desk: Desk, now: datetime) -> None:
    client = PoolClient(CommandClient(desk.url, desk.token))
    desk.tick()
    with pytest.raises(Permanent, match="chat is sized by target"):
        client.wish("chat", WishCommand(replicas=3))
    external = replace(fleet_policy(), services={CHAT: ServicePolicy(CHAT, policy=PolicyName.EXTERNAL)})
    desk.world.settings = replace(desk.world.settings, fleet=external)
    desk.world.current.reload(now)
    desk.tick()
    with pytest.raises(Permanent, match="there is no service chit; one of chat"):
        client.wish("chit", WishCommand(replicas=3))

    assert desk.command("pool", "wish", "chat", "3", "--for", "1m").output.startswith(
        "3 replicas of chat are wished for"
    )
    desk.tick()
    sizes = {one.policy.name: one.decision.target for one in desk.world.state.overview().pools if one.decision}
    assert sizes == {BASE: 1, BURST: 2}
    desk.tick(seconds=100)
    (held,) = [one.decision for one in desk.world.state.overview().pools if one.policy.name == BURST]
    assert held is not None
    assert held.target == 2
    assert "hears nothing from its external program" in held.reason


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bounds", "burst", "--clear", "--min", "2"], "leave --min, --max and --for"),
        (["bounds", "burst", "--min", "2"], "say --min or --max, and --for how long"),
        (["mode", "configured", "--for", "1h"], "leave --for out"),
        (["wish", "chat", "-1"], ""),
    ],
)
def test_words_that_would_be_passed_over_are_refused(desk: Desk, words: list[str], said: str) -> None:
    result = desk.command("pool", *words)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
    assert desk.world.api.commands(10) == []


@pytest.mark.parametrize("name", ["", "..", "a/../b"])
def test_what_is_no_name_is_said_to_be_none(desk: Desk, name: str) -> None:
    result = desk.run("pool", "explain", name)
    assert result.exit_code == 1
    assert "is no name of a pool" in str(result.exception)


def test_a_wish_says_how_old_it_is(now: datetime) -> None:
    from tidegate.controller.governed import external_wishes
    from tidegate.model.command import ExternalWish

    policy = replace(fleet_policy(), services={CHAT: ServicePolicy(CHAT, policy=PolicyName.EXTERNAL)})
    later = now + timedelta(seconds=50)
    assert external_wishes(policy, [ExternalWish(CHAT, 3, now, "x")], later)[CHAT] == Value(3, timedelta(seconds=50))


def test_the_stored_past_is_replayed_under_another_configuration(desk: Desk, tmp_path: Path) -> None:
    for _ in range(8):
        desk.tick(load=25)
    file = tmp_path / "new.toml"
    file.write_text(
        '[[service]]\nname = "chat"\npolicy = "target"\n[service.target]\nin_flight_per_replica = 5\n'
        '[[pool]]\nname = "base"\nmax = 1\nprice_per_gpu_hour = 2\n'
        '[[pool]]\nname = "burst"\nkind = "burst"\nmax = 8\nprice_per_gpu_hour = 3\n'
    )
    before = desk.world.store.replicas.load()

    said = desk.run("replay", "--config", str(file), "--since", "10m").output
    data = json.loads(desk.run("replay", "--config", str(file), "--since", "10m", "--json").output)

    assert "7 ticks: was -> would have been" in said
    assert data["pools"]["burst"]["ticks_that_differ"] > 0
    assert {(one["was"], one["would"]) for one in data["differences"]} >= {(2, 4)}
    assert desk.world.store.replicas.load() == before

    assert desk.run("replay", "--config", str(file), "--since", "0h").exit_code == 2
    told = desk.run("replay", "--config", str(tmp_path / "none.toml"), "--since", "1h")
    assert "none.toml" in str(told.exception)


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("2026-11-25T12:00:00Z", "2026-11-25T12:00:00Z"),
        ("2026-11-25T12:00:00Z", "2026-11-25T13:00:01Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ("2026-11-25T12:00:00", "2026-11-25T12:30:00"),
    ],
)
def test_figures_are_asked_for_an_hour_at_a_time(desk: Desk, since: str, until: str) -> None:
    answer = httpx.get(f"{desk.url}/v1/figures", params={"since": since, "until": until})
    assert answer.status_code == 422
    assert answer.json()["remedy"]
