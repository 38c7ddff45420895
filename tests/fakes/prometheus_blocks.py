"""Debian's Prometheus over a past that was made: blocks written by promtool, no scraping, any moment."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import httpx
import pytest
from fakes.agent_process import eventually, free_port

from tidegate.model.scrape import SampleSeries


class LoadedPrometheus:
    """Started by `with`; skips the test where Prometheus is absent."""

    def __init__(self, folder: Path, series: Iterable[SampleSeries]) -> None:
        program, tool = shutil.which("prometheus"), shutil.which("promtool")
        if program is None or tool is None:
            pytest.skip("prometheus is absent (Debian package: prometheus)")
        folder.mkdir()
        (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
        (folder / "samples.om").write_text(openmetrics(series))
        making = [tool, "tsdb", "create-blocks-from", "openmetrics", folder / "samples.om", folder / "data"]
        made = subprocess.run(making, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        self._log, port = folder / "log", free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=3650d",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LoadedPrometheus:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        eventually(self._ready, f"Prometheus did not start: {self._log}", 50.0)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30.0)

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False


def openmetrics(series: Iterable[SampleSeries]) -> str:
    """The samples with their times in OpenMetrics, a name's together, without types."""
    lines: dict[str, list[str]] = {}
    for one in series:
        name = one.labels["__name__"]
        written = f"{name}{{{_labels(one.labels)}}}"
        lines.setdefault(name, []).extend(f"{written} {_number(value)} {at:.3f}" for at, value in one.points)
    return "\n".join(line for name in sorted(lines) for line in lines[name]) + "\n# EOF\n"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ((name, value) for name, value in sorted(labels.items()) if name != "__name__")
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else repr(value)
