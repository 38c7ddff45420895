"""Write the controller's golden files anew: `PYTHONPATH=daemon:tests python tests/golden/regenerate_controller.py`.

Read the difference before you commit it, and look at the page in a browser when it changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from fakes.overview import overview

from tidegate.expose.controller_metrics import ControllerCollector
from tidegate.expose.exposition import render as exposition
from tidegate.expose.status_page import render

HERE = Path(__file__).resolve().parent
HOW = "if this change is meant: PYTHONPATH=daemon:tests python tests/golden/regenerate_controller.py"
NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
READY = (True, "ready")
LATE = (False, "the last tick went through 400 s ago: database db/tidegate does not answer")


def expected() -> Iterator[tuple[Path, str]]:
    """Every golden file with what it should hold now; the pages without their style."""
    fleet = overview(NOON)
    for language in ("en", "zh"):
        yield HERE / f"status.{language}.html", body(render(fleet, NOON, READY, language))
    empty = replace(
        fleet,
        at=None,
        pools=(),
        replicas=(),
        hosts=(),
        decisions=(),
        alerts=(),
        cost=None,
        billed=None,
        notes=(),
        jobs=(),
    )
    yield HERE / "status.empty.html", body(render(replace(empty, config_reload_ok=False), NOON, LATE, "en"))
    yield HERE / "controller.prom", exposition(ControllerCollector(fleet, NOON, fresh=True))[0].decode()


def body(page: str) -> str:
    """The part of the page that is not style."""
    return page[page.index("<body>") :] + "\n"


if __name__ == "__main__":
    for path, text in expected():
        path.write_text(text, encoding="utf-8")
