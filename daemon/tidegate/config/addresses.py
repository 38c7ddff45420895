"""The types of keys that hold an address: where to listen, what to read, whom to tell, which database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, ClassVar
from urllib.parse import SplitResult, urlsplit

from tidegate.act.fill import PLACEHOLDERS
from tidegate.config.fields import Checked, refuse, shown, string
from tidegate.config.settings import EMBEDDED, Listen

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")


@dataclass(frozen=True, slots=True)
class ListenAddress(Checked):
    """`host:port`, such as 127.0.0.1:9092; port 0 takes any free one."""

    allowed: ClassVar[str] = "host:port"

    def check(self, value: Any) -> Listen:
        """Accept host:port; an IPv6 host stands in brackets."""
        if isinstance(value, Listen):
            return value
        text = string(value)
        host, colon, port = text.rpartition(":")
        if not colon or not host:
            raise refuse(f'must be "host:port" ("127.0.0.1:9092"; every interface is "0.0.0.0"), not {shown(text)}')
        if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
            raise refuse(f"must end in a port, 0 to 65535, not {shown(port)}")
        if not _HOST.fullmatch(host):
            raise refuse(f"must begin with a host name or address (IPv6 in brackets), not {shown(host)}")
        return Listen(host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True)
class Url(Checked):
    """An http or https address. `secret` ones (a chat's hook) are never repeated in a message."""

    secret: bool = False
    placeholders: bool = False
    allowed: ClassVar[str] = "http(s) URL"

    def check(self, value: Any) -> str:
        """Accept http(s)://host[:port][/path]."""
        text = string(value)
        given = "" if self.secret or "@" in text or "?" in text else f", not {shown(text)}"
        plain = _filled(text) if self.placeholders else text
        problem = url_problem(plain)
        if problem:
            raise refuse(f"{problem}{given}")
        return text


@dataclass(frozen=True, slots=True)
class Database(Checked):
    """ "embedded", or the address of a Postgres without its password."""

    allowed: ClassVar[str] = '"embedded" or a DSN'

    def check(self, value: Any) -> str:
        """Accept the word or a postgresql:// address that holds no secret."""
        text = string(value)
        problem = dsn_problem(text)
        if not problem and _has_password(text):
            problem = "holds a password: put the whole address into a file and name it in database_file"
        if problem:
            raise refuse(problem)
        return text


def url_problem(text: str) -> str:
    """What is wrong with an address of ours; empty when nothing is."""
    if len(text) > 2048 or re.search(r"[\s\x00-\x1f\x7f]", text):
        return "must be an address without blanks, of at most 2048 characters"
    parts = _split(text)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        return "must be an address such as http://127.0.0.1:8000"
    if parts.username is not None or parts.password is not None:
        return "must not hold a name or a password (user:password@): a secret belongs into a file of its own"
    if parts.fragment:
        return "must not have a #fragment"
    return ""


def dsn_problem(text: str) -> str:
    """What is wrong with a database address, in words that never repeat it; empty when nothing is."""
    if text == EMBEDDED:
        return ""
    if text.startswith("postgres://"):
        return "must begin with postgresql://, not postgres://"
    parts = _split(text)
    if parts is None or parts.scheme not in {"postgresql", "postgresql+psycopg"} or not parts.path.strip("/"):
        return f'must be "{EMBEDDED}" or an address such as postgresql://tidegate@db.example:5432/tidegate'
    return ""


def host_of(url: str) -> str:
    """The host of an address, without brackets; empty when there is none."""
    parts = _split(url)
    return (parts.hostname or "") if parts else ""


def port_of(url: str) -> int | None:
    """The port of an address, or its scheme's own."""
    parts = _split(url)
    if parts is None:
        return None
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def is_loopback(host: str) -> bool:
    """Whether a host name or literal address is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def metrics_url(url: str) -> str:
    """The full address of a metrics page: `/metrics` where the address names no path."""
    parts = _split(url)
    if parts is None or parts.path.strip("/"):
        return url
    return parts._replace(path="/metrics").geturl()


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # parsed only when it is asked for
    except ValueError:
        return None
    return parts


def _filled(text: str) -> str:
    for word in PLACEHOLDERS:
        text = text.replace("{" + word + "}", "1")
    return text


def _has_password(dsn: str) -> bool:
    parts = _split(dsn)
    return parts is not None and (parts.password is not None or "password=" in parts.query)
