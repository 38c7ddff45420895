"""Lines from a pipe, each bounded, until the other side closes it or a signal asks for the end."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_CHUNK = 1 << 18


@contextmanager
def stop_descriptor() -> Iterator[int]:
    """A descriptor that becomes readable at SIGTERM or SIGINT, which end nothing by themselves meanwhile."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def stop(_number: int, _frame: FrameType | None) -> None:
        os.write(writing, b"\0")

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def bounded_lines(descriptor: int, stop: int, longest: int) -> Iterator[bytes | None]:
    """Every line without its end, None for one longer than `longest` bytes; a last one needs no line feed.

    Ends at the end of the input, or once `stop` is readable: then lines that have not been handed out are left.
    """
    kept, skipping = bytearray(), False
    while chunk := _next_chunk(descriptor, stop):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = None if skipping or len(kept) + len(end) > longest else bytes(kept) + end
            kept, skipping = bytearray(), False
            yield line
            if _readable(stop):
                return
        kept += rest
        if len(kept) > longest:
            kept, skipping = bytearray(), True
    if (kept or skipping) and not _readable(stop):
        yield None if skipping else bytes(kept)


def _next_chunk(descriptor: int, stop: int) -> bytes:
    """Some input, once there is some; nothing at its end or when a stop is asked for."""
    poll = select.poll()
    for each in (descriptor, stop):
        poll.register(each, select.POLLIN)
    while True:
        ready = {found for found, _ in poll.poll()}
        if stop in ready:
            return b""
        if descriptor in ready:
            return os.read(descriptor, _CHUNK)


def _readable(stop: int) -> bool:
    poll = select.poll()
    poll.register(stop, select.POLLIN)
    return bool(poll.poll(0))
