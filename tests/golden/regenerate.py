"""Write the golden files of our metrics anew: `PYTHONPATH=daemon:tests python tests/golden/regenerate.py`.

Read the difference before you commit it: metric names are a contract with every dashboard and alert out there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fakes.agent_snapshot import busy_host

from tidegate.expose.agent_metrics import AgentCollector
from tidegate.expose.exposition import render
from tidegate.expose.families import FAMILIES
from tidegate.expose.metrics_doc import with_tables

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs" / "metrics.md"
HOW = "if this change is meant: PYTHONPATH=daemon:tests python tests/golden/regenerate.py, and a line in CHANGELOG.md"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def expected() -> Iterator[tuple[Path, str]]:
    """Every golden file with what it should hold now."""
    rows = (f"{f.role} {f.kind} {f.name}{{{','.join(f.labels)}}}" for f in FAMILIES.values())
    yield HERE / "families.txt", "".join(f"{row}\n" for row in sorted(rows))
    collector = AgentCollector(busy_host)
    yield HERE / "agent.prom", render(collector)[0].decode()
    yield HERE / "agent.openmetrics", render(collector, OPENMETRICS)[0].decode()
    yield DOCUMENT, with_tables(DOCUMENT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for path, text in expected():
        path.write_text(text, encoding="utf-8")
