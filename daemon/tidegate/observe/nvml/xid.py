"""Error events of the driver (XID), counted as they happen: afterwards nobody can be asked for them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tidegate.model.gpu import XidEvents
from tidegate.observe.nvml.library import TIMEOUT, Library, NVMLError
from tidegate.runtime.clock import Clock

_XID = 0x8
"""nvmlEventTypeXidCriticalError."""
_WAIT_MILLISECONDS = 5000
_PAUSE_SECONDS = 5.0


class XidWatch:
    """Waits for events on a thread of its own, which ends with the process. A GPU without events is passed over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._uuids: dict[int, str] = {}
        self._seen: dict[str, dict[int, tuple[int, float]]] = {}
        self._thread: threading.Thread | None = None

    def start(self, library: Library, devices: Sequence[tuple[Any, str]]) -> None:
        """Watch these GPUs, given as handle and uuid; once."""
        try:
            events = library("nvmlEventSetCreate")
        except NVMLError:
            return
        for handle, uuid in devices:
            try:
                library("nvmlDeviceRegisterEvents", handle, _XID, events)
            except NVMLError:  # consumer cards and old drivers have none
                continue
            self._uuids[_address(handle)] = uuid
        if self._uuids:
            self._thread = threading.Thread(target=self._watch, args=(events,), name="xid", daemon=True)
            self._thread.start()

    def stop(self) -> bool:
        """Wait no more; False while a wait is under way, beneath which the driver must not be closed."""
        self._stop.set()
        return self._thread is None or not self._thread.is_alive()

    def seen(self, uuid: str, at: datetime) -> Mapping[int, XidEvents]:
        """What was counted for a GPU since the start, `at` being now."""
        now = self._clock.monotonic()
        with self._lock:
            mine = dict(self._seen.get(uuid, {}))
        return {code: XidEvents(count, at - timedelta(seconds=now - last)) for code, (count, last) in mine.items()}

    def _watch(self, events: Any) -> None:
        library = Library()  # calls of this thread are not a survey's
        while not self._stop.is_set():
            try:
                event = library("nvmlEventSetWait_v2", events, _WAIT_MILLISECONDS)
            except NVMLError as error:
                if error.value != TIMEOUT:
                    self._stop.wait(_PAUSE_SECONDS)
                continue
            if event.eventType & _XID:
                self._note(_address(event.device), int(event.eventData))

    def _note(self, address: int, code: int) -> None:
        uuid = self._uuids.get(address)
        if uuid is None:
            return
        with self._lock:
            codes = self._seen.setdefault(uuid, {})
            codes[code] = (codes.get(code, (0, 0.0))[0] + 1, self._clock.monotonic())


def _address(handle: Any) -> int:
    """What a handle points to: the driver gives the same pointer each time."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
