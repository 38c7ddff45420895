"""Bearer tokens: made once, shown once, stored as a hash."""

from __future__ import annotations

import hashlib
import secrets


def new_token(prefix: str) -> str:
    """A fresh token of 256 random bits, with a prefix that says what it is for ("tgh" host, "tgu" user)."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> str:
    """SHA-256 of the token in hex: enough for random tokens, which no dictionary holds."""
    return hashlib.sha256(token.encode()).hexdigest()
