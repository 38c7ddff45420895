"""A host where everything fails at random, its real agent, and Debian's Prometheus that scrapes it: what must hold."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

import httpx
from fakes.agent_parts import NOON
from fakes.agent_process import ROOT, eventually, free_port
from fakes.chaos_engine import ChaosEngine
from fakes.nvml_host import build
from fakes.prometheus_process import PrometheusProcess
from prometheus_client.parser import text_string_to_metric_families

from tidegate.runtime.clock import VARIABLE, ScaledClock

SPEED = 75.0
"""An interval of 15 s in a fifth of a second; time-outs stay in real seconds."""
PAUSE = 0.1
GPU_FAULTS = (
    "",
    "",
    "nvmlDeviceGetUtilizationRates 1 15",  # lost
    "nvmlDeviceGetPowerUsage 0 999",
    "nvmlDeviceGetTemperature 1 3",
    "nvmlDeviceGetMemoryInfo_v2 0 15",
    "nvmlDeviceGetUtilizationRates 0 -1",  # hangs
    "nvmlDeviceGetCount_v2 -1 9",  # the driver is gone
    "nvmlInitWithFlags -1 18",
)
_CONFIG = """\
[agent]
name = "gpu-1"
listen = "127.0.0.1:{port}"
state_dir = "{folder}/state"
scrape_timeout_seconds = 0.3
nvml_timeout_seconds = 0.6
"""
_ENGINE = '\n[[engine]]\nname = "{name}"\nurl = "{url}"\n'
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
_COUNTS = ("_total", "_bucket", "_count")


class Soak:
    """Runs so many collections; `wrong` is everything that was found."""

    def __init__(self, folder: Path, seed: int, every: str) -> None:
        self.wrong: list[str] = []
        self.pages = 0
        self._random = Random(seed)
        self._folder, self._port = folder, free_port()
        self._faults = folder / "gpu-faults"
        self._faults.touch()
        self.engines = [ChaosEngine(f"engine-{k}", seed, with_start=k % 2 == 0) for k in range(4)]
        self._prometheus = PrometheusProcess(folder / "prometheus", self._port, every)
        self._before: Series = {}
        self._drops: Counter[str] = Counter()

    def run(self, collections: int) -> None:
        """From the start of everything to its end."""
        with ExitStack() as stack:
            for engine in self.engines:
                stack.enter_context(engine)
            agent = self._start()
            try:
                eventually(lambda: self._look() > 0, "the agent does not start", 30.0)
                stack.enter_context(self._prometheus)
                self._watch(agent, collections)
                self._ask_prometheus()
            finally:
                agent.terminate()
                self._note(agent.wait(20.0) == 0, "the agent did not end in order")
        log = (self._folder / "agent.log").read_text()
        self._note("Traceback" not in log, f"a traceback in the log: {log[-4000:]}")
        for engine in self.engines:
            drops = self._drops[engine.name]
            self._note(drops <= engine.restarts, f"{engine.name}: {drops} pages fell, {engine.restarts} restarts")

    def _start(self) -> subprocess.Popen[bytes]:
        driver, config = self._folder / "driver", self._folder / "agent.toml"
        driver.mkdir()
        config.write_text(
            _CONFIG.format(port=self._port, folder=self._folder)
            + "".join(_ENGINE.format(name=engine.name, url=engine.url) for engine in self.engines)
        )
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "daemon"),
            "LD_LIBRARY_PATH": str(build(driver)),
            "FAKE_NVML_MACHINE": "h100x2",
            "FAKE_NVML_FAULTS": str(self._faults),
            VARIABLE: ScaledClock(time.time(), NOON, SPEED).text(),
        }
        command = [sys.executable, "-m", "tidegate", "agent", "--config", str(config)]
        with (self._folder / "agent.log").open("w") as log:
            return subprocess.Popen(command, env=environment, stderr=log)

    def _watch(self, agent: subprocess.Popen[bytes], collections: int) -> None:
        done = 0
        while done < collections and agent.poll() is None:
            now = self._look()
            if now > done and self._random.random() < 0.2:
                self._faults.write_text(self._random.choice(GPU_FAULTS) + "\n")
            done = now
            time.sleep(PAUSE)
        self._note(done >= collections, f"only {done} collections")

    def _look(self) -> int:
        """Check one page; answers how many collections there were."""
        try:
            page = httpx.get(f"http://127.0.0.1:{self._port}/metrics", trust_env=False).text
        except httpx.HTTPError as error:
            if self.pages:
                self.wrong.append(f"no answer: {error!r}")
            return 0
        series = self._read(page)
        made = int(series.get(("tidegate_collections_total", frozenset()), 0))
        if made:
            self.pages += 1
            self.wrong += [f"collection {made}: {problem}" for problem in self._problems(series)]
            self._before = series
        return made

    def _read(self, page: str) -> Series:
        series: Series = {}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                self._note(key not in series, f"twice in one page: {key}")
                series[key] = sample.value
        return series

    def _problems(self, series: Series) -> Iterable[str]:
        yield from _impossible(series)
        yield from _figures_of_the_missing(series)
        yield from self._strange_totals(series)
        fallen = [key for key, value in series.items() if value < self._before.get(key, -math.inf) and _counts(key)]
        engines = {dict(labels).get("engine", "") for _, labels in fallen}
        self._drops.update(engines - {""})
        yield from (f"fell, and is no engine's: {key}" for key in fallen if "engine" not in dict(key[1]))

    def _strange_totals(self, series: Series) -> Iterable[str]:
        """A total that the engine never told whole."""
        told = {engine.name: engine.generated for engine in self.engines}
        for (name, labels), value in series.items():
            if name == "tidegate_generation_tokens_total" and value not in told[dict(labels)["engine"]]:
                yield f"{dict(labels)['engine']} never told {value} generated tokens"

    def _ask_prometheus(self) -> None:
        prometheus = self._prometheus
        eventually(lambda: len(prometheus.query("up")) == 1, "never scraped")
        for target in prometheus.targets():
            self._note(not target["lastError"], f"scrape error: {target['lastError']}")
        self._note([value for _, value in prometheus.over_all("min_over_time", "up")] == [1.0], "up was 0")
        least = prometheus.over_all("min_over_time", "scrape_samples_post_metric_relabeling")[0][1]
        most = prometheus.over_all("max_over_time", "scrape_samples_post_metric_relabeling")[0][1]
        self._note(50 < least <= most < 3000, f"{least} to {most} samples a scrape")
        refused = re.findall(
            r"^(prometheus_target_scrapes_(?:sample_\w+|exceeded_\w+)_total) ([1-9].*)$", prometheus.own_metrics(), re.M
        )
        self._note(not refused, f"Prometheus refused samples: {refused}")
        gone = prometheus.ever("tidegate_running_requests and on (engine) (tidegate_engine_up == 0)")
        gone += prometheus.ever("tidegate_generation_tokens_per_second and on (engine) (tidegate_engine_up == 0)")
        gone += prometheus.ever("tidegate_gpu_utilization and on (uuid) (tidegate_gpu_up == 0)")
        self._note(not gone, f"figures of the missing: {gone}")
        self._ask_for_resets(prometheus)

    def _ask_for_resets(self, prometheus: PrometheusProcess) -> None:
        restarts = {engine.name: engine.restarts for engine in self.engines}
        for name in prometheus.names():
            if name.startswith("tidegate_") and name.endswith(_COUNTS):
                for labels, resets in prometheus.over_all("resets", name, " > 0"):
                    allowed = restarts.get(labels.get("engine", ""), 0)
                    self._note(resets <= allowed, f"{name}{labels}: {resets} resets, {allowed} restarts")

    def _note(self, holds: bool, problem: str) -> None:
        if not holds:
            self.wrong.append(problem)


def _counts(key: tuple[str, frozenset[tuple[str, str]]]) -> bool:
    return key[0].endswith(_COUNTS)


def _impossible(series: Series) -> Iterable[str]:
    for key, value in series.items():
        if not math.isfinite(value) or (_counts(key) and value < 0):
            yield f"impossible: {key} {value}"


def _figures_of_the_missing(series: Series) -> Iterable[str]:
    """A figure that is told to be missing has no value; an engine that gave no page has no totals."""
    present = {(name, dict(labels).get("engine", dict(labels).get("uuid", ""))) for name, labels in series}
    for (name, labels), value in series.items():
        said = dict(labels)
        if name == "tidegate_figure_missing" and (f"tidegate_{said['figure']}", said["engine"]) in present:
            yield f"missing, and there: {said}"
        if name == "tidegate_gpu_up" and value == 0.0 and ("tidegate_gpu_power_watts", said["uuid"]) in present:
            yield f"a GPU that is down has a power: {said}"
        silent = name == "tidegate_engine_state" and value == 1.0 and said["state"] not in ("ready", "stalled")
        if silent and ("tidegate_generation_tokens_total", said["engine"]) in present:
            yield f"{said['engine']} is {said['state']}, and has totals"


def shown(wrong: Sequence[str]) -> str:
    """The first of the problems, one a line."""
    return "\n".join([f"{len(wrong)} problems", *wrong[:20]])
