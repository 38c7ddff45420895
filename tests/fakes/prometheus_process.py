"""Debian's Prometheus over one target on loopback: what it says of its scrapes, and of what it scraped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakes.agent_process import eventually, free_port

_CONFIG = """\
global: {{scrape_interval: {every}, scrape_timeout: {every}}}
scrape_configs:
  - job_name: agent
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
_SPAN = "1d"
"""Longer than any test: all that was scraped."""


class PrometheusProcess:
    """Started by `with`; skips the test where Prometheus is absent."""

    def __init__(self, folder: Path, target_port: int, every: str) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("prometheus is absent (Debian package: prometheus)")
        folder.mkdir()
        self._log, port = folder / "log", free_port()
        (folder / "prometheus.yml").write_text(_CONFIG.format(port=target_port, every=every))
        self.url = f"http://127.0.0.1:{port}"
        self._command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]

    def __enter__(self) -> PrometheusProcess:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        eventually(self._ready, f"Prometheus did not start: {self._log}", 60.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30.0)

    def over_all(self, function: str, selector: str, outside: str = "") -> list[tuple[dict[str, str], float]]:
        """A function over all samples of a selector, as (labels, value); `outside` is put behind it."""
        return self.query(f"{function}({selector}[{_SPAN}]){outside}")

    def ever(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """How often an expression had a value, at steps of a second, by series; empty when it never had."""
        return self.query(f"count_over_time(({expression})[{_SPAN}:1s])")

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """An instant query now."""
        found = self._get("/api/v1/query", query=expression)
        return [(one["metric"], float(one["value"][1])) for one in found["result"]]

    def names(self) -> list[str]:
        """Every metric's name."""
        found: list[str] = self._get("/api/v1/label/__name__/values")
        return found

    def targets(self) -> list[dict[str, Any]]:
        """The active targets, with the last error of each."""
        found: list[dict[str, Any]] = self._get("/api/v1/targets")["activeTargets"]
        return found

    def own_metrics(self) -> str:
        """What Prometheus says of itself."""
        return httpx.get(f"{self.url}/metrics", trust_env=False).text

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def _get(self, path: str, **parameters: str) -> Any:
        answer = httpx.get(f"{self.url}{path}", params=parameters, timeout=60.0, trust_env=False).json()
        assert answer["status"] == "success", answer
        return answer["data"]
