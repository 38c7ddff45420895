"""The texts of /proc, the command lines of engines, and this very machine's /proc."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.vocabulary import EngineKind
from tidegate.observe.engine_commands import recognise
from tidegate.observe.host_processes import HostProcesses
from tidegate.observe.proc_text import Listener, command, control_group, listeners, process

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41001 1 0 100 0 0 10 0
   1: 00000000:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41002 1 0 100 0 0 10 0
   2: 0100007F:1F40 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 41003 1 0 20 4 30 10 -1
   3: garbage
"""
TCP6 = """\
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 42001 1 0
   1: 0000000000000000FFFF00000100007F:1F91 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 42002 1 0
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the text is a little-endian machine's")
def test_listening_sockets_are_told_from_connections() -> None:
    assert listeners(TCP.splitlines()) == [Listener("127.0.0.1", 8000, 41001), Listener("0.0.0.0", 30000, 41002)]
    found = listeners(TCP6.splitlines())
    assert found == [Listener("::", 8080, 42001), Listener("127.0.0.1", 8081, 42002)]
    assert [each.authority for each in found] == ["[::1]:8080", "127.0.0.1:8081"]


@given(st.text())
def test_no_text_of_proc_is_too_strange(text: str) -> None:
    listeners(text.splitlines())
    process(7, text, text)
    control_group(text)
    command(text.encode("utf-8", "surrogatepass"))


def test_a_process_whose_name_looks_like_the_fields_after_it() -> None:
    stat = "7 (a) R 1 (x) S 4 7 6 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 8899 0 0"
    found = process(7, stat, "0::/system.slice/vllm@0.service\n")
    assert found is not None
    assert (found.parent, found.session, found.began, found.group) == (4, 6, 8899, "/system.slice/vllm@0.service")
    assert process(7, stat.replace("S", "Z")) is None


def test_the_control_group_of_either_hierarchy() -> None:
    assert control_group("12:memory:/m\n1:name=systemd:/system.slice/a.service\n") == "/system.slice/a.service"
    assert control_group("1:name=systemd:/old\n0::/new:with:colons\n") == "/new:with:colons"


@pytest.mark.parametrize(
    ("line", "kind", "port"),
    [
        ("/opt/v/bin/python3 /opt/v/bin/vllm serve some/model --tensor-parallel-size 4", EngineKind.VLLM, 8000),
        ("vllm serve some/model --port 8100", EngineKind.VLLM, 8100),
        ("python -m vllm.entrypoints.openai.api_server --port=8001", EngineKind.VLLM, 8001),
        ("python3.12 -u -X dev -m vllm.entrypoints.openai.api_server", EngineKind.VLLM, 8000),
        ("python -m sglang.launch_server --model-path x --port 31000", EngineKind.SGLANG, 31000),
        ("sglang serve --model-path x", EngineKind.SGLANG, 30000),
        ("/usr/bin/trtllm-serve some/model --host 0.0.0.0", EngineKind.TENSORRT_LLM, 8000),
        ("text-generation-router --max-batch-total-tokens 9 -p 80", EngineKind.TGI, 80),
        ("lmdeploy serve api_server m --server-port 23334 --port 9", EngineKind.LMDEPLOY, 23334),
        ("/srv/llama.cpp/llama-server -m a.gguf --metrics --port 8081", EngineKind.LLAMA_CPP, 8081),
        ("llama-server --port nonsense", EngineKind.LLAMA_CPP, 8080),
        ("llama-server --port 8081 --port 8082", EngineKind.LLAMA_CPP, 8082),
    ],
)
def test_engines_are_known_by_their_command_lines(line: str, kind: EngineKind, port: int) -> None:
    found = recognise(line.split())
    assert found is not None
    assert (found.kind, found.port) == (kind, port)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "vllm bench serve",
        "vllm",
        "grep vllm serve",
        "vi vllm serve",
        "python -c import(vllm) vllm serve",
        "python -m pytest vllm serve",
        "bash -c vllm serve m",
        "python train.py --port 8000",
        "nginx: worker",
        "python",
        "ssh box vllm serve m",
    ],
)
def test_other_programs_are_no_engines(line: str) -> None:
    assert recognise(line.split()) is None


def test_the_json_of_tensorrt_llm_is_asked_last() -> None:
    """Reading it takes it from whoever reads it too."""
    found = recognise(["trtllm-serve", "m"])
    assert found is not None
    assert found.paths == ("/prometheus/metrics", "/metrics")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc")
def test_this_process_and_its_socket_are_found_on_this_machine() -> None:
    host = HostProcesses()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        (own,) = [each for each in host.listeners() if each.port == port and each.address == "127.0.0.1"]
        assert own.inode in host.sockets(os.getpid())
    found = host.process(os.getpid())
    assert found is not None
    assert (found.parent, found.session) == (os.getppid(), os.getsid(0))
    assert host.command(os.getpid())[0].endswith(Path(sys.executable).name) or host.command(os.getpid())
    assert os.getpid() in host.pids()
    assert os.getppid() in host.family([os.getpid()])


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc")
def test_a_process_that_is_gone_is_not_there() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    host = HostProcesses()
    assert (host.process(gone.pid), host.command(gone.pid), host.sockets(gone.pid)) == (None, (), frozenset())


def test_the_members_of_a_control_group_and_below(tmp_path: Path) -> None:
    unit = tmp_path / "system.slice" / "vllm@0.service"
    (unit / "worker").mkdir(parents=True)
    (unit / "cgroup.procs").write_text("10\n11\n")
    (unit / "worker" / "cgroup.procs").write_text("12\n")
    host = HostProcesses(groups=tmp_path)
    assert host.group_members("/system.slice/vllm@0.service") == {10, 11, 12}
    assert host.group_members("/system.slice/none.service") == set()
    assert host.group_members("/") == set()
    assert host.group_members("/../..") == set()
