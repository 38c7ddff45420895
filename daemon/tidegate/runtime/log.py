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
            _Terminal(colors=out.isatty()),
        ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=out),
    )
    _quiet_libraries()


class _Terminal:
    """structlog's renderer, with the lines of a text of several below the event instead of escaped in one."""

    def __init__(self, *, colors: bool) -> None:
        self._render = structlog.dev.ConsoleRenderer(colors=colors)

    def __call__(self, logger: WrappedLogger, name: str, event: EventDict) -> str:
        below = _several_lines(event, but="exception")  # which structlog shows by itself, and in colour
        return "\n".join((self._render(logger, name, event), *below))


def _several_lines(event: EventDict, but: str = "") -> list[str]:
    """Take texts of several lines (every problem of a configuration, a traceback) out of the event; their lines."""
    names = [name for name, text in event.items() if isinstance(text, str) and "\n" in text and name != but]
    return [f"    {line}" for name in names for line in event.pop(name).splitlines()]


def _journal_line(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    below = _several_lines(event)
    priority = _PRIORITIES.get(str(event.pop("level", "info")), 6)
    rendered = structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False)(None, "", event)
    lines = [*(str(rendered).splitlines() or [""]), *below]
    return "\n".join(f"<{priority}>{line}" for line in lines)


def _quiet_libraries() -> None:
    """Libraries speak through `logging`: their warnings are kept, their chatter is not."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s", force=True)
    for name in ("httpx", "httpcore", "uvicorn.access", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
