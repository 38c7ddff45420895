"""What may stand in a web configuration file: the format of Prometheus' exporter-toolkit, as far as it is honoured."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, Strict

from tidegate.config.fields import Checked, FilePath, OneOf, Text, refuse, string
from tidegate.config.schema_base import Table
from tidegate.runtime.web import ClientAuth

_HASH = re.compile(r"\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}")
_COSTLIEST = 16
VERSIONS = {
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_HEADERS: dict[str, tuple[str, ...]] = {
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
    "Content-Security-Policy": (),
}
"""The headers that exporter-toolkit lets through, each with its values where they are few."""


@dataclass(frozen=True, slots=True)
class TlsVersion(Checked):
    """A version of TLS in Go's spelling; nothing older than 1.2 is spoken."""

    allowed: ClassVar[str] = ", ".join(VERSIONS)

    def check(self, value: Any) -> ssl.TLSVersion:
        """The version."""
        if isinstance(value, ssl.TLSVersion):
            return value
        found = VERSIONS.get(string(value))
        if found is None:
            raise refuse(f"must be one of {self.allowed}, not {value[:60]}")
        return found


@dataclass(frozen=True, slots=True)
class Hash(Checked):
    """A bcrypt hash; never repeated, for a password may stand there by mistake."""

    allowed: ClassVar[str] = "a bcrypt hash"

    def check(self, value: Any) -> str:
        """The hash, when it is whole and can be checked in seconds."""
        found = _HASH.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise refuse("must be a bcrypt hash ($2y$10$...), not the password: make one with `htpasswd -nBC 10 USER`")
        if not 4 <= int(found[1]) <= _COSTLIEST:
            raise refuse(f"has the cost {int(found[1])}; allowed: 4 to {_COSTLIEST} (each check takes seconds beyond)")
        return str(value)


@dataclass(frozen=True, slots=True)
class NotHonoured(Checked):
    """A key of exporter-toolkit that would promise what is not done here: refused rather than passed over."""

    instead: str
    allowed: ClassVar[str] = "nothing"

    def check(self, value: Any) -> None:  # noqa: ARG002
        """Refuse every value."""
        raise refuse(f"is not honoured here: {self.instead}")


def _not(instead: str) -> Any:
    return Annotated[None, NotHonoured(instead)]


class TlsServerTable(Table):
    """`tls_server_config`."""

    cert_file: Annotated[Path, FilePath()] | None = None
    key_file: Annotated[Path, FilePath()] | None = None
    client_auth_type: Annotated[
        ClientAuth, OneOf(ClientAuth, later=("RequestClientCert", "RequireAnyClientCert", "RequireClientCert"))
    ] = ClientAuth.NONE
    client_ca_file: Annotated[Path, FilePath()] | None = None
    min_version: Annotated[ssl.TLSVersion, TlsVersion()] = ssl.TLSVersion.TLSv1_2
    max_version: Annotated[ssl.TLSVersion, TlsVersion()] | None = None
    prefer_server_cipher_suites: Annotated[bool, Strict()] = True
    cipher_suites: _not("take it out, OpenSSL's own choice is in force") = None  # type: ignore[valid-type]
    curve_preferences: _not("take it out, OpenSSL's own choice is in force") = None  # type: ignore[valid-type]
    client_allowed_sans: _not("use a client_ca_file that signs only those who may read") = None  # type: ignore[valid-type]
    cert: _not("name a file in cert_file") = None  # type: ignore[valid-type]
    key: _not("name a file in key_file") = None  # type: ignore[valid-type]
    client_ca: _not("name a file in client_ca_file") = None  # type: ignore[valid-type]


class HttpServerTable(Table):
    """`http_server_config`; HTTP/2 is never spoken, so that `http2` has nothing to change."""

    http2: Annotated[bool, Strict()] = True
    headers: dict[str, Text] = Field(default_factory=dict)


class WebTable(Table):
    """The whole file."""

    tls_server_config: TlsServerTable | None = None
    http_server_config: HttpServerTable = HttpServerTable()
    basic_auth_users: dict[Text, Annotated[str, Hash()]] = Field(default_factory=dict)
    rate_limit: _not("take it out; wrong passwords are checked one after the other in any case") = None  # type: ignore[valid-type]


def header_problem(name: str, value: str) -> str:
    """What is wrong with a header of `http_server_config`; empty when nothing is."""
    values = _HEADERS.get(name)
    if values is None:
        return f"cannot be set; these can: {', '.join(_HEADERS)}"
    if values and value not in values:
        return f"must be {' or '.join(values)}"
    return "" if value.isascii() else "must be plain ASCII"
