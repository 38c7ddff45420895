"""How fast an engine's page is read: ours (the wanted families, and everything) against prometheus_client, same bodies.

Prints the medians of one run and their ratio; exits 1 when ours is not the faster one on every body.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tidegate.observe.engines import WANTED
from tidegate.observe.textformat import parse

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 15


def bodies() -> dict[str, bytes]:
    """Real pages where the shared folder is, the small hand-written one anyway, and one of eight ranks made of it."""
    shared = Path(os.environ.get("TIDEGATE_SHARED", ROOT / ".." / "shared")) / "captures"
    found = {
        f"{path.parent.name}/{path.name}": path.read_bytes() for path in sorted(shared.glob("vllm-0*/*load-b.prom"))
    }
    small = (ROOT / "tests/captures/two-ranks-b.prom").read_bytes()
    found["two ranks, small"] = small
    base = next(iter(found.values()))
    ranks = (base.replace(b'engine="0"', b'engine="%d"' % rank) for rank in range(8))
    found["eight ranks"] = b"".join(ranks)
    return found


def median_ms(work: Callable[[], object]) -> float:
    """The median of ROUNDS timed calls, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def main() -> int:
    print(f"{'body':<28}{'samples':>8}{'wanted ms':>11}{'all ms':>9}{'client ms':>11}{'ratio':>8}{'ratio all':>11}")
    slower = 0
    for name, body in bodies().items():
        wanted = median_ms(lambda body=body: parse(body, WANTED))
        everything = median_ms(lambda body=body: parse(body))
        client = median_ms(lambda body=body: list(text_string_to_metric_families(body.decode())))
        samples = sum(map(len, parse(body).samples.values()))
        slower += client <= max(wanted, everything)
        print(
            f"{name:<28}{samples:>8}{wanted:>11.2f}{everything:>9.2f}{client:>11.2f}"
            f"{client / wanted:>7.1f}x{client / everything:>10.1f}x"
        )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
