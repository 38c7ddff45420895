"""Live: agent and controller beside a real vLLM server on CPU under load, held against the engine's own counters."""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakes.agent_process import free_port
from soak.live_vllm import ROOT, Engine, Load, Witness, installed

pytestmark = pytest.mark.soak

MINUTES = float(os.environ.get("TIDEGATE_SOAK_MINUTES", "5"))
INTERVAL, WINDOW = 5.0, 30.0
CONTROLLER = """\
[controller]
listen = "127.0.0.1:{port}"
state_dir = "{folder}/controller"
tick_seconds = 5
view_window_seconds = 30
stale_after_seconds = 20
[cost]
price_per_gpu_hour = 2.0
[[service]]
name = "chat"
[[pool]]
name = "base"
service = "chat"
min = 1
max = 1
"""
AGENT = """\
[agent]
name = "cpu-1"
listen = "127.0.0.1:{port}"
controllers = ["{controller}"]
token_file = "{folder}/token"
state_dir = "{folder}/agent"
interval_seconds = 5
scrape_timeout_seconds = 4
window_seconds = 30
gpu_source = "none"
[[engine]]
name = "tiny"
url = "{engine}"
pool = "base"
service = "chat"
gpus = 1
"""


class Site:
    """Controller and agent as real processes, over one engine."""

    def __init__(self, folder: Path, engine: Engine, cleanup: ExitStack) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "controller.toml").write_text(CONTROLLER.format(port=self.port, folder=folder))
        self._run("controller", cleanup)
        eventually(lambda: httpx.get(f"{self.url}/-/healthy", timeout=2).is_success, "the controller serves", 60)
        token = folder / "controller" / "operator.token"
        eventually(token.exists, "the operator token is written", 30)
        enrolled = subprocess.run(
            [
                *(sys.executable, "-m", "tidegate", "host", "enroll", "cpu-1"),
                *("--controller", self.url, "--token-file", str(token)),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        (folder / "token").write_text(enrolled.stdout)
        (folder / "token").chmod(0o600)
        self.agent_port = free_port()
        (folder / "agent.toml").write_text(
            AGENT.format(port=self.agent_port, controller=self.url, folder=folder, engine=engine.url)
        )
        self.agent_pid = self._run("agent", cleanup)

    def _run(self, role: str, cleanup: ExitStack) -> int:
        with (self.folder / f"{role}.log").open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tidegate", role, "--config", self.folder / f"{role}.toml"],
                stdout=out,
                stderr=out,
            )
        cleanup.callback(process.wait, 60)
        cleanup.callback(process.terminate)
        return process.pid

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = httpx.get(f"{self.url}/v1/status", timeout=10).json()
        return answer

    def page(self) -> str:
        return httpx.get(f"{self.url}/", timeout=10).text

    def told(self) -> str:
        """What the status page's own data says of the engine, in words."""
        return " ".join(f"{replica['state']}: {replica['why']}" for replica in self.status()["replicas"])


def eventually(found: Callable[[], object], why: str, seconds: float) -> float:
    """Wait until it is so; how long it took."""
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        try:
            if found():
                return time.monotonic() - began
        except httpx.HTTPError:
            pass
        time.sleep(0.25)
    raise AssertionError(why)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    home = installed(Path(os.environ.get("TIDEGATE_VLLM", ROOT / ".soak" / "vllm")))
    server = Engine(home, free_port(), tmp_path_factory.mktemp("vllm") / "serve.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def site(engine: Engine) -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="tg-live-"))
    folder.chmod(0o711)
    with ExitStack() as cleanup:
        yield Site(folder, engine, cleanup)
    shutil.rmtree(folder, ignore_errors=True)


def test_under_load_the_figures_agree_with_the_engine_s_own_counters(engine: Engine, site: Site) -> None:
    witness, load = Witness(engine.url), Load(engine.url)
    seen: list[tuple[float, dict[str, Any]]] = []
    try:
        eventually(lambda: site.status()["pools"][0]["figures"]["kv_cache_hit_rate"], "figures appear", 90)
        time.sleep(WINDOW)
        until, last = time.monotonic() + MINUTES * 60, None
        while time.monotonic() < until:
            status = site.status()
            if status["tick_at"] != last:
                last = status["tick_at"]
                seen.append((time.time(), status["pools"][0]["figures"]))
            time.sleep(0.5)
    finally:
        load.stop()
        time.sleep(2)
        witness.stop()
    verdict = compare(witness, seen)
    print("\n" + "\n".join(f"{name:32} {text}" for name, text in verdict.items()))

    assert len(seen) >= MINUTES * 60 / INTERVAL * 0.8


def compare(witness: Witness, seen: list[tuple[float, dict[str, Any]]]) -> dict[str, str]:
    """Each tick's figures beside the witness' for the same window; the window's place is known to one interval."""
    verdict = {}
    for name, truth, tolerance in (
        ("kv_cache_hit_rate", lambda a, b: witness.increase("hits", a, b) / witness.increase("queries", a, b), 0.02),
        ("prompt_tokens_per_second", lambda a, b: witness.increase("prompt", a, b) / (b - a), 0.05),
        ("generation_tokens_per_second", lambda a, b: witness.increase("generation", a, b) / (b - a), 0.05),
    ):
        errors = []
        for at, figures in seen:
            # The newest reading of the tick is between nothing and two intervals old: the truth is one of these.
            ends = [at - back for back in (0.5, 2, 3.5, 5, 6.5, 8, 9.5)]
            spans = [WINDOW, WINDOW - INTERVAL]
            errors.append(min(abs(figures[name] / truth(end - span, end) - 1) for end in ends for span in spans))
        verdict[name] = f"{len(errors)} ticks, error median {statistics.median(errors):.2%}, worst {max(errors):.2%}"
        assert statistics.median(errors) <= tolerance, verdict
    for name, gauge in (("running", "running"), ("queue_depth", "waiting")):
        # A gauge moves with every step of the engine: what Tidegate says is one of its values in the last two
        # intervals, and over the whole run the means are the same.
        spans = [witness.around(gauge, at - INTERVAL, INTERVAL + 2) for at, _ in seen]
        inside = sum(min(span) <= figures[name] <= max(span) for (_, figures), span in zip(seen, spans, strict=True))
        said = statistics.mean(figures[name] for _, figures in seen)
        true = statistics.mean(value for span in spans for value in span)
        verdict[name] = (
            f"{inside} of {len(seen)} ticks within the engine's own range, mean {said:.2f} against {true:.2f}"
        )
        assert inside >= 0.9 * len(seen), verdict
        assert abs(said - true) <= 0.1 * true + 0.5, verdict
    return verdict


def test_stopping_freezing_and_starting_are_each_told_by_name(engine: Engine, site: Site) -> None:
    took = {"ready": eventually(lambda: site.told().startswith("ready"), "the engine is ready", 60)}

    load = Load(engine.url)
    time.sleep(10)
    try:
        freeze_while_busy(engine)
        took["stalled (core frozen)"] = eventually(lambda: "stalled" in site.told(), "stalled is told", 90)
        assert "stalled" in site.page()
        assert site.status()["pools"][0]["figures"]["queue_depth"] is None
        engine.signal_core(signal.SIGCONT)
        took["ready (core thawed)"] = eventually(lambda: site.told() == "ready: ", "ready again", 90)

        engine.signal_all(signal.SIGSTOP)
        took["hanging (all frozen)"] = eventually(lambda: "hanging" in site.told(), "hanging is told", 90)
        assert "hanging" in site.page()
        engine.signal_all(signal.SIGCONT)
        took["ready (all thawed)"] = eventually(lambda: site.told() == "ready: ", "ready again", 90)
    finally:
        load.stop()

    engine.stop()
    took["unreachable (stopped)"] = eventually(lambda: "unreachable" in site.told(), "unreachable is told", 90)
    assert "unreachable" in site.page()
    engine.start()
    took["ready (started again)"] = eventually(lambda: site.told() == "ready: ", "ready again", 90)
    print("\n" + "\n".join(f"{name:28} told after {seconds:5.1f} s" for name, seconds in took.items()))


def freeze_while_busy(engine: Engine) -> None:
    """Stop the core with requests in flight; one that froze while idle looks idle to everybody (docs/metrics.md)."""
    for _ in range(50):
        engine.signal_core(signal.SIGSTOP)
        time.sleep(1)
        body = httpx.get(f"{engine.url}/metrics", timeout=10).text
        if any(float(n) > 0 for n in re.findall(r"^vllm:num_requests_running\{[^}]*\} (\S+)$", body, re.MULTILINE)):
            return
        engine.signal_core(signal.SIGCONT)
        time.sleep(1)
    raise AssertionError("the engine was never seen with requests in flight")


def test_the_agent_is_light_beside_a_real_engine(site: Site) -> None:
    """Its memory, and its processor time per collection over a minute."""
    pages, ticks = Path(f"/proc/{site.agent_pid}/statm"), Path(f"/proc/{site.agent_pid}/stat")

    def processor_seconds() -> float:
        fields = ticks.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = processor_seconds()
    time.sleep(60)
    spent = processor_seconds() - before
    memory = int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    print(f"\nagent: {memory / 1e6:.0f} MB resident, {spent / (60 / INTERVAL) * 1000:.0f} ms CPU per collection")

    assert memory < 150e6
