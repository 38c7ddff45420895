"""Operators' commands and other programs' wishes in lists."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from tidegate.model.command import Command, CommandKind, ExternalWish, Order
from tidegate.model.fleet import PoolName, ServiceName


class FakeCommands:
    """The port `Commands` in memory."""

    def __init__(self) -> None:
        self.kept: list[Command] = []
        self.wanted: dict[ServiceName, ExternalWish] = {}

    def standing(self, now: datetime) -> Sequence[Command]:
        return [command for command in self.kept if command.stands(now)]

    def latest(self, limit: int) -> Sequence[Command]:
        return list(reversed(self.kept))[:limit]

    def give(self, orders: Sequence[Order], now: datetime) -> Sequence[Command]:
        given = []
        for order in orders:
            self.end({order.kind}, order.pool, order.by, now)
            given.append(Command(len(self.kept) + 1, order, now))
            self.kept.append(given[-1])
        return given

    def end(self, kinds: Collection[CommandKind], pool: PoolName | None, by: str, now: datetime) -> int:
        ended = 0
        for number, command in enumerate(self.kept):
            if command.order.kind in kinds and command.order.pool == pool and command.stands(now):
                self.kept[number] = replace(command, ended_at=now, ended_by=by)
                ended += 1
        return ended

    def ask(self, wanted: ExternalWish) -> None:
        self.wanted[wanted.service] = wanted

    def asked(self) -> Sequence[ExternalWish]:
        return [self.wanted[name] for name in sorted(self.wanted)]
