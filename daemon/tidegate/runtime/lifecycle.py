"""A daemon's manners: signals, readiness and the watchdog, told to systemd over its notification socket."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from types import FrameType

import structlog

from tidegate.runtime.clock import SystemClock

_log = structlog.get_logger()


def sd_notify(message: str) -> bool:
    """Send one state to systemd (sd_notify(3)); False when nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.sendto(message.encode(), path)
        except OSError:
            return False
    return True


class Lifecycle:
    """From start to stop: `install`, `ready`, `wait`; SIGTERM and SIGINT end the wait, SIGHUP reloads."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.on_reload: Callable[[], None] | None = None
        self._reload = threading.Event()
        self._woken = threading.Event()

    def install(self) -> None:
        """Take over the signals; call from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._ask_reload)

    def ready(self, status: str) -> None:
        """Say that the daemon serves."""
        sd_notify(f"READY=1\nSTATUS={status}")

    def status(self, text: str) -> None:
        """Say what the daemon does now."""
        sd_notify(f"STATUS={text}")

    def watchdog(self, progress: Callable[[], bool]) -> None:
        """Ping systemd's watchdog while `progress()` is true; does nothing when it asks for none (WATCHDOG_USEC)."""
        microseconds = int(os.environ.get("WATCHDOG_USEC", "0") or 0)
        if not microseconds:
            return
        interval = timedelta(microseconds=microseconds / 3)

        def ping() -> None:
            while not SystemClock().wait(self.stopping, interval):
                if progress():
                    sd_notify("WATCHDOG=1")

        threading.Thread(target=ping, name="watchdog", daemon=True).start()

    def wait(self) -> None:
        """Block until a stop is asked for; reloads happen here, on the main thread."""
        while not self.stopping.is_set():
            self._woken.wait(1.0)
            self._woken.clear()
            if self._reload.is_set() and not self.stopping.is_set():
                self._reload.clear()
                self._do_reload()
        sd_notify("STOPPING=1\nSTATUS=stopping")

    def stop(self) -> None:
        """Ask for the end, from inside."""
        self.stopping.set()
        self._woken.set()

    def _do_reload(self) -> None:
        monotonic_usec = int(SystemClock().monotonic() * 1e6)
        sd_notify(f"RELOADING=1\nMONOTONIC_USEC={monotonic_usec}")
        _log.info("reload asked for")
        if self.on_reload is not None:
            self.on_reload()
        sd_notify("READY=1")

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stop()

    def _ask_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reload.set()
        self._woken.set()
