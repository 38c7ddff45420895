"""`tidegate db prune`, `backfill` and `export`: forget what is old, work figures out anew, take a period away."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from tidegate.cli.db import ConfigOption, DsnOption, which_database
from tidegate.runtime.errors import ConfigError, Permanent

if TYPE_CHECKING:
    from tidegate.store.export import Export, Rows

_Advance = Callable[[int], object]
_Since = Annotated[str, typer.Option("--since", help="Where the period begins: 2026-11-25 or 2026-11-25T12:00Z; UTC.")]
_Until = Annotated[str, typer.Option("--until", help="Where it ends; now when it is left out.")]


def prune(config: Annotated[Path, typer.Option("--config", "-c", readable=False, help="The configuration.")]) -> None:
    """Forget now what is older than the configuration keeps; the controller does the same every hour."""
    address, state_dir = which_database(config, None)
    from tidegate.config.load import load
    from tidegate.runtime.clock import clock_from_environment
    from tidegate.store.opening import visited
    from tidegate.store.store import Store

    kept = load(config).controller
    now = clock_from_environment().now()
    with visited(address, state_dir) as database:
        store = Store(database)
        done = store.retention.prune(now, kept.retention, kept.history, kept.levels)
        parts = [*done.days, *store.figures.prune(now, kept.history)]
    typer.echo(f"dropped {len(parts)} parts whole and deleted {done.rows} rows")


def backfill(
    since: _Since = "",
    until: _Until = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is marked already.")] = False,
    config: ConfigOption = None,
    dsn: DsnOption = None,
) -> None:
    """Work rollups and token usage out anew for a period, from the samples that are kept; safe while a controller runs.

    Stopped in the middle, the controller does the rest, or this command with --resume.
    """
    if bool(since) == resume:
        raise ConfigError("say which period: --since TIME [--until TIME]; or --resume to go on with an earlier one")
    address, state_dir = which_database(config, dsn)
    from tidegate.runtime.clock import clock_from_environment
    from tidegate.store.backfill import Backfill
    from tidegate.store.opening import visited

    clock = clock_from_environment()
    with visited(address, state_dir) as database:
        work, now = Backfill(database), clock.now()
        left = work.waiting(now) if resume else work.mark(*_period(since, until, now), now)
        total = left.total
        with _bar("backfill", total) as advance:
            while left.total:
                before, left = left, work.step(clock.now())
                if left.total >= before.total:
                    break  # what comes in now is the controller's
                advance(before.total - left.total)
    typer.echo(f"{total - left.total} pieces worked out anew, {left.total} left to the controller")


def export(
    file: Annotated[Path, typer.Argument(help="The file to write; - writes CSV to standard output.")],
    since: _Since,
    until: _Until = "",
    step: Annotated[
        float | None, typer.Option("--step", min=1, help="Seconds of a value; without it every sample is written.")
    ] = None,
    metrics: Annotated[list[str] | None, typer.Option("--metric", help="Only this metric; may be repeated.")] = None,
    hosts: Annotated[list[str] | None, typer.Option("--host", help="Only this host; may be repeated.")] = None,
    config: ConfigOption = None,
    dsn: DsnOption = None,
) -> None:
    """Write a period as Parquet or (a name that ends in .csv) as CSV: a row a sample, with labels, missing ones empty.

    With --step: gauges as means, counters as increases. In a notebook: pandas.read_parquet(FILE).
    """
    address, state_dir = which_database(config, dsn)
    from tidegate.runtime.clock import clock_from_environment
    from tidegate.store.export import rows_of
    from tidegate.store.history import StoredHistory
    from tidegate.store.opening import visited

    _check_name(file)
    wanted = _wanted(since, until, step, metrics, hosts, clock_from_environment().now())
    with visited(address, state_dir) as database, _bar("export", 1000) as advance:
        pieces = _told(rows_of(StoredHistory(database), wanted), advance)
        count = _write(file, pieces)
    typer.echo(f"{file}: {count} rows", err=str(file) == "-")


def _wanted(
    since: str, until: str, step: float | None, metrics: list[str] | None, hosts: list[str] | None, now: datetime
) -> Export:
    from tidegate.model.history import metric
    from tidegate.store.export import Export

    try:
        chosen = tuple(metric(name) for name in metrics or ())
    except ValueError as error:
        raise ConfigError(f"--metric: {error}") from error
    first, last = _period(since, until, now)
    if step is not None and step % 1:
        raise ConfigError(f"--step {step:g}: write a whole number of seconds")
    return Export(first, last, None if step is None else timedelta(seconds=step), chosen, tuple(hosts or ()))


def _write(file: Path, pieces: Iterable[Rows]) -> int:
    if str(file) == "-":
        return _write_csv(sys.stdout, pieces)
    with _whole(file) as partial:
        if file.suffix == ".csv":
            with partial.open("w", newline="", encoding="utf-8") as out:
                return _write_csv(out, pieces)
        from tidegate.store.parquet import write_parquet

        return write_parquet(partial, pieces)


def _check_name(file: Path) -> None:
    """Before anything is read: a wrong name is told at once."""
    if str(file) != "-" and file.suffix not in (".csv", ".parquet"):
        raise ConfigError(f"{file}: end the name in .parquet or .csv, which says what is written")
    if file.is_dir():
        raise ConfigError(f"{file} is a folder: name a file")


@contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """Where to write; under the file's own name only when it is whole, for nobody sees that rows are missing."""
    partial = file.with_name(f"{file.name}.partial")
    try:
        yield partial
        partial.replace(file)
    except OSError as error:
        raise Permanent(f"{file} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _write_csv(out: TextIO, pieces: Iterable[Rows]) -> int:
    from tidegate.store.export import COLUMNS

    writer, count = csv.writer(out), 0
    writer.writerow(COLUMNS)
    for rows in pieces:
        moments = (moment.isoformat() for moment in rows.at)
        values = ("" if value is None else repr(value) for value in rows.value)
        writer.writerows(zip(moments, rows.metric, *rows.labels.values(), values, strict=True))
        count += len(rows.at)
    return count


def _told(pieces: Iterable[tuple[float, Rows]], advance: _Advance) -> Iterator[Rows]:
    told = 0
    for share, rows in pieces:
        advance(int(share * 1000) - told)
        told = int(share * 1000)
        yield rows


@contextmanager
def _bar(doing: str, total: int) -> Iterator[_Advance]:
    """A bar on standard error, for a person who waits there."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(doing, total=total)

        yield lambda count: progress.advance(task, count)


def _period(since: str, until: str, now: datetime) -> tuple[datetime, datetime]:
    first, last = _moment(since, now), _moment(until, now)
    if first >= last:
        raise ConfigError("--since must be before --until")
    return first, last


def _moment(said: str, now: datetime) -> datetime:
    if not said:
        return now
    try:
        found = datetime.fromisoformat(said)
    except ValueError as error:
        raise ConfigError(f"{said!r} is no time: write 2026-11-25 or 2026-11-25T12:00:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
