"""The scorecard's tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from parts.decide_runs import BOUND, OURS, STORM, Job, Result

GOAL = 0.99
TITLES = {
    "azure": "Azure chat, one hour (four copies, 21 requests/s)",
    "mooncake": "Mooncake conversation, one hour (long prompts)",
    "m-large": "ServeGen m-large, its third day, fluid model",
    "m-large day": "The same day of m-large in the step model",
}


@dataclass(frozen=True)
class Tables:
    """All results, by job."""

    results: dict[Job, Result | None]
    traces: Sequence[str]
    starts: Sequence[float]

    def text(self) -> str:
        """The whole section."""
        parts = [part for trace in self.traces for part in (f"### {TITLES[trace]}", self._policies(trace))]
        parts += ["### Ours under each fault, start 240 s", self._faults()]
        parts += ["### Against the best of the others", self._summary()]
        return "\n\n".join(["", *parts, ""])

    def _starts(self, trace: str) -> list[float]:
        """The start times that were meant to be played on this trace."""
        return [start for start in self.starts if start == 240.0 or trace != "m-large day"]

    def _bound(self, trace: str, start: float) -> Result | None:
        return self.results.get(Job(trace, start, BOUND))

    def _policies(self, trace: str) -> str:
        starts = self._starts(trace)
        head = ["policy", *(f"{start:g} s" for start in starts), *(f"{start:g} s, all faults" for start in starts)]
        rows = [["clairvoyant", *(self._cell(trace, start, BOUND) for start in starts), *("" for _ in starts)]]
        for label, pick in self._rows(trace):
            cells = [self._cell(trace, start, pick(start)) for start in starts]
            cells += [self._cell(trace, start, pick(start), STORM) for start in starts]
            if set(cells) != {"-"}:
                rows.append([label, *cells])
        return _table(head, rows)

    def _rows(self, trace: str) -> Iterator[tuple[str, object]]:
        yield "**Tidegate**", lambda _: OURS
        yield "best tuned in hindsight", lambda start: self._best(trace, start, tuned=True)
        yield "HPA, tuned in hindsight", lambda start: self._best(trace, start, "hpa-")
        # a constant size does not start anything, so one start time tells all
        yield "static, p99", lambda _: self._best(trace, 240.0, "static-")
        yield "static, peak (12)", lambda _: "static-12"
        for name, label in {
            "hpa": "HPA, 16 in flight",
            "kpa": "Knative KPA (100)",
            "ray": "Ray Serve (2)",
            "apa": "AIBrix APA, 16",
            "skyserve": "SkyServe, 4 requests/s",
            "wva": "llm-d WVA v1",
            "dynamo": "Dynamo, load loop",
            "gpu-utilisation": "GPU utilisation 75/30 %",
        }.items():
            yield label, lambda _, name=name: name

    def _best(self, trace: str, start: float, prefix: str = "", *, tuned: bool = False) -> str:
        """The cheapest policy of those that keep the goal; empty where none does."""
        found = {
            job.policy: result
            for job, result in self.results.items()
            if result
            and (job.trace, job.start, job.faults) == (trace, start, "none")
            and job.policy.startswith(prefix)
            and job.policy not in {OURS, BOUND}
            and not (tuned and job.policy.startswith("static"))
            and result.attainment >= GOAL
        }
        return min(found, key=lambda policy: found[policy].hours, default="")

    def _seeds(self, trace: str, start: float, policy: str, faults: str) -> list[Result]:
        return [
            result
            for job, result in self.results.items()
            if result and (job.trace, job.start, job.policy, job.faults) == (trace, start, policy, faults)
        ]

    def _cell(self, trace: str, start: float, policy: str, faults: str = "none") -> str:
        if not policy:
            return self._none(trace, start) if faults == "none" else "-"
        runs, bound = self._seeds(trace, start, policy, faults), self._bound(trace, start)
        if not runs:
            return "-"
        hours = sum(run.hours for run in runs) / len(runs)
        ratio = f", x{hours / bound.hours:.2f}" if bound and policy != BOUND else ""
        named = f" ({policy})" if "-" in policy and policy != "gpu-utilisation" and faults == "none" else ""
        return f"{min(run.attainment for run in runs) * 100:.2f} %, {hours:.1f} h{ratio}{named}"

    def _none(self, trace: str, start: float) -> str:
        """Why there is no best: none is good enough, or not all were played."""
        played = any(self._seeds(trace, start, policy, "none") for policy in ("hpa-4", "hpa-20"))
        return "none keeps it" if played else "-"

    def _faults(self) -> str:
        head = ["trace", "fault", "SLO", "hours against none", "reversals/day", "wasted", "failed", "lost", "blind"]
        rows = []
        for trace in self.traces:
            plain = self.results.get(Job(trace, 240.0, OURS))
            for job, run in self.results.items():
                if run is None or plain is None or (job.trace, job.policy, job.start) != (trace, OURS, 240.0):
                    continue
                if job.seed or job.faults == STORM:
                    continue
                rows.append(
                    [
                        trace,
                        job.faults,
                        f"{run.attainment * 100:.2f} %",
                        f"x{run.hours / plain.hours:.2f}",
                        f"{run.reversals_per_day:.0f}",
                        f"{run.wasted * 100:.0f} %",
                        str(run.failed),
                        str(run.lost),
                        str(run.blind_shrinks),
                    ]
                )
        return _table(head, rows)

    def _summary(self) -> str:
        head = [
            "trace, start",
            "ours",
            "bound",
            "best tuned",
            "ours against it",
            "fixed HPA for all",
            "ours against it",
        ]
        fixed = self._fixed_hpa()
        rows = []
        for trace in self.traces:
            for start in self._starts(trace):
                ours, bound = self._mean(trace, start, OURS), self._bound(trace, start)
                best, one = self._best(trace, start, tuned=True), fixed.get(start, "")
                rows.append(
                    [
                        f"{trace}, {start:g} s",
                        f"{ours:.1f} h" if ours else "-",
                        f"x{ours / bound.hours:.2f}" if bound and ours else "-",
                        best or self._none(trace, start),
                        _against(ours, self._mean(trace, start, best)),
                        one or self._none(trace, start),
                        _against(ours, self._mean(trace, start, one)),
                    ]
                )
        return _table(head, rows)

    def _fixed_hpa(self) -> dict[float, str]:
        """For each start time the HPA target that keeps the goal on every trace at the least hours in all."""
        fixed = {}
        for start in self.starts:
            kept: dict[str, list[Result]] = {}
            traces: set[str] = set()
            for job, result in self.results.items():
                whole = job.start == start and job.faults == "none" and job.trace in self.traces[:3]
                if whole and job.policy.startswith("hpa-") and result:
                    kept.setdefault(job.policy, []).append(result)
                    traces.add(job.trace)
            good = {
                policy: sum(result.hours for result in results)
                for policy, results in kept.items()
                if len(results) == len(traces) and all(result.attainment >= GOAL for result in results)
            }
            fixed[start] = min(good, key=lambda policy: good[policy], default="")
        return fixed

    def _mean(self, trace: str, start: float, policy: str) -> float:
        runs = self._seeds(trace, start, policy, "none")
        return sum(run.hours for run in runs) / len(runs) if runs else 0.0


def _against(ours: float, other: float) -> str:
    return f"{(ours / other - 1) * 100:+.0f} %" if ours and other else "-"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
