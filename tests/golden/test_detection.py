"""Every page, real or written by hand, is recognised as one kind of engine or gateway, and as no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.engine_pages import AT, CAPTURES

from tidegate.model.reading import EngineKind, EngineName, EngineState
from tidegate.observe.body import Origin, read_body
from tidegate.observe.engines import DIALECTS, JSON_DIALECTS
from tidegate.observe.textformat import parse

_REAL = {
    "vllm-0.32.0": EngineKind.VLLM,
    "vllm-0.32.0-dp2": EngineKind.VLLM,
    "vllm-0.32.0-pd": EngineKind.VLLM,
    "sglang-0.5.23": EngineKind.SGLANG,
    "llama.cpp-b11434": EngineKind.LLAMA_CPP,
    "vllm-router-0.1.17": EngineKind.VLLM_ROUTER,
    "sglang-router-0.3.2": EngineKind.SGLANG_ROUTER,
}
_OWN = {
    "two-ranks-a.prom": EngineKind.VLLM,
    "two-ranks-b.prom": EngineKind.VLLM,
    "openmetrics.prom": EngineKind.VLLM,
    "trtllm/1.0.prom": EngineKind.TENSORRT_LLM,
    "trtllm/1.3-a.prom": EngineKind.TENSORRT_LLM,
    "trtllm/1.3-b.prom": EngineKind.TENSORRT_LLM,
    "trtllm/iterations.json": EngineKind.TENSORRT_LLM,
    "triton/ensemble.prom": EngineKind.TRITON,
    "triton/vllm-backend.prom": EngineKind.TRITON,
    "tgi/load.prom": EngineKind.TGI,
    "lmdeploy/0.18.prom": EngineKind.LMDEPLOY,
    "llamacpp/long-lived.prom": EngineKind.LLAMA_CPP,
    "dynamo/frontend.prom": EngineKind.DYNAMO_FRONTEND,
    "dynamo/renamed-frontend.prom": EngineKind.DYNAMO_FRONTEND,
    "dynamo/worker.prom": EngineKind.DYNAMO,
    "dynamo/vllm-worker.prom": EngineKind.VLLM,
    "routers/sglang-queue.prom": EngineKind.SGLANG_ROUTER,
    "routers/vllm-ranks.prom": EngineKind.VLLM_ROUTER,
}
_PATHS = {"trtllm/1.0.prom": "/prometheus/metrics"}
_NOT_READ = {"stats-off.prom": EngineState.DISABLED, "metrics-off.json": EngineState.DISABLED}
_PASS_ON = frozenset(
    {"triton/vllm-backend.prom", "dynamo/vllm-worker.prom", "dynamo/frontend.prom", "dynamo/renamed-frontend.prom"}
)
"""Pages with families of a second kind in them: the order of the dialects decides."""


@pytest.mark.parametrize("folder", _REAL)
def test_every_real_page_is_one_kind(folder: str, shared: Path) -> None:
    """Or says why it is not read."""
    pages = sorted((shared / "captures" / folder).glob("*.*"))
    assert pages
    for page in pages:
        reading = read_body(EngineName("e"), page.read_bytes(), AT)
        if page.name in _NOT_READ:
            assert reading.state is _NOT_READ[page.name]
        else:
            assert (page.name, reading.kind, reading.state) == (page.name, _REAL[folder], EngineState.READY)
            assert _recognisers(page) == [_REAL[folder]]


def test_every_page_of_ours_is_one_kind() -> None:
    """A page that is added without saying whose it is, is missed here."""
    pages = sorted(
        str(page.relative_to(CAPTURES)) for page in CAPTURES.rglob("*.*") if page.suffix in (".prom", ".json")
    )
    known = {name: _OWN[name] for name in pages if name in _OWN}
    assert sorted(_OWN) == sorted(known)
    for name, kind in known.items():
        origin = Origin(path=_PATHS.get(name, "/metrics"))
        reading = read_body(EngineName("e"), (CAPTURES / name).read_bytes(), AT, "", origin=origin)
        assert (name, reading.kind, reading.state) == (name, kind, EngineState.READY)
        if name not in _PASS_ON and name not in _PATHS:
            assert _recognisers(CAPTURES / name) == [kind]


def _recognisers(page: Path) -> list[EngineKind]:
    if page.suffix == ".json":
        return [dialect.kind for dialect in JSON_DIALECTS]
    present = parse(page.read_bytes()).present
    return [kind for kind, dialect in DIALECTS.items() if dialect.recognises(present)]


def test_every_kind_has_its_dialect() -> None:
    """And every dialect reads what it wants and nothing that it does not."""
    assert set(DIALECTS) == set(EngineKind)
    for kind, dialect in DIALECTS.items():
        assert dialect.kind is kind
        assert dialect.ends_with <= dialect.wanted


@pytest.mark.parametrize("kind", EngineKind)
def test_a_page_with_other_things_alone_gives_no_figure(kind: EngineKind) -> None:
    """Whatever it was declared as."""
    body = b"node_load1 0.5\nnode_boot_time_seconds 3\n"
    reading = read_body(EngineName("e"), body, AT, "text/plain", origin=Origin(kind=kind))

    assert (reading.gauges, reading.histograms) == ({}, {})
    assert reading.state is EngineState.MALFORMED
