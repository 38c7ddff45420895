"""Our decision core against every autoscaler we know, on three public traces: the tables of docs/performance.md.

`make bench-decide` plays them (a quarter of an hour on two idle cores; what did not change is not played again) and
writes the section between the marks. `--quick` plays the two hours alone and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from parts.decide_runs import BOUND, OURS, ROOT, STORM, TRACES, Job, Result, kept_of, play
from parts.decide_tables import Tables

from tidegate.simulate.faults import NAMES

STARTS = (30.0, 240.0, 600.0)
HOURS, STEPS = ("azure", "mooncake"), "m-large day"
DEFAULTS = ("hpa", "kpa", "ray", "apa", "skyserve", "wva", "dynamo", "gpu-utilisation")
HPA = tuple(f"hpa-{target}" for target in (4, 6, 8, 12, 16, 20, 24, 28, 32))
OTHERS = tuple(
    f"{name}-{target}"
    for name, targets in {"kpa": (10, 24, 40), "ray": (6, 12, 20), "apa": (6, 12, 24), "skyserve": (0.4, 2)}.items()
    for target in targets
)
STATIC = tuple(f"static-{count}" for count in range(5, 13))
SEEDS = {"azure": 3, "mooncake": 3, "m-large": 1}
MARKS = ("<!-- bench-decide: begin -->", "<!-- bench-decide: end -->")
PAGE = ROOT / "docs" / "performance.md"


def jobs_of(trace: str) -> list[Job]:
    """Everything that is played on one trace, what matters most first."""
    if trace == STEPS:  # what the fluid model says is checked by the steps, for those that matter
        return [Job(trace, 240.0, policy) for policy in (OURS, "hpa-20", "hpa-24", "static-6", "static-7")]
    jobs = [Job(trace, 240.0, policy) for policy in (BOUND, *DEFAULTS, *HPA, *STATIC)]
    jobs += [Job(trace, start, OURS, "none", seed) for start in STARTS for seed in range(SEEDS[trace])]
    jobs += [Job(trace, 240.0, OURS, faults) for faults in NAMES]
    jobs += [Job(trace, start, policy) for start in (30.0, 600.0) for policy in (BOUND, *DEFAULTS, *HPA)]
    jobs += [Job(trace, start, policy, STORM) for start in STARTS for policy in (OURS, *DEFAULTS)]
    return jobs + [Job(trace, 240.0, policy) for policy in (OTHERS if trace in HOURS else ())]


def main() -> int:
    """Play, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the two hours alone; the page stays as it is")
    parser.add_argument("--others", action="store_true", help="play all but ours, for a later run")
    parser.add_argument("--kept", action="store_true", help="play nothing; write what was played before")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    options = parser.parse_args()
    if not TRACES.is_dir():
        print(f"no traces in {TRACES}: set TIDEGATE_SHARED to the folder that has traces/", file=sys.stderr)
        return 1
    traces = HOURS if options.quick else (*HOURS, "m-large", STEPS)
    jobs = [job for trace in traces for job in jobs_of(trace) if job.policy != OURS or not options.others]
    results: dict[Job, Result | None] = kept_of(jobs) if options.kept else play(jobs, options.jobs)
    if options.others:
        return 0
    text = Tables(results, traces, STARTS).text()
    print(text)
    if not options.quick:
        page = PAGE.read_text()
        before, after = page.partition(MARKS[0])[0], page.partition(MARKS[1])[2]
        PAGE.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
