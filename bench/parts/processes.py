"""What a process and its children cost, as the kernel counts it (proc(5))."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """The process and its children."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(child) for one in children for child in one.read_text().split())]


def cpu_seconds(pids: list[int]) -> float:
    """User and system time so far; what ended is in its parent's figure."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(text) for text in fields[11:13])  # utime, stime
    return total / _TICK


def pss_bytes(pids: list[int]) -> int:
    """Proportional set size: shared pages are divided among those that share them."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total
