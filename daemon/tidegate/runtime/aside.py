"""A process of ours beside this one, for work that would take Python's lock from threads that somebody waits for.

It answers calls over a socket that is its standard input, several at a time, ends when we hang up, and may stand back
behind other processes on a busy core. What it says goes to our standard error.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import structlog

import tidegate
from tidegate.runtime.errors import TidegateError, Transient
from tidegate.runtime.niceness import stand_back

_log = structlog.get_logger()

_WORKERS = 8
_END_SECONDS = 10.0

Work = Callable[..., object]
"""Takes a call's arguments; its answer, and the errors that it explains, go back to the caller."""


class Aside:
    """Our side: starts the process with the first call, and anew after it has ended; for any thread."""

    def __init__(self, module: str, first: object, *, back: int = 0, files: Collection[int] = ()) -> None:
        """`module` is run (`answer_calls`), and is given `first`, which may hold a secret.

        `back`: how much nicer it is than the thread that starts it; `files`: open files of ours that it is given by
        the same numbers.
        """
        self._start = partial(_Child, module, (back, first), tuple(files))
        self._lock = Lock()
        self._child: _Child | None = None
        self._closed = False

    def call(self, *arguments: object) -> Any:
        """What its work answers; raises what that raises, and Transient when the process ends before."""
        return self.begin(*arguments).result()

    def begin(self, *arguments: object) -> Future[Any]:
        """The same, without waiting for the answer."""
        return self._living().begin(arguments)

    def tell(self, *arguments: object) -> Future[Any] | None:
        """The same for a process that runs: none is started for it, and then there is no answer."""
        child = self._child
        return child.begin(arguments) if child is not None and not child.ended else None

    def renew(self) -> None:
        """End the process that runs, whatever it does; the next call starts another."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.process.kill()

    @property
    def pid(self) -> int | None:
        """Of the process that runs; None before the first call."""
        return self._child.process.pid if self._child is not None else None

    def close(self) -> None:
        """End it, in the middle of its work if it must be; nothing is started any more."""
        with self._lock:
            self._closed, child, self._child = True, self._child, None
        if child is not None:
            child.end()

    def _living(self) -> _Child:
        with self._lock:
            if self._closed:
                raise Transient("stopping: nothing is begun any more")
            if self._child is None or self._child.ended:
                try:
                    self._child = self._start()
                except OSError as error:
                    raise Transient(f"no process can be started ({error}); it is tried again") from error
            return self._child


class _Child:
    """One process, and who waits for its answers."""

    def __init__(self, module: str, first: object, files: Collection[int]) -> None:
        ours, theirs = socket.socketpair()
        command = (sys.executable, "-P", "-m", module)
        try:
            # A group of its own: Ctrl-C in a terminal is for us. Of our session: Linux weighs niceness within one
            # (sched(7), autogroups), and shares a core evenly between two.
            self.process = subprocess.Popen(
                command, stdin=theirs.fileno(), env=_environment(), process_group=0, pass_fds=files
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket, self._connection = ours, Connection(os.dup(ours.fileno()))
        self._lock = Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._number = 0
        self.ended = False
        self._said: SimpleQueue[object] = SimpleQueue()
        self._said.put(first)
        Thread(target=self._write, name=f"calls of {module}", daemon=True).start()
        Thread(target=self._read, name=f"answers of {module}", daemon=True).start()

    def begin(self, arguments: tuple[object, ...]) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = answer
        self._said.put((number, arguments))
        if self.ended:
            self._give_up()
        return answer

    def end(self) -> None:
        """Hang up: its work is made to be ended anywhere, and nobody waits for it any more."""
        with suppress(OSError):  # it has ended by itself
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _write(self) -> None:
        """A thread for it: one that is stopped reads nothing, and whoever tells it something must not wait for that."""
        with suppress(OSError):  # it has ended: whoever waits is told so
            while (message := self._said.get()) is not None:
                self._connection.send(message)

    def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                number, value, error = self._connection.recv()
                with self._lock:
                    answer = self._waiting.pop(number)
                if error is None:
                    answer.set_result(value)
                else:
                    answer.set_exception(error)
        self._said.put(None)
        self.process.wait()
        self.ended = True
        self._connection.close()
        self._socket.close()
        self._give_up()

    def _give_up(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.set_exception(Transient(f"its process has ended ({self.process.returncode}); it is started anew"))


def answer_calls(open_work: Callable[[Any], Work]) -> None:
    """The other side, the whole of a process: answers calls until the caller hangs up, then ends at once.

    `open_work` makes the work of the first message.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # the caller's affair
        signal.signal(number, signal.SIG_IGN)
    connection, lock = Connection(os.dup(0)), Lock()
    workers = ThreadPoolExecutor(_WORKERS)
    with suppress(EOFError, OSError):
        back, first = connection.recv()
        stand_back(back)
        work = open_work(first)
        while True:
            number, arguments = connection.recv()
            workers.submit(_answer, connection, lock, number, partial(work, *arguments))
    os._exit(0)  # what was under way is undone by the database, as after any other end


def _answer(connection: Connection, lock: Lock, number: int, work: Callable[[], object]) -> None:
    value: object = None
    error: Exception | None = None
    try:
        value = work()
    except TidegateError as explained:
        error = explained
    except Exception as unforeseen:  # noqa: BLE001 - the caller's loop catches it, counts it and says it once
        _log.error("work beside has failed", exc_info=unforeseen)
        error = RuntimeError(f"{type(unforeseen).__name__}: {unforeseen}")
    with lock, suppress(OSError):
        connection.send((number, value, error))


def _environment() -> dict[str, str]:
    """Ours, with this very package to import."""
    folder = str(Path(tidegate.__file__).resolve().parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))}
