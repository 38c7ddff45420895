"""Deliver notices: at once, then ever more slowly for some hours, then given up and counted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from tidegate.controller.counts import Counts
from tidegate.controller.ports import Alerts, Notifier
from tidegate.model.alert import Notice
from tidegate.runtime.errors import Permanent, Transient, TryLater

_log = structlog.get_logger()

_DELAYS = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=5),
    timedelta(minutes=15),
)
"""After the first failure, the second, ...; the last one repeats."""
GIVE_UP_AFTER = timedelta(hours=6)
"""Nobody needs to hear of an alert for the first time so late."""
_JITTER = 0.2
_CLAIM = timedelta(minutes=2)
"""How long a notice that is being sent is nobody else's: longer than a sending takes, and soon enough that one whose
sender died on the way is sent again."""
_AT_ONCE = 8
"""Channels that are told at the same time."""

Work = Callable[[], bool]


def next_try(notice: Notice, attempts: int, now: datetime, after: timedelta | None = None) -> datetime | None:
    """When to try again after `attempts` failures; None to give up. `after` is what the receiver asked for, at least.

    The jitter comes from the notice's id: notices that failed together do not come back together, and a test knows
    the moment.
    """
    delay = _DELAYS[min(max(attempts, 1), len(_DELAYS)) - 1]
    if after is not None:
        delay = max(delay, after)
    digest = hashlib.sha256(f"{notice.id}/{attempts}".encode()).digest()
    at = now + delay * (1 + _JITTER * digest[0] / 255)
    return at if at - notice.created_at <= GIVE_UP_AFTER else None


@dataclass(frozen=True, slots=True)
class Delivery:
    """Tries what is due. Each attempt ends in the store: delivered, to be tried again, or given up."""

    alerts: Alerts
    notifier: Notifier
    counts: Counts
    carried: Callable[[Work], Work] = lambda work: work
    """Makes work fit for another thread: done there under the term that it was given out in."""
    away: set[str] = field(default_factory=set)
    """The channels that did not take the last one."""

    def run(self, now: datetime) -> None:
        """Try every notice that is due, channels side by side; no transaction is open while the network is waited for.

        What is due for one channel is sent one after the other, until it does not take one: then it is left alone until
        the next run, and where channels are many it comes after those that do.
        """
        by_channel: dict[str, list[tuple[Notice, int]]] = {}
        for notice, attempts in self.alerts.due(now):
            by_channel.setdefault(notice.channel, []).append((notice, attempts))
        if not by_channel:
            return
        with ThreadPoolExecutor(min(_AT_ONCE, len(by_channel)), "notify") as threads:
            told = {
                channel: threads.submit(self.carried(partial(self._told, by_channel[channel], now)))
                for channel in sorted(by_channel, key=self.away.__contains__)
            }
        for channel, taken in told.items():
            if taken.result():
                self.away.discard(channel)
            else:
                self.away.add(channel)

    def _told(self, due: Sequence[tuple[Notice, int]], now: datetime) -> bool:
        """Send a channel what is due for it; False when it did not take one."""
        return all(self._try(notice, attempts + 1, now) for notice, attempts in due)

    def _try(self, notice: Notice, attempts: int, now: datetime) -> bool:
        """False when the channel may take it, and others, at another time.

        It is claimed under the term right before it goes out: a leader that was frozen since it looked what is due
        sends nothing that its successor has sent.
        """
        if not self.alerts.claim(notice.id, now, now + _CLAIM):
            return True
        try:
            self.notifier.send(notice, now)
        except Permanent as error:
            self._failed(notice, None, str(error))
        except TryLater as error:
            self._failed(notice, next_try(notice, attempts, now, error.after), str(error))
            return False
        except Transient as error:
            self._failed(notice, next_try(notice, attempts, now), str(error))
            return False
        else:
            self.alerts.delivered(notice.id, now)
            self.counts.notice(notice.channel, "delivered")
            _log.info("notice delivered", channel=notice.channel, rule=notice.alert.rule, phase=notice.alert.phase)
        return True

    def _failed(self, notice: Notice, again: datetime | None, error: str) -> None:
        self.alerts.retry(notice.id, again, error)
        self.counts.notice(notice.channel, "retried" if again else "given_up")
        event = "notice not delivered, tried again later" if again else "notice given up"
        _log.warning(event, channel=notice.channel, rule=notice.alert.rule, error=error, again=str(again or ""))
