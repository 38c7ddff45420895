"""Certificates for a test, made by openssl: an authority, and what it signs for 127.0.0.1."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


def authority(folder: Path, name: str = "ca") -> Pair:
    """A certificate that signs others."""
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    _openssl("req", "-x509", *_new_key(pair.key), "-out", pair.cert, "-days", "2", "-subj", f"/CN={name}")
    return pair


def signed(folder: Path, by: Pair, name: str) -> Pair:
    """A certificate for 127.0.0.1 and localhost that the authority signed."""
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    _openssl("req", *_new_key(pair.key), "-out", request, "-subj", f"/CN={name}")
    _openssl("x509", "-req", "-in", request, "-CA", by.cert, "-CAkey", by.key, "-CAcreateserial", "-days", "2",
             "-extfile", extensions, "-out", pair.cert)  # fmt: skip
    return pair


def _new_key(path: Path) -> tuple[str | Path, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path)


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
