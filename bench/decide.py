"""Our decision core against every autoscaler we know, on three public traces: the tables of docs/performance.md.

`make bench-decide` plays them (half an hour on two cores; what did not change is not played again) and writes the
section between the marks. `--quick` plays the two hours alone and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from parts.decide_runs import BOUND, OURS, ROOT, STORM, TRACES, Job, Result, play
from parts.decide_tables import Tables

from tidegate.simulate.faults import NAMES

STARTS = (30.0, 240.0, 600.0)
HOURS = ("azure", "mooncake")
DEFAULTS = ("kpa", "ray", "apa", "skyserve", "wva", "dynamo", "gpu-utilisation", "hpa")
HPA = tuple(f"hpa-{target}" for target in (3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40))
OTHERS = tuple(
    f"{name}-{target}"
    for name, targets in {"kpa": (6, 10, 16, 24, 32, 40), "ray": (4, 8, 16, 24), "apa": (4, 8, 12, 20, 28)}.items()
    for target in targets
) + tuple(f"skyserve-{target}" for target in (0.3, 0.5, 2, 3))
STATIC = tuple(f"static-{count}" for count in range(4, 13))
SEEDS = {"azure": 3, "mooncake": 3, "m-large": 1, "m-large day": 1}
MARKS = ("<!-- bench-decide: begin -->", "<!-- bench-decide: end -->")
PAGE = ROOT / "docs" / "performance.md"


def jobs_of(trace: str) -> list[Job]:
    """Everything that is played on one trace."""
    jobs = []
    for start in STARTS if trace != "m-large day" else (240.0,):
        jobs.append(Job(trace, start, BOUND))
        tuned = (*STATIC, *HPA, *(OTHERS if trace in HOURS else ()))
        jobs += [Job(trace, start, policy) for policy in (*DEFAULTS, *tuned)]
        jobs += [Job(trace, start, OURS, "none", seed) for seed in range(SEEDS[trace])]
        if trace != "m-large day":
            jobs += [Job(trace, start, policy, STORM) for policy in (OURS, *DEFAULTS, *HPA)]
    return jobs + [Job(trace, 240.0, OURS, faults) for faults in NAMES]


def main() -> int:
    """Play, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the two hours alone; the page stays as it is")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    options = parser.parse_args()
    if not TRACES.is_dir():
        print(f"no traces in {TRACES}: set TIDEGATE_SHARED to the folder that has traces/", file=sys.stderr)
        return 1
    traces = HOURS if options.quick else (*HOURS, "m-large", "m-large day")
    results: dict[Job, Result | None] = play([job for trace in traces for job in jobs_of(trace)], options.jobs)
    text = Tables(results, traces, STARTS).text()
    print(text)
    if not options.quick:
        page = PAGE.read_text()
        before, after = page.partition(MARKS[0])[0], page.partition(MARKS[1])[2]
        PAGE.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
