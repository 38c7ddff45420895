"""How soon `/metrics` answers while a GPU hangs and two engines time out: it is answered from the last snapshot.

The real agent with its NVML child, eight GPUs and eight engines of eight ranks; on its own clock, but at an interval
of 2 s, so that collections with all their time-outs go on throughout. Exits 1 when the median is over the bound.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from parts.agent import AgentProcess, build_driver, scrape
from parts.engines import Engines
from parts.table import Bounds, show

ENGINES = 8
SPEED = 7.5
"""An interval of 15 s in 2 s; time-outs stay in real seconds."""
SCRAPES = 300
PAUSE = 0.04
MOST_MEDIAN_MS = 10


def answers(port: int) -> list[float]:
    """Milliseconds of each scrape, spread over many collections."""
    times = []
    for _ in range(SCRAPES):
        began = time.perf_counter()
        scrape(port)
        times.append(1000 * (time.perf_counter() - began))
        time.sleep(PAUSE)
    return times


def measure(folder: Path) -> dict[str, list[float]]:
    """By what is wrong."""
    faults, hanging = folder / "faults", folder / "hanging"
    faults.touch()
    hanging.touch()
    driver = build_driver(folder)
    with (
        Engines(ENGINES, hanging) as engines,
        AgentProcess(folder, engines.ports, driver, SPEED, {"FAKE_NVML_FAULTS": str(faults)}) as agent,
    ):
        agent.wait_for(5, 0.2)
        well = answers(agent.port)
        faults.write_text(
            "nvmlDeviceGetTemperature 3 -1\nnvmlDeviceGetTemperatureV 3 -1\nnvmlDeviceGetFieldValues 3 -1\n"
        )
        hanging.write_text(" ".join(map(str, engines.ports[:2])))
        told = agent.collections()
        agent.wait_for(told + 3, 0.2)
        ill = answers(agent.port)
        page = scrape(agent.port)
        down = [line for line in page.splitlines() if line.startswith("tidegate_engine_up{") and line.endswith(" 0.0")]
        if len(down) != 2 or (driver is not None and not _gpu_is_ill(page)):
            raise RuntimeError(f"the faults are not seen: engines {down}")
    return {"all well": well, "a GPU hangs, two engines time out": ill}


def _gpu_is_ill(page: str) -> bool:
    gpus = [line for line in page.splitlines() if line.startswith(("tidegate_gpu_up{", "tidegate_nvml_up"))]
    return any(line.endswith(" 0.0") for line in gpus)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    show(
        (f"ms of {SCRAPES} scrapes", "median", "p95", "worst"),
        [
            (name, f"{statistics.median(ms):.1f}", f"{statistics.quantiles(ms, n=20)[-1]:.1f}", f"{max(ms):.1f}")
            for name, ms in found.items()
        ],
    )
    bounds = Bounds()
    for name, ms in found.items():
        median = statistics.median(ms)
        bounds.hold(f"{name}: under {MOST_MEDIAN_MS} ms at the median: {median:.1f}", kept=median < MOST_MEDIAN_MS)
    return 1 if bounds.broken else 0


if __name__ == "__main__":
    sys.exit(main())
