"""Tell a webhook: Alertmanager's version 4 shape inside a signed Standard Webhooks 1.0 envelope."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from tidegate.model.alert import AlertPhase, AlertState, Notice
from tidegate.model.policy import Channel
from tidegate.runtime.errors import Permanent, Transient, TryLater
from tidegate.runtime.outbound import Response, post_json, redact, standard_webhook_headers

TIMEOUT_SECONDS = 15.0
_NEVER = "0001-01-01T00:00:00Z"
"""What Alertmanager writes for an end that has not come."""
_HOPELESS = frozenset({400, 410, 413, 422})
"""The receiver is gone for good, or will never take this very message."""
_LONGEST_WAIT = timedelta(hours=1)


class Webhook:
    """Implements the port `Notifier` for every configured channel."""

    def __init__(self, channels: Callable[[], Mapping[str, Channel]], external_url: str) -> None:
        self._channels, self._external_url = channels, external_url

    def send(self, notice: Notice, now: datetime) -> None:
        """Deliver one notice; raises Transient to try again, Permanent when that cannot help."""
        channel = self._channels().get(notice.channel)
        if channel is None:
            raise Permanent(f"channel {notice.channel} is no longer in the configuration; its notice is dropped")
        body = json.dumps(envelope(notice, self._external_url), ensure_ascii=False, separators=(",", ":")).encode()
        headers = standard_webhook_headers(channel.secret, notice.id, now, body) if channel.secret else {}
        answer = post_json(
            channel.url, body, headers, timeout_seconds=TIMEOUT_SECONDS, allow_private=channel.allow_private
        )
        judge(answer, f"channel {channel.name} ({redact(channel.url)})")


def judge(answer: Response, where: str) -> None:
    """Accept a 2xx; raise Transient or Permanent for anything else, naming the channel and never its whole address."""
    status = answer.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise Permanent(f"{where} redirects ({status}), which is never followed; give the final address")
    if status in _HOPELESS:
        raise Permanent(f"{where} refused the notice for good ({status})")
    after = _retry_after(answer.headers.get("retry-after", ""), answer.headers.get("date", ""))
    if after is not None:
        raise TryLater(f"{where} answered {status} and asks to wait {after.total_seconds():.0f} s", after)
    raise Transient(f"{where} answered {status}")


def _retry_after(text: str, date: str) -> timedelta | None:
    """Seconds or an HTTP date, the latter against the answer's own date; None when it says neither."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return min(_LONGEST_WAIT, timedelta(seconds=int(text)))
    try:
        span = parsedate_to_datetime(text) - parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(_LONGEST_WAIT, max(timedelta(), span))


def envelope(notice: Notice, external_url: str) -> dict[str, Any]:
    """The whole message. Its `timestamp` is the event's, the same at every attempt."""
    alert = notice.alert
    status = "resolved" if alert.phase is AlertPhase.RESOLVED else "firing"
    labels = {"alertname": alert.rule, **alert.labels}
    return {
        "type": f"alert.{status}",
        "timestamp": _rfc3339(notice.created_at),
        "data": {
            "version": "4",
            "groupKey": f"{{}}:{{alertname={json.dumps(alert.rule)}}}",
            "truncatedAlerts": 0,
            "status": status,
            "receiver": notice.channel,
            "groupLabels": {"alertname": alert.rule},
            "commonLabels": labels,
            "commonAnnotations": dict(alert.annotations),
            "externalURL": external_url,
            "alerts": [_alert(alert, status, labels, external_url)],
        },
    }


def _alert(alert: AlertState, status: str, labels: Mapping[str, str], external_url: str) -> dict[str, Any]:
    return {
        "status": status,
        "labels": dict(labels),
        "annotations": dict(alert.annotations),
        "startsAt": _rfc3339(alert.starts_at or alert.since),
        "endsAt": _rfc3339(alert.ends_at) if alert.ends_at and status == "resolved" else _NEVER,
        "generatorURL": external_url,
        "fingerprint": alert.fingerprint,
        "values": {name: value for name, value in _values(alert).items() if value is not None},
    }


def _values(alert: AlertState) -> dict[str, float | None]:
    return {"value": alert.value, "baseline": alert.baseline}


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
