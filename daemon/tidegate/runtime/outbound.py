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

import httpcore
import httpx

from tidegate.runtime.deadline import Deadline, DeadlineBackend
from tidegate.runtime.errors import Permanent, Transient

ANSWER_CAP = 64 * 1024
_METADATA = frozenset(
    ipaddress.ip_address(text) for text in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "169.254.170.2")
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NETWORK = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, OSError)
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: status, lower-case headers, at most ANSWER_CAP bytes of body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def redact(url: str) -> str:
    """The address without what may be a secret: scheme and host only."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(no address)"
    return f"{parts.scheme}://{parts.hostname or '?'}/..."


def check_url(url: str, *, allow_private: bool) -> tuple[str, str]:
    """Resolve the address once and answer (host, IP to connect to).

    Raises Permanent for what is never allowed (other schemes, metadata and link-local addresses, private ones unless
    `allow_private`) and for what is no address, Transient when the name does not resolve now.
    """
    host, port = _host_and_port(url)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that is empty or too long: no name server is asked
        raise Permanent(f"{redact(url)}: that is no host's name; correct the address") from error
    except OSError as error:
        raise Transient(f"{redact(url)}: the name does not resolve ({error})") from error
    for *_, where in found:
        _check_address(ipaddress.ip_address(str(where[0]).split("%")[0]), url, allow_private=allow_private)
    return host, str(found[0][4][0])


def _host_and_port(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 0
    except ValueError as error:
        raise Permanent(f"{redact(url)}: that is no address; correct it") from error
    if parts.scheme not in ("http", "https") or not host:
        raise Permanent(f"{redact(url)}: only http and https addresses are posted to")
    return host, port


def _check_address(address: _Address, url: str, *, allow_private: bool) -> None:
    plain = _carried(address)
    if plain in _METADATA or plain.is_link_local or plain.is_multicast or plain.is_unspecified:
        raise Permanent(f"{redact(url)}: {plain} is a metadata, link-local or multicast address; never posted to")
    if (plain.is_private or plain.is_loopback) and not allow_private:
        raise Permanent(f"{redact(url)}: {plain} is private; set allow_private = true if that is meant")


def _carried(address: _Address) -> _Address:
    """The IPv4 address that an IPv6 one stands for (mapped, or through NAT64), else the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        return address.ipv4_mapped or address
    return address


def post_json(
    url: str, body: bytes, headers: Mapping[str, str], *, timeout_seconds: float, allow_private: bool
) -> Response:
    """POST a JSON body to the address checked, connecting to the very IP that was checked.

    The time-out bounds the whole exchange, whatever the other side trickles. Raises Transient for network errors,
    Permanent for addresses that are never allowed.
    """
    host, address = check_url(url, allow_private=allow_private)
    asked = _asked(url)
    there = asked.copy_with(host=address)
    target = httpcore.URL(scheme=there.raw_scheme, host=there.raw_host, port=there.port, target=there.raw_path)
    own = {"Content-Type": "application/json", "Host": asked.netloc.decode("ascii"), "Accept-Encoding": "identity"}
    sent = list({**own, **headers}.items())
    deadline = Deadline()
    try:
        with (
            deadline.within(timeout_seconds),
            httpcore.ConnectionPool(network_backend=DeadlineBackend(deadline)) as pool,
            pool.stream("POST", target, headers=sent, content=body, extensions={"sni_hostname": host}) as response,
        ):
            answered = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            return Response(response.status, answered, _read_capped(response))
    except _NETWORK as error:
        raise Transient(f"{redact(url)}: {type(error).__name__}: {error}") from error


def _asked(url: str) -> httpx.URL:
    """The address as it goes on the wire: host in IDNA, path and query escaped."""
    try:
        return httpx.URL(url)
    except httpx.InvalidURL as error:
        raise Permanent(f"{redact(url)}: that is no address; correct it") from error


def _read_capped(response: httpcore.Response) -> bytes:
    body = b""
    for part in response.iter_stream():
        body += part
        if len(body) >= ANSWER_CAP:
            break
    return body[:ANSWER_CAP]


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
