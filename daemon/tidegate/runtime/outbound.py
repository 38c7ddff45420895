"""HTTP to addresses that a person configured: no redirects, no metadata services, small answers, signed bodies.

Signing is Standard Webhooks 1.0: HMAC-SHA256 over "id.timestamp.body" with the secret's bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

import httpx

from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import Permanent, Transient

ANSWER_CAP = 64 * 1024
_METADATA = frozenset(
    ipaddress.ip_address(text) for text in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "169.254.170.2")
)
_REAL = SystemClock()
"""Time-outs of the network are real seconds, also where the clock is played fast."""
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: status, lower-case headers, at most ANSWER_CAP bytes of body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def redact(url: str) -> str:
    """The address without what may be a secret: scheme and host only."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or '?'}/..."


def check_url(url: str, *, allow_private: bool) -> tuple[str, str]:
    """Resolve the address once and answer (host, IP to connect to).

    Raises Permanent for what is never allowed (other schemes, metadata and link-local addresses, private ones unless
    `allow_private`), Transient when the name does not resolve now.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Permanent(f"{redact(url)}: only http and https addresses are posted to")
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 0, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Transient(f"{redact(url)}: the name does not resolve ({error})") from error
    for *_, where in found:
        _check_address(ipaddress.ip_address(str(where[0]).split("%")[0]), url, allow_private=allow_private)
    return parts.hostname, str(found[0][4][0])


def _check_address(address: _Address, url: str, *, allow_private: bool) -> None:
    plain = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped else address
    if plain in _METADATA or plain.is_link_local or plain.is_multicast or plain.is_unspecified:
        raise Permanent(f"{redact(url)}: {plain} is a metadata, link-local or multicast address; never posted to")
    if (plain.is_private or plain.is_loopback) and not allow_private:
        raise Permanent(f"{redact(url)}: {plain} is private; set allow_private = true if that is meant")


def post_json(
    url: str, body: bytes, headers: Mapping[str, str], *, timeout_seconds: float, allow_private: bool
) -> Response:
    """POST a JSON body to the address checked, connecting to the very IP that was checked.

    Raises Transient for network errors, Permanent for addresses that are never allowed.
    """
    host, address = check_url(url, allow_private=allow_private)
    target = httpx.URL(url).copy_with(host=address)
    sent = {"Content-Type": "application/json", "Host": urlsplit(url).netloc.rpartition("@")[2], **headers}
    try:
        with (
            httpx.Client(timeout=timeout_seconds, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", target, content=body, headers=sent, extensions={"sni_hostname": host}) as response,
        ):
            body = _read(response, until=_REAL.monotonic() + timeout_seconds)
            return Response(response.status_code, dict(response.headers), body)
    except httpx.HTTPError as error:
        raise Transient(f"{redact(url)}: {type(error).__name__}: {error}") from error


def _read(response: httpx.Response, until: float) -> bytes:
    """The body up to the cap; raises ReadTimeout when it trickles in, which no time-out of a single read bounds."""
    body = b""
    for part in response.iter_bytes():
        body += part
        if len(body) >= ANSWER_CAP:
            return body[:ANSWER_CAP]
        if _REAL.monotonic() > until:
            raise httpx.ReadTimeout("the answer does not end")
    return body


def standard_webhook_headers(secret: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The three headers of Standard Webhooks 1.0; raises Permanent when the secret is not `whsec_` and base64."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Permanent(
            "the webhook secret is not `whsec_` followed by base64; make one with `openssl rand -base64 32`"
        ) from error
    stamp = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), stamp.encode(), body))
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": f"v1,{signature}"}
