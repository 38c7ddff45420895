"""Which command lines are serving engines, and on which port each then answers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tidegate.model.vocabulary import EngineKind


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """An engine by its command line."""

    kind: EngineKind
    port: int
    paths: tuple[str, ...] = ("/metrics",)
    """Where its metrics may be, the harmless one first."""


@dataclass(frozen=True, slots=True)
class _Form:
    kind: EngineKind
    programs: tuple[tuple[str, ...], ...]
    """A program's name and the words that must follow it."""
    modules: tuple[str, ...]
    port: int
    """When the command line names none."""
    options: tuple[str, ...] = ("--port",)
    paths: tuple[str, ...] = ("/metrics",)


_FORMS = (
    _Form(
        EngineKind.VLLM,
        (("vllm", "serve"),),
        ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main"),
        8000,
    ),
    _Form(EngineKind.SGLANG, (("sglang", "serve"),), ("sglang.launch_server",), 30000),
    _Form(
        EngineKind.TENSORRT_LLM,
        (("trtllm-serve",),),
        ("tensorrt_llm.commands.serve",),
        8000,
        # Reading the JSON at /metrics takes it from whoever reads it too (TRT-LLM#13405).
        paths=("/prometheus/metrics", "/metrics"),
    ),
    _Form(
        EngineKind.TGI,
        (("text-generation-router",), ("text-generation-router-v2",), ("text-generation-launcher",)),
        (),
        3000,
        options=("--port", "-p"),
    ),
    _Form(
        EngineKind.LMDEPLOY,
        (("lmdeploy", "serve", "api_server"),),
        ("lmdeploy.serve.openai.api_server",),
        23333,
        options=("--server-port",),
    ),
    _Form(EngineKind.LLAMA_CPP, (("llama-server",),), (), 8080),
)


def recognise(words: Sequence[str]) -> EngineCommand | None:
    """The engine that this command line runs; None for anything else."""
    program, module = _program(words)
    for form in _FORMS:
        if (module and module in form.modules) or any(program[: len(start)] == start for start in form.programs):
            port = _port(words, form.options)
            return EngineCommand(form.kind, form.port if port is None else port, form.paths)
    return None


def _program(words: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The program's name with its first words, past an interpreter; and the module that the interpreter runs."""
    if not words or not words[0]:
        return (), ""
    first = PurePosixPath(words[0]).name
    if not first.startswith("python"):
        return (first, *words[1:3]), ""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m" and at + 1 < len(words):
            return (), words[at + 1]
        if words[at] == "-c":
            return (), ""
        at += 2 if words[at] in ("-W", "-X") else 1
    return ((PurePosixPath(words[at]).name, *words[at + 1 : at + 3]) if at < len(words) else ()), ""


def _port(words: Sequence[str], options: Sequence[str]) -> int | None:
    """The port that an option names, the last one when it stands twice; None without one that is a port."""
    found = None
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in options:
            text = value if equals else words[at + 1] if at + 1 < len(words) else ""
            if text.isdecimal() and 0 < int(text) < 65536:
                found = int(text)
    return found
