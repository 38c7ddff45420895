"""The demo's receiver believes a right signature and nothing else; an independent library signs for the test."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook

from tidegate.demo.receiver import PATH, Receiver
from tidegate.runtime.clock import ScaledClock

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
BODY = json.dumps({"type": "alert.firing", "timestamp": "2026-11-25T12:00:00Z", "data": {}})


def signed(at: datetime, message_id: str = "msg_1", body: str = BODY) -> dict[str, str]:
    stamp = str(int(at.timestamp()))
    signature = Webhook(SECRET).sign(message_id, at, body)
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": signature}


@pytest.fixture
def receiver() -> Receiver:
    clock = ScaledClock(origin=0.0, epoch=datetime(2026, 11, 25, tzinfo=UTC), speed=1e-9)
    return Receiver(clock, SECRET, timedelta(minutes=5))


AT = datetime(2026, 11, 25, 0, 0, 1, tzinfo=UTC)


def test_a_message_that_another_library_signed_is_believed(receiver: Receiver) -> None:
    assert receiver.page(PATH, signed(AT), BODY.encode()) == (204, b"")
    assert [(found.type, found.verified) for found in receiver.deliveries()] == [("alert.firing", True)]


def test_a_message_delivered_twice_is_kept_once(receiver: Receiver) -> None:
    for _ in range(2):
        receiver.page(PATH, signed(AT), BODY.encode())
    assert len(receiver.deliveries()) == 1


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (signed(AT), BODY + " "),
        (signed(AT - timedelta(hours=1)), BODY),
        ({}, BODY),
        (signed(AT) | {"webhook-signature": "v1,AAAA v1,%%% v2,x"}, BODY),
        (signed(AT, body="no JSON"), "no JSON"),
    ],
)
def test_anything_else_is_refused_and_kept_with_its_reason(
    receiver: Receiver, headers: dict[str, str], body: str
) -> None:
    """A changed body, an old message, no headers, a wrong signature, no JSON."""
    answer = receiver.page(PATH, headers, body.encode())
    assert answer is not None
    assert answer[0] == 401
    assert [found.verified for found in receiver.deliveries()] == [False]
    assert receiver.deliveries()[0].why


def test_another_path_is_not_its_own(receiver: Receiver) -> None:
    assert receiver.page("/other", {}, b"") is None
