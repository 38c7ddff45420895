"""Errors by what to do next: mend the configuration, try again, or call a person."""

from __future__ import annotations

from datetime import timedelta

EXIT_CONFIG = 78
"""EX_CONFIG of sysexits.h; the units' RestartPreventExitStatus."""


class TidegateError(Exception):
    """Any error that Tidegate explains in one line: what, where, and the remedy."""


class ConfigError(TidegateError):
    """The configuration cannot be honoured; the program exits 78 and waits for a person."""


class Transient(TidegateError):  # noqa: N818 - named for what to do
    """Waiting helps: the next tick tries again."""


class Busy(Transient):
    """Another transaction held what we needed for longer than we would wait."""


class Permanent(TidegateError):  # noqa: N818 - named for what to do
    """Waiting does not help: stop trying this one thing, keep the rest, tell a person."""


class TryLater(Transient):
    """Waiting helps, and the other side said for how long."""

    def __init__(self, message: str, after: timedelta) -> None:
        super().__init__(message)
        self.after = after
