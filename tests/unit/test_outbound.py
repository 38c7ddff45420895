"""HTTP to configured addresses: what is refused, and signatures that an independent library accepts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook

from tidegate.runtime.errors import Permanent
from tidegate.runtime.outbound import check_url, redact, standard_webhook_headers

SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS10ZXN0LXdpdGgtMzItYnl0ZXM="


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://[::ffff:169.254.169.254]/",
        "http://0.0.0.0/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
    ],
)
def test_metadata_addresses_and_other_schemes_are_refused_even_when_private_is_allowed(url: str) -> None:
    with pytest.raises(Permanent):
        check_url(url, allow_private=True)


def test_a_private_address_needs_to_be_meant() -> None:
    with pytest.raises(Permanent, match="allow_private"):
        check_url("http://127.0.0.1:1/hook", allow_private=False)

    assert check_url("http://127.0.0.1:1/hook", allow_private=True) == ("127.0.0.1", "127.0.0.1")


def test_a_refusal_does_not_repeat_the_secret_part_of_the_address() -> None:
    assert redact("https://hooks.example/services/T000/SECRET?key=1") == "https://hooks.example/..."


def test_the_signature_is_what_the_standard_asks_for() -> None:
    body = b'{"type":"alert.firing"}'
    headers = standard_webhook_headers(SECRET, "msg_1", datetime.now(UTC), body)

    assert Webhook(SECRET).verify(body, headers) == {"type": "alert.firing"}


def test_a_secret_that_is_none_says_how_to_make_one() -> None:
    with pytest.raises(Permanent, match="openssl"):
        standard_webhook_headers("whsec_not base64!", "msg_1", datetime.now(UTC), b"")
