"""The demo's receiver of webhooks: checks each signature by itself (Standard Webhooks 1.0) and keeps what arrived."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from tidegate.demo.pages import Answer
from tidegate.runtime.clock import Clock

PATH = "/hooks/alerts"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message that arrived."""

    id: str
    at: datetime
    verified: bool
    why: str
    """Why it was not believed; empty when it was."""
    body: Mapping[str, object] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """What the message says it is."""
        return str(self.body.get("type", ""))


def check(secret: str, headers: Mapping[str, str], body: bytes, now: datetime, tolerance: timedelta) -> str:
    """Why the message is not to be believed; empty when the signature is right and its time within the tolerance."""
    message_id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not stamp.isdecimal():
        return "webhook-id or webhook-timestamp is missing"
    if abs(now.timestamp() - int(stamp)) > tolerance.total_seconds():
        return f"the timestamp {stamp} is too far from now"
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = hmac.new(key, b".".join((message_id.encode(), stamp.encode(), body)), hashlib.sha256).digest()
    for candidate in headers.get("webhook-signature", "").split():
        version, _, text = candidate.partition(",")
        if version == "v1" and hmac.compare_digest(_decoded(text), wanted):
            return ""
    return "no signature fits"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


class Receiver:
    """Keeps each message once, by its id."""

    def __init__(self, clock: Clock, secret: str, tolerance: timedelta) -> None:
        self._clock = clock
        self._secret = secret
        self._tolerance = tolerance
        self._deliveries: dict[str, Delivery] = {}
        self._lock = Lock()

    def deliveries(self) -> list[Delivery]:
        """What has arrived so far, in order."""
        with self._lock:
            return list(self._deliveries.values())

    def page(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        """Take a message: 204 when it is believed, 401 when not; None for another path."""
        if path != PATH:
            return None
        now = self._clock.now()
        why = check(self._secret, headers, body, now, self._tolerance)
        try:
            content = json.loads(body)
        except ValueError:
            content, why = {}, why or "the body is not JSON"
        message_id = headers.get("webhook-id", f"nameless-{len(self._deliveries)}")
        with self._lock:
            self._deliveries.setdefault(message_id, Delivery(message_id, now, not why, why, content))
        return (401, json.dumps({"detail": why}).encode()) if why else (204, b"")
