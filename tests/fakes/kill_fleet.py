"""A fleet under fire: a controller with its embedded Postgres, real agents, and hosts of the test that keep books.

A kill is SIGKILL, at a random moment while everybody reports; whoever was killed is started again. In the end every
report that was acknowledged has to be stored once, in the table of reports, and after compaction in the chunks alone.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psycopg
from fakes.agent_process import ROOT, eventually, free_port
from fakes.controller_process import ControllerProcess
from fakes.controller_world import batch, engine, host_state, reading
from fakes.postgres import open_folder

from tidegate.model.history import METRICS, Label, Limits, Question
from tidegate.model.reading import HostName
from tidegate.store.database import open_database
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.store import Store
from tidegate.wire import Answer, Report

_AGENT = """\
[agent]
name = "{name}"
listen = "127.0.0.1:{port}"
controllers = ["{controller}"]
token_file = "{folder}/token"
state_dir = "{folder}/state"
gpu_source = "none"
interval_seconds = 1
"""
_PAUSE = 0.05


class Agent:
    """A real agent that reports once a second."""

    def __init__(self, folder: Path, name: str, controller: str, token: str) -> None:
        self.name, self.folder = name, folder
        folder.mkdir()
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)
        port = free_port()
        (folder / "agent.toml").write_text(_AGENT.format(name=name, port=port, controller=controller, folder=folder))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidegate", "agent", "--config", str(self.folder / "agent.toml")],
                env={**os.environ, "PYTHONPATH": str(ROOT / "daemon")},
                stdout=log,
                stderr=log,
            )

    def end(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(30)

    def kept(self) -> set[tuple[str, int]]:
        """What the spool holds back still."""
        with closing(sqlite3.connect(f"file:{self.spool}?mode=ro", uri=True, timeout=10)) as base:
            return set(base.execute("SELECT boot, sequence FROM report"))

    @property
    def spool(self) -> Path:
        return self.folder / "state" / "spool.db"

    def delivered(self) -> bool:
        """True once it reports and keeps nothing back but the report that it is about to send."""
        return self.spool.exists() and len(self.kept()) <= 1


@dataclass
class Host:
    """A host of the test's own: sends what it has not been told is stored, and never forgets what it was told."""

    name: HostName
    url: str
    token: str
    sent: int = 0
    waiting: dict[int, Report] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Report until told to stop, then until nothing waits."""
        with httpx.Client(timeout=10, trust_env=False) as http:
            while not (self.stopping.is_set() and not self.waiting):
                if not self.stopping.is_set():
                    self._collect()
                self._send(http)
                time.sleep(_PAUSE)

    def _collect(self) -> None:
        self.sent += 1
        at = datetime.now(UTC)
        seen = reading(self.name, at, [engine("vllm-a", at, queue_depth=float(self.sent), generation_tokens=1.0)])
        made = batch(self.name, [seen], first=self.sent)
        self.layouts = made.layouts
        self.waiting[self.sent] = made.reports[0]

    def _send(self, http: httpx.Client) -> None:
        now = datetime.now(UTC)
        reports = list(self.waiting.values())[:200]
        message = replace_reports(self.name, now, self.layouts, reports)
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            answer = http.post(f"{self.url}/v1/report", content=message, headers=headers)
        except httpx.HTTPError:
            return
        if answer.status_code != 200:
            return
        for run in Answer.model_validate_json(answer.content).acknowledged:
            for number in range(run.first, run.last + 1):
                self.acknowledged.add(number)
                self.waiting.pop(number, None)


def replace_reports(name: HostName, now: datetime, layouts: object, reports: list[Report]) -> str:
    made = batch(name, [], host_state(0), sent_at=now)
    return made.model_copy(update={"layouts": layouts, "reports": reports}).model_dump_json()


class KillFleet:
    """The whole of it; `round` kills once. Close it."""

    def __init__(self, hosts: int = 4, agents: int = 2, seed: int = 20261129) -> None:
        self.folder = open_folder()
        self.dice = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.controller = ControllerProcess(self.folder)
        self.controller.configure(lease=5)
        self.controller.start()
        self.controller.until_ready()
        self.hosts = [self._host(f"host-{number}") for number in range(hosts)]
        self.agents = [self._agent(f"agent-{number}") for number in range(agents)]
        self._threads = [threading.Thread(target=host.run, daemon=True) for host in self.hosts]
        for thread in self._threads:
            thread.start()
        for agent in self.agents:
            agent.start()
        self._until_all_are_heard()

    def _host(self, name: str) -> Host:
        return Host(HostName(name), self.controller.url, self._token(name))

    def _agent(self, name: str) -> Agent:
        return Agent(self.folder / name, name, self.controller.url, self._token(name))

    def _token(self, name: str) -> str:
        done = self.controller.command("host", "enroll", name)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def round(self) -> None:
        """Kill one of them at a random moment, bring it back, and wait until everybody is heard again."""
        time.sleep(self.dice.uniform(0.1, 1.5))
        victim = self.dice.choice(("postgres", "controller", "agent"))
        self.killed[victim] += 1
        kill: dict[str, Callable[[], None]] = {
            "postgres": self._kill_postgres,
            "controller": self._kill_controller,
            "agent": self._kill_agent,
        }
        kill[victim]()
        self._until_all_are_heard()

    def _kill_postgres(self) -> None:
        server = EmbeddedPostgres(self.folder, owner=False)
        # What was under way when it was killed last is acknowledged still: all may have been heard before it is back.
        eventually(lambda: server.status().pid is not None, "the database is not brought up again", seconds=90)
        pid = server.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def _kill_controller(self) -> None:
        self.controller.signal(signal.SIGKILL)
        self.controller.ended()
        self.controller.start()

    def _kill_agent(self) -> None:
        agent = self.dice.choice(self.agents)
        agent.end(signal.SIGKILL)
        agent.start()

    def _until_all_are_heard(self) -> None:
        before = {host.name: len(host.acknowledged) for host in self.hosts}
        eventually(
            lambda: all(len(host.acknowledged) > before[host.name] for host in self.hosts),
            f"not all hosts are heard again: {self.controller.said()[-2000:]}",
            seconds=90,
        )

    def settle(self) -> None:
        """Let everything that waits be delivered, then end everybody in order."""
        for host in self.hosts:
            host.stopping.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a host could not deliver what it had"
        eventually(lambda: all(agent.delivered() for agent in self.agents), "an agent keeps a backlog", seconds=60)
        for agent in self.agents:
            agent.end(signal.SIGTERM)
        self.controller.stop()

    def check(self) -> int:
        """Every acknowledged report is stored once, before compaction and after it; returns how many there are."""
        server = EmbeddedPostgres(self.folder, owner=False)
        server.start()
        try:
            with psycopg.connect(server.dsn) as connection:
                rows = Counter(
                    (host, boot, sequence)
                    for host, boot, sequence in connection.execute("SELECT host, boot_id, sequence FROM report")
                )
            assert set(rows.values()) == {1}, "a report is stored twice"
            for host in self.hosts:
                stored = {sequence for name, _, sequence in rows if name == host.name}
                assert host.acknowledged <= stored, f"{host.name}: acknowledged and lost"
                assert stored == set(range(1, host.sent + 1))
            for agent in self.agents:
                self._check_agent(agent, rows)
            self._check_compacted(server.dsn)
            return sum(rows.values())
        finally:
            server.stop()

    def _check_agent(self, agent: Agent, rows: Counter[tuple[str, str, int]]) -> None:
        """Each life's reports without a gap; what is missing at an end the spool still has."""
        kept = agent.kept()
        for boot in {boot for name, boot, _ in rows if name == agent.name}:
            have = {sequence for name, life, sequence in rows if (name, life) == (agent.name, boot)}
            have |= {sequence for life, sequence in kept if life == boot}
            assert have == set(range(1, max(have) + 1)), f"{agent.name}: a gap in the life {boot}"

    def _check_compacted(self, dsn: str) -> None:
        """From the chunks alone: the reports they were made of are taken away first."""
        now = datetime.now(UTC)
        with closing(open_database(dsn)) as database:
            store = Store(database)
            while store.compaction.compact(now + timedelta(hours=5)).windows:
                pass
            with database.begin() as connection:
                connection.exec_driver_sql("TRUNCATE report")
            for host in self.hosts:
                where = {Label.HOST: frozenset({host.name})}
                question = Question(METRICS["queue_depth"], now - timedelta(hours=3), now, where=where)
                limits = replace(Limits(), points=10_000_000)
                (line,) = store.histories.query(question, limits).lines
                assert list(line.values) == [float(number) for number in range(1, host.sent + 1)], host.name

    def close(self) -> None:
        """End whatever runs still."""
        for host in self.hosts:
            host.stopping.set()
            host.waiting.clear()
        for agent in self.agents:
            if agent.process is not None and agent.process.poll() is None:
                agent.end(signal.SIGKILL)
        self.controller.stop()
        server = EmbeddedPostgres(self.folder)
        server.start()  # takes over what a killed controller left, to end it
        server.stop()
