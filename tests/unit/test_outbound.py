"""HTTP to configured addresses: what is refused, and signatures that an independent library accepts."""

from __future__ import annotations

import contextlib
import socket
import threading
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook

from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.outbound import check_url, post_json, redact, standard_webhook_headers

SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS10ZXN0LXdpdGgtMzItYnl0ZXM="


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
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


@pytest.mark.parametrize(
    "url", ["http://a..b/", f"http://{'a' * 70}.example/", "http://[::1/", "http://127.0.0.1:99999/"]
)
def test_what_is_no_address_is_a_refusal_and_no_surprise(url: str) -> None:
    """An error that nobody foresees would end the whole round of notices, and every later one."""
    with pytest.raises(Permanent, match="correct"):
        post_json(url, b"{}", {}, timeout_seconds=0.2, allow_private=True)


@pytest.mark.parametrize("begins", [b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-A: "])
def test_an_answer_that_trickles_in_for_ever_is_given_up(begins: bytes) -> None:
    """Head or body: no single read takes long; one dead receiver must not hold up every other."""

    def trickle() -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(begins)
            while not done.wait(0.01):
                connection.sendall(b"x")

    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=trickle)
        server.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        try:
            with pytest.raises(Transient, match="ReadTimeout"):
                post_json(url, b"{}", {}, timeout_seconds=0.2, allow_private=True)
        finally:
            done.set()
            server.join()
