"""At any speed the demo's intervals are long enough for real processes, and its files are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.config.load import load
from tidegate.demo.configuration import Addresses, agent_file, controller_file
from tidegate.demo.gpus import SimulatedHost
from tidegate.demo.pace import Pace, minutes_beside
from tidegate.model.policy import Mode

HOSTS = [SimulatedHost("base-1", 2, 21_000), SimulatedHost("burst-1", 3, 21_002)]


@pytest.mark.parametrize("minutes", [0.5, 1.0, 2.5, 72.0, 1440.0])
def test_intervals_have_a_floor_in_real_time_and_fit_into_each_other(minutes: float) -> None:
    pace = Pace.of_minutes(minutes)
    assert pace.agent_interval.total_seconds() / pace.speed >= 0.3
    assert pace.tick.total_seconds() / pace.speed >= 0.5
    assert pace.view_window >= 3 * pace.agent_interval
    assert pace.stale_after > 2 * pace.agent_interval
    assert pace.load < pace.start_deadline
    assert pace.drain_grace < pace.drain_deadline
    assert pace.alert_shows >= pace.alert_window + pace.alert_hold


@pytest.mark.parametrize("minutes", [0.5, 1.0, 2.5, 72.0, 1440.0])
def test_the_files_pass_the_check(minutes: float, tmp_path: Path) -> None:
    """Both load as they stand, and say what the demo is about."""
    addresses = Addresses(
        tmp_path,
        20_000,
        {host.name: 20_001 + k for k, host in enumerate(HOSTS)},
        "http://127.0.0.1:1/g",
        "http://127.0.0.1:1/h",
    )
    addresses.secret_file.write_text("whsec_" + "A" * 43 + "=")
    addresses.token_file("burst-1").write_text("tgh_x")
    (tmp_path / "controller.toml").write_text(controller_file(addresses, HOSTS, Pace.of_minutes(minutes)))
    (tmp_path / "agent.toml").write_text(agent_file(addresses, HOSTS[1], Pace.of_minutes(minutes)))
    controller, agent = load(tmp_path / "controller.toml"), load(tmp_path / "agent.toml")
    assert controller.fleet.mode is Mode.ACT
    assert {name: (pool.min, pool.max) for name, pool in controller.fleet.pools.items()} == {
        "base": (2, 2),
        "burst": (0, 5),
    }
    assert agent.agent is not None
    assert "{port}" in agent.agent.templates[0].command


@pytest.mark.parametrize(("load", "minutes"), [(0.0, 2.5), (4.0, 2.5), (6.0, 3.8), (8.0, 5.0), (300.0, 5.0)])
def test_a_busy_machine_plays_a_slower_day(load: float, minutes: float) -> None:
    assert minutes_beside(load, cores=2) == minutes
