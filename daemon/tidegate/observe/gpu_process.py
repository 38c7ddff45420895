"""The reader process as its parent holds it: lines over a socket, deadlines, and an end that may not come."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import tidegate
from tidegate.runtime.clock import SystemClock

_ANSWER_LIMIT = 4 * 1024 * 1024
_COMMAND = (sys.executable, "-P", "-m", "tidegate.observe.nvml")
_REAL = SystemClock()
"""Deadlines are real seconds, also where the agent's clock is played fast."""


class NoAnswer(Exception):  # noqa: N818 - named for what happened
    """The child gave no answer in time, or ended."""


class ReaderProcess:
    """One reader process and the socket that is its stdin and stdout; raises OSError where none can be started."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        try:
            self._process = _spawn(theirs.fileno(), environment)
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
        self._buffer = b""
        self.pid = self._process.pid
        self.started = _REAL.monotonic()
        self.answered = False
        self.at_gpu: int | None = None
        """The GPU that it asked about last; None before the first and after the last."""

    def ask(self, request: int, leave_alone: Collection[int], deadline: float) -> Mapping[str, object]:
        """The answer to a request as JSON values; raises NoAnswer past the deadline or at the child's end."""
        indices = ",".join(map(str, leave_alone))
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(f"{request} {indices}\n".encode())
            while True:
                answer = self._line(deadline)
                if isinstance(answer, int):
                    self.at_gpu = answer if answer >= 0 else None
                elif isinstance(answer, dict) and answer.get("request") == str(request):
                    self.answered = True
                    return answer
        except (OSError, ValueError) as error:
            raise NoAnswer from error

    def _line(self, deadline: float) -> object:
        while b"\n" not in self._buffer:
            self._socket.settimeout(_left(deadline))
            part = self._socket.recv(65536)
            self._buffer += part
            if not part or len(self._buffer) > _ANSWER_LIMIT:
                raise NoAnswer
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def exit_code(self, wait_seconds: float = 0.0) -> int | None:
        """How it ended (minus the signal's number when by one), reaping it; None while it lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_seconds)
        return self._process.returncode

    def hang_up(self) -> None:
        """Let it see the end of its input."""
        self._socket.close()

    def kill(self) -> None:
        """End it the hard way: a process in a driver call takes no other signal."""
        self._socket.close()
        self._process.kill()


def _spawn(pipe: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C in a terminal is the agent's business.
    return subprocess.Popen(_COMMAND, stdin=pipe, stdout=pipe, env=dict(environment), start_new_session=True)


def _left(deadline: float) -> float:
    return max(0.001, deadline - _REAL.monotonic())


def reader_environment(library_path: Path | None) -> dict[str, str]:
    """The agent's environment, with this very package to import and the library to find."""
    environment = dict(os.environ)
    _prepend(environment, "PYTHONPATH", Path(tidegate.__file__).parents[1])
    if library_path is not None:
        _prepend(environment, "LD_LIBRARY_PATH", library_path)
    return environment


def _prepend(environment: dict[str, str], name: str, folder: Path) -> None:
    environment[name] = os.pathsep.join(filter(None, (str(folder), environment.get(name))))


def ending(code: int) -> str:
    """How a process ended, in words."""
    return f"signal {-code}" if code < 0 else f"exit status {code}"
