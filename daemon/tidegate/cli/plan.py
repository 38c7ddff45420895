"""`tidegate plan --stdio`: the decision core for other schedulers, one observation a line in, one plan a line out."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tidegate.link.planner.session import Session

LONGEST_LINE = 64 * 1024 * 1024


def plan(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Read observations on stdin and write plans on stdout.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", readable=False, help="Limits, goals and prices; else the observation's hold."),
    ] = None,
    memory: Annotated[
        Path | None, typer.Option(help="Keep what was learned in this file, so that a restart loses nothing.")
    ] = None,
) -> None:
    """Answer each line with a plan until stdin ends (exit 0) or SIGTERM. The format: docs/planner.md."""
    if not stdio:
        raise typer.BadParameter("say --stdio: plans are made of the lines on stdin")
    from tidegate.decide.plan import plan as decide
    from tidegate.link.planner.session import Session
    from tidegate.runtime.errors import Permanent

    policy = None
    if config is not None:
        from tidegate.config.load import load

        policy = load(config).fleet
    try:
        _converse(Session(decide, policy), memory)
    except BrokenPipeError:
        raise Permanent("nobody reads the plans any more: the pipe on stdout is closed") from None


def _converse(session: Session, file: Path | None) -> None:
    from tidegate.link.planner.answer import error_line
    from tidegate.link.planner.memory_file import read_memory, write_memory
    from tidegate.runtime.lines import bounded_lines, stop_descriptor

    memory, news = read_memory(file)
    for word in news:
        print(f"tidegate: {word}", file=sys.stderr)
    with stop_descriptor() as stop:
        for number, line in enumerate(bounded_lines(sys.stdin.fileno(), stop, LONGEST_LINE), start=1):
            if line is None:
                _say(error_line(f"line {number}: longer than {LONGEST_LINE} bytes; send one fleet at a time"))
                continue
            turn = session.turn(line, number, memory, news)
            if turn.memory is not memory:
                memory, news = turn.memory, write_memory(file, turn.memory)
            _say(turn.answer)


def _say(line: bytes) -> None:
    """At once and unbuffered: the caller waits for it."""
    left = memoryview(line)
    while left:
        left = left[os.write(sys.stdout.fileno(), left) :]
