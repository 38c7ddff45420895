"""Hosts for the tests of the NVML reader."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fakes.nvml_host import HOUR, PATIENT, Host, MakeHost, build


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake driver library."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is absent (Debian package: gcc)")
    return build(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def make_host(driver: Path, tmp_path: Path, now: datetime, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeHost]:
    made: list[Host] = []
    faults = tmp_path / "faults"
    faults.touch()
    monkeypatch.setenv("FAKE_NVML_FAULTS", str(faults))
    for name in ("processes", "events", "left"):
        monkeypatch.setenv(f"FAKE_NVML_{name.upper()}", str(tmp_path / name))

    def make(
        machine: str = "h100x2", library: Path | None = None, timeout: timedelta = PATIENT, start: timedelta = HOUR
    ) -> Host:
        monkeypatch.setenv("FAKE_NVML_MACHINE", machine)
        made.append(Host(library or driver, faults, now, timeout, start))
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    return make_host()
