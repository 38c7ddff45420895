"""Hosts that report on loopback: `load_generator.py PORT FOLDER WARM SECONDS polls|none`; prints what they saw.

Each host reports every interval, at its own place in it, over a connection that it keeps, as agents do; with `polls` it
holds a long poll open on another. Bodies are made ahead: what is measured is the other side. The first WARM seconds,
in which every host sends its layout, are left out of the figures; "measured" goes to standard error when they are over.
"""

from __future__ import annotations

import asyncio
import base64
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "daemon")]

from parts.fleet_samples import ENGINES, GPUS, HostSamples  # noqa: E402 - this file is a program of its own

from tidegate.runtime.clock import clock_from_environment  # noqa: E402

_CLOCK = clock_from_environment()
_MOST_SECONDS = 600
_ROUNDS = 12
"""Of samples, over and over: three minutes in which no counter falls."""


class Host:
    """One agent's traffic."""

    def __init__(self, number: int, token: str, port: int, pools: int) -> None:
        made = HostSamples(number)
        self.name, self.port, self.token = made.name, port, token
        self.layout = {"id": made.layout, "series": [key.row() for key in made.keys]}
        rows = made.next(_ROUNDS).values.astype("<f8")
        self.values = [base64.b64encode(row.tobytes()).decode() for row in rows]
        self.state = json.dumps(
            {
                "gpus": [{"index": gpu, "uuid": f"GPU-{number:04d}-{gpu}", "name": "H100"} for gpu in range(GPUS)],
                "nvml_up": True,
                "agent_version": "load",
                "engines": [
                    {
                        "name": f"vllm-{number % ENGINES}",
                        "url": "http://127.0.0.1:8000/metrics",
                        "state": "ready",
                        "kind": "vllm",
                        "pool": f"pool-{number % pools:03d}",
                        "service": f"s-{number % pools:03d}",
                        "gpu_indices": [0],
                    }
                ],
            }
        )
        self.boot, self.sequence, self.known = f"b{time.time_ns()}", 0, False
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.position = (0, 0)

    def body(self) -> bytes:
        """The next report."""
        self.sequence += 1
        now = _CLOCK.now().timestamp()
        layouts = "" if self.known else f'"layouts":[{json.dumps(self.layout)}],'
        self.known = True
        report = (
            f'{{"boot_id":"{self.boot}","sequence":{self.sequence},"at":{now},"layout":"{self.layout["id"]}",'
            f'"values":"{self.values[self.sequence % _ROUNDS]}"}}'
        )
        head = f'{{"version":1,"host":"{self.name}","sent_at":{now},{layouts}'
        return f'{head}"reports":[{report}],"state":{self.state}}}'.encode()

    async def report(self) -> tuple[float, int, bytes]:
        """Send it; milliseconds, status, body."""
        content = self.body()
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        head = (
            f"POST /v1/report HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        began = time.perf_counter()
        writer.write(head.encode() + content)
        status, answer = await _answer(reader)
        return 1000 * (time.perf_counter() - began), status, answer

    async def poll(self, until: float) -> None:
        """Hold a long poll open, over and over."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while time.monotonic() < until:
            epoch, revision = self.position
            head = f"GET /v1/desired?after_epoch={epoch}&after={revision}&wait=20 HTTP/1.1\r\nHost: c\r\n"
            writer.write(f"{head}Authorization: Bearer {self.token}\r\n\r\n".encode())
            status, answer = await _answer(reader)
            if status == 200:
                found = json.loads(answer)
                self.position = (found["epoch"], found["revision"])
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length) if length else b""


async def _run(
    host: Host, start: float, interval: float, span: tuple[float, float], seen: list[float], errors: list[str]
) -> None:
    place, (since, until) = 0, span
    while True:
        at = start + place * interval
        place += 1
        if at > until:
            return
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        try:
            took, status, answer = await host.report()
        except (OSError, asyncio.IncompleteReadError) as error:
            host.streams, host.known = None, False
            errors.append(repr(error))
            continue
        if at >= since:
            seen.append(took)
        if status != 200:
            errors.append(answer.decode(errors="replace"))


async def main() -> None:
    port, folder, warm = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    seconds = min(_MOST_SECONDS, int(sys.argv[4]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    told = json.loads((folder / "hosts.json").read_text())
    hosts = [Host(number, token, port, told["pools"]) for number, token in enumerate(told["tokens"])]
    start, seen, errors = time.monotonic() + 1.0, [], []  # type: float, list[float], list[str]
    span = (start + warm, start + warm + seconds)
    places = [start + told["interval"] * number / len(hosts) for number in range(len(hosts))]
    polls = []
    if sys.argv[5] == "polls":
        for host in hosts:
            polls.append(asyncio.ensure_future(host.poll(span[1])))
            await asyncio.sleep(0.001)
    asyncio.get_running_loop().call_at(span[0], lambda: print("measured", file=sys.stderr, flush=True))
    await asyncio.gather(
        *(_run(host, at, told["interval"], span, seen, errors) for host, at in zip(hosts, places, strict=True))
    )
    for one in polls:
        one.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
    broken = sum(1 for one in polls if not one.cancelled() and one.exception() is not None)
    if errors:
        print(*errors[:3], sep="\n", file=sys.stderr)
    print(f"count {len(seen)}\nmedian {np.median(seen)}\np99 {np.percentile(seen, 99)}\nworst {max(seen)}")
    print(f"errors {len(errors) + broken}\npolls {len(polls)}")


if __name__ == "__main__":
    asyncio.run(main())
