"""What an agent costs on a host with eight GPUs and eight engines of eight ranks each, beside a light exporter.

The real agent, its real NVML child over a driver library of our own, and engines in a process of their own. Its clock
is played fast, so that an hour's 240 cycles run back to back, each with one scrape of its page; then a second one
runs at its own pace, where caches are cold and idle threads cost too. CPU time is that of the agent and its child
together, as is the proportional set size (PSS). Debian's node exporter is scraped as often. Exits 1 when a bound is
broken.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parts.agent import GPUS, AgentProcess, build_driver, free_port, scrape
from parts.engines import Engines
from parts.processes import cpu_seconds, family, pss_bytes
from parts.table import Bounds, show

ENGINES = 8
INTERVAL_SECONDS = 15.0
CYCLES = 240
EARLY = 60
SPEED = 150.0
PACED_CYCLES = 3
MOST_CPU_MS = 150
MOST_SHARE = 0.01
MOST_PSS = 80e6
GROWTH = 0.05
"""The allocator's noise between an early and a late figure; what is alive stays the same to a tenth of a percent."""
NODE_EXPORTER = "prometheus-node-exporter"


def agent_figures(engines: Engines, folder: Path) -> tuple[float, float, float]:
    """CPU milliseconds a cycle, PSS after EARLY cycles and after CYCLES."""
    every = INTERVAL_SECONDS / SPEED
    with AgentProcess(folder, engines.ports, build_driver(folder), SPEED) as agent:
        agent.wait_for(10, every)
        processes, first = family(agent.pid), agent.collections()
        began = cpu_seconds(processes)
        agent.wait_for(EARLY, every)
        early = pss_bytes(processes)
        agent.wait_for(CYCLES, every)
        spent, last, late = cpu_seconds(processes) - began, agent.collections(), pss_bytes(processes)
        if family(agent.pid) != processes:
            raise RuntimeError("the NVML child was replaced on the way")
    return 1000 * spent / (last - first), early, late


def share_at_its_own_pace(engines: Engines, folder: Path) -> float:
    """The share of a core over some real intervals, with one scrape in each."""
    with AgentProcess(folder, engines.ports, build_driver(folder), 1.0) as agent:
        agent.wait_for(1, 0.5)
        processes, began = family(agent.pid), time.perf_counter()
        spent = cpu_seconds(processes)
        for _ in range(PACED_CYCLES):
            time.sleep(INTERVAL_SECONDS)
            scrape(agent.port)
        return (cpu_seconds(processes) - spent) / (time.perf_counter() - began)


def node_exporter(folder: Path) -> str | None:
    """The program: the installed one, else Debian's package unpacked into the folder, which starts no service."""
    program = shutil.which(NODE_EXPORTER)
    if program is None and shutil.which("apt-get"):
        unpack = f"apt-get -qq download {NODE_EXPORTER} && dpkg-deb -x {NODE_EXPORTER}_*.deb ."
        subprocess.run(["sh", "-c", unpack], cwd=folder, check=False, capture_output=True)
        program = shutil.which(folder / "usr" / "bin" / NODE_EXPORTER)
    return program


def node_exporter_figures(folder: Path) -> tuple[float, float, float] | None:
    """The same of Debian's node exporter; None, with a word on stderr, where it is not to be had."""
    program = node_exporter(folder)
    if program is None:
        print(f"no light exporter to compare with (Debian package: {NODE_EXPORTER})", file=sys.stderr)
        return None
    port = free_port()
    command = [program, f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1.0)
        scrape(port)
        began, early = cpu_seconds([process.pid]), 0
        for number in range(CYCLES):
            scrape(port)
            if number == EARLY:
                early = pss_bytes([process.pid])
        return 1000 * (cpu_seconds([process.pid]) - began) / CYCLES, early, pss_bytes([process.pid])
    finally:
        process.terminate()
        process.wait(10)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, Engines(ENGINES) as engines:
        ours = agent_figures(engines, Path(folder))
        share = share_at_its_own_pace(engines, Path(folder))
        peer = node_exporter_figures(Path(folder))
    named = (("agent and NVML child", ours), (NODE_EXPORTER, peer))
    rows = [
        (
            name,
            f"{found[0]:.1f}",
            f"{found[1] / 1e6:.1f}",
            f"{found[2] / 1e6:.1f}",
        )
        for name, found in named
        if found is not None
    ]
    print(f"{GPUS} GPUs, {ENGINES} engines of 8 ranks, {CYCLES} cycles with a scrape each")
    show(("", "ms of CPU a cycle", f"MB after {EARLY}", f"MB after {CYCLES}"), rows)
    cpu_ms, early, late = ours
    bounds = Bounds()
    bounds.hold(f"a cycle under {MOST_CPU_MS} ms of CPU: {cpu_ms:.0f}", kept=cpu_ms < MOST_CPU_MS)
    at_pace = f"under {MOST_SHARE:.0%} of a core at an interval of {INTERVAL_SECONDS:.0f} s: {share:.2%}"
    bounds.hold(at_pace, kept=share < MOST_SHARE)
    bounds.hold(f"PSS under {MOST_PSS / 1e6:.0f} MB after an hour's cycles: {late / 1e6:.1f}", kept=late < MOST_PSS)
    bounds.hold(f"and no growth: {late / early - 1:+.1%} since {EARLY}", kept=late < early * (1 + GROWTH))
    return 1 if bounds.broken else 0


if __name__ == "__main__":
    sys.exit(main())
