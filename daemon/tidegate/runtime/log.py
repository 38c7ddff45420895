"""Logs for the journal or for a terminal: one event a line, a short constant phrase and its fields."""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send events of at least `level` to stderr: with `<N>` priorities under the journal, in colour on a terminal."""
    out = stream or sys.stderr
    processors: list[Processor] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level]
    if "JOURNAL_STREAM" in os.environ:
        processors += [structlog.processors.format_exc_info, _journal_line]
    else:
        processors += [
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(colors=out.isatty()),
        ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=out),
    )
    _quiet_libraries()


def _journal_line(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    priority = _PRIORITIES.get(str(event.pop("level", "info")), 6)
    rendered = structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False)(None, "", event)
    lines = str(rendered).splitlines() or [""]
    return "\n".join(f"<{priority}>{line}" for line in lines)


def _quiet_libraries() -> None:
    """Libraries speak through `logging`: their warnings are kept, their chatter is not."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s", force=True)
    for name in ("httpx", "httpcore", "uvicorn.access", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
