"""`tidegate plan --stdio` as a process: lines in and out at once, errors that end nothing, memory that survives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.observations import Tenant, line, observation
from golden.regenerate_planner import HOW, PAGE, expected, questions

from tidegate.model.memory import Memory
from tidegate.model.memory_json import memory_json

COMMAND = [sys.executable, "-m", "tidegate", "plan", "--stdio"]
ROOT = Path(__file__).parents[2]


class Planner:
    """The process, asked one line at a time."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT / "daemon",
        )

    def ask(self, raw: bytes) -> bytes:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def end(self) -> tuple[int, str]:
        """Close its input; its status and what it said on stderr."""
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said.decode()


@contextmanager
def planner(*arguments: str) -> Iterator[Planner]:
    started = Planner(*arguments)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait()
        for pipe in (started.process.stdin, started.process.stdout, started.process.stderr):
            if pipe:
                pipe.close()


def test_each_line_is_answered_at_once_and_the_end_of_the_input_is_the_end() -> None:
    with planner() as asked:
        assert "pools" in json.loads(asked.ask(line(observation(1000))))
        assert json.loads(asked.ask(b"{nonsense"))["error"].startswith("line 2: column 2: not JSON")
        assert json.loads(asked.ask(b""))["error"].startswith("line 3: the line is empty")
        assert (
            json.loads(asked.ask(b"\xff\xfe"))["error"] == "line 4: byte 1: the line is not UTF-8; write JSON in UTF-8"
        )
        assert "pools" in json.loads(asked.ask(line(observation(1015))))
        assert asked.end() == (0, "")


def test_a_last_line_needs_no_end_and_windows_ends_are_taken() -> None:
    done = subprocess.run(
        COMMAND, input=line(observation(1)) + b"\r\n" + line(observation(2)), capture_output=True, cwd=ROOT / "daemon"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [list(json.loads(said)) for said in done.stdout.splitlines()] == [["pools", "reasons"]] * 2


def test_a_huge_line_is_refused_and_the_next_is_answered() -> None:
    huge = b'{"pools": "' + b"x" * (65 * 1024 * 1024) + b'"}\n'
    done = subprocess.run(COMMAND, input=huge + line(observation(1)), capture_output=True, cwd=ROOT / "daemon")
    refused, answered = (json.loads(said) for said in done.stdout.splitlines())
    assert refused["error"] == "line 1: longer than 67108864 bytes; send one fleet at a time"
    assert "pools" in answered
    assert done.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    with planner() as asked:
        asked.ask(line(observation()))
        asked.process.send_signal(number)
        assert asked.process.wait(timeout=30) == 0
        assert asked.end() == (0, "")


def test_a_caller_that_went_away_is_told_of_in_one_line() -> None:
    with planner() as asked:
        asked.ask(line(observation()))
        assert asked.process.stdout
        assert asked.process.stdin
        asked.process.stdout.close()
        asked.process.stdin.write(line(observation()) + b"\n")
        asked.process.stdin.close()
        assert asked.process.wait(timeout=30) == 1
        assert asked.process.stderr
        said = asked.process.stderr.read().decode()
        assert said == "tidegate: nobody reads the plans any more: the pipe on stdout is closed\n"


def test_a_process_for_each_line_answers_like_one_for_all(tmp_path: Path) -> None:
    """The memory is in the file before the answer is out."""
    tenant, file = Tenant(), tmp_path / "memory.json"
    with planner() as steady:
        for rate in (2.0, 30.0, 30.0):
            found = line(tenant.observe(rate))
            with planner("--memory", str(file)) as once:
                said = once.ask(found)
                assert once.end() == (0, "")
            assert said == steady.ask(found)
            tenant.obey(json.loads(said))


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (b"", "is not a planner's memory (JSONDecodeError)"),
        (b'{"version": 2, "services": 7}', "is not a planner's memory ("),
        (b"\x00\xff", "is not a planner's memory ("),
        (b'{"version": 99}', "was written by a later version of tidegate"),
    ],
)
def test_a_file_that_is_no_memory_is_put_aside_and_said(tmp_path: Path, held: bytes, told: str) -> None:
    file = tmp_path / "memory.json"
    file.write_bytes(held)
    with planner("--memory", str(file)) as asked:
        first, second = (json.loads(asked.ask(line(observation(now)))) for now in (1, 16))
        status, said = asked.end()
    assert status == 0
    assert told in said
    assert "it is kept as memory.json.refused, and learning begins anew" in said
    assert [told in reason for reason in first["reasons"]] == [True]
    assert second["reasons"] == []
    assert (tmp_path / "memory.json.refused").read_bytes() == held
    assert json.loads(file.read_bytes())["version"] == memory_json(Memory())["version"]


def test_a_memory_that_cannot_be_kept_is_told_before_anything_is_planned(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--memory", str(tmp_path / "none" / "memory.json")],
        input=b"",
        capture_output=True,
        cwd=ROOT / "daemon",
    )
    assert done.returncode == 1
    assert b"cannot be written (No such file or directory)" in done.stderr


def test_the_configurations_limits_hold(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text('[[service]]\nname = "s"\n[[pool]]\nname = "base"\nmin = 1\nmax = 1\n')
    with planner("--config", str(file)) as asked:
        said = json.loads(asked.ask(line({"now": 1, "pools": {"base": {"replicas": []}}})))
        assert said["pools"]["base"]["target"] == 1
        assert "no such pool" in json.loads(asked.ask(line({"now": 1, "pools": {"b": {"replicas": []}}})))["error"]


def test_a_wrong_configuration_ends_it_with_78(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text("[[pool]]\n")
    done = subprocess.run([*COMMAND, "--config", str(file)], input=b"", capture_output=True, cwd=ROOT / "daemon")
    assert done.returncode == 78
    assert b"name: is required and missing" in done.stderr


def test_without_stdio_it_says_what_to_say() -> None:
    done = subprocess.run(COMMAND[:-1], input=b"", capture_output=True, cwd=ROOT / "daemon")
    assert done.returncode == 2
    assert b"--stdio" in done.stderr


def test_the_example_of_the_documentation_is_what_it_answers() -> None:
    """docs/planner.md shows a session: `>` goes in, `<` comes out."""
    page = PAGE.read_text(encoding="utf-8")
    asked = questions(page)
    assert len(asked) >= 3
    assert expected(page) == page, HOW
    done = subprocess.run(COMMAND, input="\n".join(asked).encode(), capture_output=True, cwd=ROOT / "daemon")
    assert all(f"< {told}\n" in page for told in done.stdout.decode().splitlines())
