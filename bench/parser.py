"""How fast an engine's page is read: ours against prometheus_client's parser, over the same bodies in one run.

Prints medians of CPU time. "again" is a body of an engine whose last one is known, as at every scrape but the first;
"figures" is the whole way from bytes to a reading; "walk" is the floor: a bare loop over the lines. Exits 1 when the
page of eight ranks is not read twenty times faster than by prometheus_client.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from parts.bodies import ROOT, Body, captures, eight_ranks
from parts.table import Bounds, show
from prometheus_client.parser import text_string_to_metric_families

from tidegate.model.reading import EngineName
from tidegate.observe.body import body_parser, read_body
from tidegate.observe.engines import WANTED
from tidegate.observe.textformat import parse

ROUNDS = 25
TIMES_FASTER = 20
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


def bodies() -> list[Body]:
    """Real pages where the shared folder is, a small hand-written one, and that of eight ranks."""
    real = [
        Body(path.read_text(), f"{path.parent.name}/{path.name}")
        for engine in ("vllm", "sglang")
        for path in sorted(captures().glob(f"{engine}-*[0-9]/load-b.prom"))
    ]
    small = Body((ROOT / "tests/captures/two-ranks-b.prom").read_text(), "two ranks, small")
    return [small, *real, eight_ranks()]


def median_ms(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The median CPU time of a call, in milliseconds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times) * 1000


def walk(text: str) -> None:
    """What no parser in this language can undercut."""
    for _line in text.split("\n"):
        pass


def times_of(body: Body) -> dict[str, float]:
    """Milliseconds by column, all of one body."""
    data, known = body.text.encode(), body_parser()
    known.parse(data, CONTENT_TYPE)
    return {
        "walk": median_ms(lambda: walk(body.text)),
        "again": median_ms(lambda: known.parse(data, CONTENT_TYPE)),
        "figures": median_ms(lambda: read_body(EngineName("engine"), data, NOW, CONTENT_TYPE, known)),
        "first": median_ms(lambda: parse(data, WANTED, CONTENT_TYPE)),
        "everything": median_ms(lambda: parse(data, None, CONTENT_TYPE)),
        "client": median_ms(lambda: list(text_string_to_metric_families(body.text)), 9),
    }


def main() -> int:
    columns = ("walk", "again", "figures", "first", "everything", "client")
    found = [(body, times_of(body)) for body in bodies()]
    show(
        ("body (ms of CPU, medians)", "samples", "kB", *columns, "client/again", "client/figures"),
        [
            (
                body.origin,
                body.samples,
                len(body.text) // 1000,
                *(f"{ms[column]:.2f}" for column in columns),
                f"{ms['client'] / ms['again']:.0f}x",
                f"{ms['client'] / ms['figures']:.0f}x",
            )
            for body, ms in found
        ],
    )
    eight, bounds = found[-1][1], Bounds()
    ratio = eight["client"] / eight["again"]
    bounds.hold(f"eight ranks parsed {TIMES_FASTER}x faster: {ratio:.0f}x", kept=ratio >= TIMES_FASTER)
    whole = eight["client"] / eight["figures"]
    bounds.hold(f"and read to its figures {TIMES_FASTER}x faster: {whole:.0f}x", kept=whole >= TIMES_FASTER)
    return 1 if bounds.broken else 0


if __name__ == "__main__":
    sys.exit(main())
