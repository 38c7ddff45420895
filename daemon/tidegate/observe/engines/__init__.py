"""The dialects of the serving engines, and whose a body is: known by the families that are present, by nothing else."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import lru_cache

from tidegate.model.reading import EngineKind
from tidegate.observe.engines.dialect import Content, Dialect, JsonDialect
from tidegate.observe.engines.dynamo import DYNAMO, DYNAMO_FRONTEND
from tidegate.observe.engines.llamacpp import LLAMA_CPP
from tidegate.observe.engines.lmdeploy import LMDEPLOY
from tidegate.observe.engines.routers import SGLANG_ROUTER, VLLM_ROUTER
from tidegate.observe.engines.sglang import SGLANG
from tidegate.observe.engines.tgi import TGI
from tidegate.observe.engines.triton import TRITON
from tidegate.observe.engines.trtllm import TENSORRT_LLM, is_at
from tidegate.observe.engines.trtllm_json import TENSORRT_LLM_JSON
from tidegate.observe.engines.vllm import VLLM

_IN_ORDER: tuple[Dialect, ...] = (
    *(VLLM_ROUTER, SGLANG_ROUTER, DYNAMO_FRONTEND, TRITON),
    *(VLLM, SGLANG, TENSORRT_LLM, TGI, LMDEPLOY, LLAMA_CPP),
    DYNAMO,
)
"""Asked in this order: what may borrow an engine's prefix or pass its series on stands before that engine; but a worker
of Dynamo's is read as the engine that it runs."""

DIALECTS: dict[EngineKind, Dialect] = {dialect.kind: dialect for dialect in _IN_ORDER}

JSON_DIALECTS: tuple[JsonDialect, ...] = (TENSORRT_LLM_JSON,)

ROUTERS = (
    ("vllm_current_qps", "production-stack's router, which is no engine: give the address of an engine behind it"),
)
"""Prefixes of (normalised) names; asked before the dialects, for a router may borrow an engine's prefix."""

STRANGERS = (
    ("sgl_router_", "sglang-router before 0.3, whose metrics this version does not read"),
    ("ray_", "Ray without an engine's metrics"),
    ("tidegate_", "Tidegate's own exporter: give the address of the engine"),
    ("DCGM_", "an exporter of GPU metrics: give the address of the engine"),
)
"""Asked after the dialects."""

_SERVER_PREFIXES = ("python_", "process_", "http_")

WANTED = frozenset().union(*(dialect.wanted for dialect in DIALECTS.values()))
"""Everything that any dialect looks at."""


@lru_cache(64)
def detect(present: frozenset[str], path: str = "") -> Dialect | None:
    """Whose body this is; None when it is no engine that is read here.

    `path` is that of the page's address, for families that say nothing of their engine.
    """
    if _known_by(ROUTERS, present) is not None:
        return None
    found = next((dialect for dialect in _IN_ORDER if dialect.recognises(present)), None)
    return TENSORRT_LLM if found is None and is_at(path, present) else found


def detect_json(document: object) -> JsonDialect | None:
    """Whose JSON document this is; None when it is no engine's."""
    return next((dialect for dialect in JSON_DIALECTS if dialect.recognises(document)), None)


def stranger(present: Set[str]) -> str | None:
    """What a body that `detect` knows nothing of is, in words, where that is known."""
    return _known_by((*ROUTERS, *STRANGERS), present)


def _known_by(table: Sequence[tuple[str, str]], present: Set[str]) -> str | None:
    return next((words for prefix, words in table if any(name.startswith(prefix) for name in present)), None)


def is_server_alone(present: Set[str]) -> bool:
    """True when there is nothing but what any Python server says of itself."""
    return bool(present) and all(name.startswith(_SERVER_PREFIXES) for name in present)


__all__ = [
    "DIALECTS",
    "JSON_DIALECTS",
    "WANTED",
    "Content",
    "Dialect",
    "JsonDialect",
    "detect",
    "detect_json",
    "is_server_alone",
    "stranger",
]
