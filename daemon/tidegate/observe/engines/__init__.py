"""The dialects of the serving engines, and whose a body is: known by the families that are present, by nothing else."""

from __future__ import annotations

from collections.abc import Sequence, Set

from tidegate.model.reading import EngineKind
from tidegate.observe.engines.dialect import Content, Dialect, JsonDialect
from tidegate.observe.engines.sglang import SGLANG
from tidegate.observe.engines.vllm import VLLM

_IN_ORDER: tuple[Dialect, ...] = (VLLM, SGLANG)
"""Asked in this order: one that passes another engine's series on beside its own stands before that engine."""

DIALECTS: dict[EngineKind, Dialect] = {dialect.kind: dialect for dialect in _IN_ORDER}

JSON_DIALECTS: tuple[JsonDialect, ...] = ()

ROUTERS = (
    ("vllm_router_", "vllm-router, which is no engine: give the address of an engine behind it"),
    ("vllm_current_qps", "production-stack's router, which is no engine: give the address of an engine behind it"),
    ("smg_", "sglang-router, which is no engine: give the address of an engine behind it"),
)
"""Prefixes of (normalised) names; asked before the dialects, for a router may borrow an engine's prefix."""

STRANGERS = (
    ("trtllm_", "TensorRT-LLM, whose metrics this version does not read"),
    ("nv_inference_", "Triton, whose metrics this version does not read"),
    ("tgi_", "TGI, whose metrics this version does not read"),
    ("lmdeploy_", "LMDeploy, whose metrics this version does not read"),
    ("llamacpp_", "llama.cpp, whose metrics this version does not read"),
    ("dynamo_", "Dynamo, whose metrics this version does not read"),
    ("ray_", "Ray, whose metrics this version does not read"),
    ("tidegate_", "Tidegate's own exporter: give the address of the engine"),
    ("DCGM_", "an exporter of GPU metrics: give the address of the engine"),
)
"""Asked after the dialects: Dynamo and Triton pass the series of an engine on beside their own."""

_SERVER_PREFIXES = ("python_", "process_", "http_")

WANTED = frozenset().union(*(dialect.wanted for dialect in DIALECTS.values()))
"""Everything that any dialect looks at."""


def detect(present: Set[str]) -> Dialect | None:
    """Whose body this is; None when it is no engine that is read here."""
    if _known_by(ROUTERS, present) is not None:
        return None
    return next((dialect for dialect in DIALECTS.values() if dialect.recognises(present)), None)


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
