"""Who may read what a daemon serves: TLS files, passwords and headers as plain values, and TLS contexts of them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tidegate.runtime.errors import ConfigError


class ClientAuth(StrEnum):
    """What is asked of a client's certificate, in the words of Go's crypto/tls that exporters use."""

    NONE = "NoClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRED = "RequireAndVerifyClientCert"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A server's certificate and what it asks of its clients."""

    cert_file: Path
    key_file: Path
    client_auth: ClientAuth = ClientAuth.NONE
    client_ca_file: Path | None = None
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that the context is made of."""
        return (self.cert_file, self.key_file, *([self.client_ca_file] if self.client_ca_file else []))


@dataclass(frozen=True, slots=True)
class WebPolicy:
    """What a web configuration file says; by default plain HTTP for everybody."""

    tls: TlsFiles | None = None
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """bcrypt hashes by user name; without any, no password is asked for."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Added to every answer."""


OPEN_DOOR = WebPolicy()
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(tls: TlsFiles) -> ssl.SSLContext:
    """A context of the files as they are now; raises ConfigError naming the file and the remedy."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = tls.min_version, tls.max_version
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
    except OSError as error:
        raise ConfigError(_why_no_pair(tls, error)) from error
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(cafile=tls.client_ca_file)
        except OSError as error:
            why = "it holds no certificate in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
            raise ConfigError(f"client_ca_file: {tls.client_ca_file} cannot be used: {why}") from error
    context.verify_mode = _VERIFY[tls.client_auth]
    return context


def _no_password() -> str:
    """An encrypted key would ask the terminal, and hang a daemon."""
    return ""


def _why_no_pair(tls: TlsFiles, error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        if "MISMATCH" in (error.reason or ""):
            return f"key_file: {tls.key_file} is not the key of the certificate in {tls.cert_file}"
        return f"cert_file: no certificate and unencrypted key (PEM) in {tls.cert_file} and {tls.key_file}"
    for name, path in (("cert_file", tls.cert_file), ("key_file", tls.key_file)):
        try:
            path.open("rb").close()
        except OSError as unreadable:
            return f"{name}: {path} cannot be read: {unreadable.strerror}"
    return f"cert_file: {tls.cert_file}: {error.strerror or error}"


Stamp = tuple[tuple[int, int, int], ...]


def stamp(paths: tuple[Path, ...]) -> Stamp:
    """What changes when one of the files is replaced or written; a file that is not there counts too."""
    return tuple(_stamp(path) for path in paths)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_ino, found.st_mtime_ns, found.st_size
