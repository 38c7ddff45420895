"""Check passwords against bcrypt hashes: slow for a guesser, quick for a scraper that was right before."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tidegate.runtime.errors import ConfigError

_LONGEST_BYTES = 72
"""bcrypt sees no more of a password; a longer one is wrong rather than cut short."""
_REMEMBERED = 64
_WAITING = 16


class TooManyGuesses(Exception):  # noqa: N818 - named for what it tells
    """More passwords wait to be checked than one core can check soon."""


def bcrypt_check() -> Callable[[bytes, bytes], bool]:
    """The library's constant-time comparison; raises ConfigError where it is not installed."""
    try:
        import bcrypt
    except ImportError as error:
        raise ConfigError("basic_auth_users need the package bcrypt: pip install 'tidegate[agent]'") from error
    return bcrypt.checkpw


class Passwords:
    """Answers whether a name and its password are right.

    A hash is computed for an unknown name too, so that the time taken tells nothing; hashes are computed one after
    the other off the server's thread, so that guessing costs one core at most. What was right is remembered, as a
    keyed digest: hashing at every scrape would cost more than the scrape.
    """

    def __init__(self, check: Callable[[bytes, bytes], bool] | None = None) -> None:
        self._check = check
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, None] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="passwords")
        self._waiting = 0

    async def right(self, users: Mapping[str, bytes], name: str, password: bytes) -> bool:
        """True when `users` has the name with a hash of the password; raises TooManyGuesses instead of queueing up."""
        known = users.get(name)
        digest = self._digest(name, known or b"", password)
        if known is not None and digest in self._right:
            return True
        if self._waiting >= _WAITING:
            raise TooManyGuesses
        self._waiting += 1
        try:
            against = known if known is not None else next(iter(users.values()), b"")
            matches = await asyncio.wrap_future(self._worker.submit(self._matches, password, against))
        finally:
            self._waiting -= 1
        if not matches or known is None:
            return False
        self._remember(digest)
        return True

    def close(self) -> None:
        """End the worker."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _matches(self, password: bytes, against: bytes) -> bool:
        if self._check is None:
            self._check = bcrypt_check()
        if len(password) > _LONGEST_BYTES or b"\0" in password:
            return self._check(b"", against) and False
        return self._check(password, against)

    def _digest(self, name: str, known: bytes, password: bytes) -> bytes:
        parts = (name.encode(), known, password)
        text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.new(self._key, text, hashlib.sha256).digest()

    def _remember(self, digest: bytes) -> None:
        self._right[digest] = None
        while len(self._right) > _REMEMBERED:
            del self._right[next(iter(self._right))]
