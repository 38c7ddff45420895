"""`tidegate replay`: the recorded past under another configuration, and what would have been otherwise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.progress import progress_bar
from tidegate.cli.remote import DEFAULT_URL, ControllerOption, pool_client

if TYPE_CHECKING:
    from tidegate.link.pool_client import PoolClient
    from tidegate.model.fleet import PoolName
    from tidegate.model.records import PoolFigures

_HOUR = timedelta(hours=1)
_LONGEST = timedelta(days=400)


def replay(
    config: Annotated[Path, typer.Option("--config", "-c", readable=False, help="The configuration to try.")],
    since: Annotated[str, typer.Option(help="From when: a time such as 2026-11-20T08:00, or 24h for the last day.")],
    until: Annotated[str | None, typer.Option(help="Until when; not given: now.")] = None,
    start_seconds: Annotated[
        float | None, typer.Option(min=1, max=86_400, help="How long a start takes; not given: as it was learned.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    controller: ControllerOption = DEFAULT_URL,
) -> None:
    """Run the decision over the stored past under another configuration: hours, cost, decisions, risk.

    The load is the recorded one; the fleet under it is the one that FILE would have made. Nothing is changed.
    """
    from tidegate.cli.replay_view import as_data, as_text
    from tidegate.config.load import load
    from tidegate.config.secret_files import SecretsElsewhere
    from tidegate.controller.replay import replay as play
    from tidegate.decide.plan import plan

    settings, desk = load(config, SecretsElsewhere()), pool_client(controller, None)
    end = moment(until, desk.now()) if until else desk.now()
    begin = moment(since, end)
    if not begin < end <= begin + _LONGEST:
        raise typer.BadParameter("--since must lie before --until, by 400 days at most")
    with progress_bar("replaying", round((end - begin).total_seconds())) as advance:
        played = play(_recorded(desk, begin, end, advance), settings.fleet, plan, _starts(desk, start_seconds))
    if as_json:
        typer.echo(json.dumps(as_data(played, settings.currency), indent=2))
    else:
        typer.echo("\n".join(as_text(played, settings.currency)))


def moment(text: str, now: datetime) -> datetime:
    """A time as people write it, UTC where it names no zone; or a length of time before `now`."""
    if found := re.fullmatch(r"(\d{1,5})([mhd])", text):
        return now - int(found[1]) * {"m": timedelta(minutes=1), "h": _HOUR, "d": timedelta(days=1)}[found[2]]
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text}: write a time such as 2026-11-20T08:00, or 90m, 24h, 7d") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _recorded(
    desk: PoolClient, begin: datetime, end: datetime, advance: Callable[[int], None] | None
) -> Iterator[PoolFigures]:
    from tidegate.model.records import PoolFigures

    at = begin
    while at < end:
        to = min(at + _HOUR, end)
        yield from (PoolFigures(**row.model_dump()) for row in desk.figures(at, to))
        if advance:
            advance(round((to - at).total_seconds()))
        at = to


def _starts(desk: PoolClient, given: float | None) -> dict[PoolName, timedelta]:
    from tidegate.model.fleet import PoolName

    found = {PoolName(one.pool.name): one.learned.start_seconds for one in desk.pools()}
    if given is not None:
        return {name: timedelta(seconds=given) for name in found}
    return {name: timedelta(seconds=seconds) for name, seconds in found.items() if seconds is not None}
