"""What the load is put on: a database, a controller pinned to a core, a bare handler of the same server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
from parts.processes import cpu_seconds, family

from tidegate.runtime.tokens import token_hash
from tidegate.store import migrate
from tidegate.store.database import open_database
from tidegate.store.embedded import EmbeddedPostgres

ROOT = Path(__file__).resolve().parents[2]
POOLS = 200
_SEGMENTS = 50
"""Of 16 MB: what 2,000 hosts bring in five minutes, and less than a server keeps (`max_wal_size`)."""
_BARE = """
import asyncio, sys, threading
from tidegate.runtime.serve import HttpServer, tcp, raise_file_limit

async def app(scope, receive, send):
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})

raise_file_limit()
server = HttpServer(app, tcp("127.0.0.1", int(sys.argv[1])), "bare")
server.start()
threading.Event().wait()
"""


class Database:
    """A Postgres of our own, off the controller's core where there is another."""

    def __init__(self, folder: Path, core: int) -> None:
        self._server, self._cores = EmbeddedPostgres(folder), os.sched_getaffinity(0) - {core}

    def __enter__(self) -> Database:
        self._server.start()
        pid = self._server.status().pid
        if self._cores and pid is not None:
            for one in family(pid):  # those that it starts later inherit it
                os.sched_setaffinity(one, self._cores)
        with_tables = open_database(self._server.dsn)
        migrate.upgrade(with_tables)
        with_tables.close()
        self._go_around()
        return self

    def _go_around(self) -> None:
        """Write every segment of the log once, as a server has that has run for ten minutes.

        From its second checkpoint on it writes over those that it has. A new one is filled with 16 MB of nothing first,
        and whoever is acknowledged meanwhile waits for that.
        """
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE round ()")
            for _ in range(_SEGMENTS):
                connection.execute("INSERT INTO round DEFAULT VALUES")  # else there is nothing to end a segment for
                connection.execute("SELECT pg_switch_wal()")
            connection.execute("DROP TABLE round")
            connection.execute("CHECKPOINT")
            connection.execute("CHECKPOINT")

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    @property
    def dsn(self) -> str:
        """Where it answers."""
        return self._server.dsn


@dataclass(frozen=True, slots=True)
class Prepared:
    """Hosts that are enrolled, with a file for the generator and a configuration for the controller."""

    folder: Path
    config: Path
    port: int


def prepare(folder: Path, dsn: str, hosts: int, interval: float) -> Prepared:
    """Enroll the hosts and write what the others read."""
    tokens = [f"tgh_load-{number:05d}" for number in range(hosts)]
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        rows = [(f"gpu-{number:04d}", token_hash(token)) for number, token in enumerate(tokens)]
        cursor.executemany("INSERT INTO host (name, token_hash, enrolled_at) VALUES (%s, %s, now())", rows)
    (folder / "hosts.json").write_text(json.dumps({"tokens": tokens, "interval": interval, "pools": POOLS}))
    port, config = free_port(), folder / "controller.toml"
    parts = [f'[controller]\nlisten = "127.0.0.1:{port}"\nstate_dir = "{folder}/state"\ndatabase = "{dsn}"\n']
    for number in range(POOLS):
        parts.append(f'[[service]]\nname = "s-{number:03d}"\n')
        parts.append(f'[[pool]]\nname = "pool-{number:03d}"\nservice = "s-{number:03d}"\nmin = 0\nmax = 50\n')
    config.write_text("\n".join(parts))
    return Prepared(folder, config, port)


class Pinned:
    """A process on one core."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        return cpu_seconds(family(self._process.pid))


@contextmanager
def controller(made: Prepared, core: int) -> Iterator[tuple[int, Pinned]]:
    """A controller pinned to the core, ready."""
    words = [sys.executable, "-m", "tidegate", "controller", "--config", str(made.config)]
    with (made.folder / "controller.log").open("wb") as log, _running(words, core, log) as process:
        _until(f"http://127.0.0.1:{made.port}/-/ready", made.folder / "controller.log")
        yield made.port, Pinned(process)


@contextmanager
def bare_server(core: int) -> Iterator[int]:
    """The same HTTP server with a handler that reads the body and answers."""
    port = free_port()
    with _running([sys.executable, "-c", _BARE, str(port)], core, subprocess.DEVNULL):
        _until(f"http://127.0.0.1:{port}/", None)
        yield port


@contextmanager
def _running(words: list[str], core: int, log: Any) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "daemon"), "NO_COLOR": "1"}
    process = subprocess.Popen(["taskset", "-c", str(core), *words], stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until(url: str, log: Path | None) -> None:
    for _ in range(600):
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{url} does not answer: {log.read_text()[-2000:] if log else ''}")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
