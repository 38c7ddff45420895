"""Answers each request line on stdin with one line of JSON on stdout.

A request is a number and the indices of the GPUs to be left alone: "7 3,5". Before each GPU its index is written on a
line of its own. It is a process because an NVML call can hang where no signal reaches it, and because a loaded driver
library is never replaced within a process: after a driver upgrade only a fresh one works. So it initialises once, keeps
the handles, and when NVML as a whole fails it says why and exits; `observe/gpu_child.py` starts another.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import IO

from tidegate.observe.gpu_json import encode
from tidegate.observe.nvml.survey import Nvml
from tidegate.runtime.clock import SystemClock

_EPOCH = datetime.fromtimestamp(0, UTC)
"""Stands for now: the asker knows the time, and is told how long ago an event was."""


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer request lines until their end, or until a fresh process is wanted."""

    def say(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    nvml = Nvml(SystemClock(), say)
    for line in requests:
        request, _, indices = line.strip().partition(" ")
        survey = nvml.survey(_EPOCH, {int(index) for index in indices.split(",") if index})
        say({"request": request, "last": nvml.finished, **encode(survey)})
        if nvml.finished:
            break
    nvml.close()


def main() -> None:
    """Serve on stdin and stdout; whatever a library prints goes to stderr instead."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
