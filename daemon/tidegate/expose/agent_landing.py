"""The agent's page for people: what it sees of this host and why something is missing. Plain HTML, no scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tidegate.expose.agent_metrics import tokens_per_gpu_per_second
from tidegate.model.figures import Figure
from tidegate.model.reading import EngineReading, EngineState, Gap, GpuReading, GpuSurvey, Missing, Number
from tidegate.model.snapshot import AgentSnapshot, EngineLabels

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #777; --good: #1a7f37; --wait: #9a6700; --bad: #cf222e }
body { font: 15px/1.45 system-ui, "Noto Sans CJK SC", "PingFang SC", sans-serif; max-width: 76rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem } nav a { margin-right: 1rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.dim, small { color: var(--dim) } .good { color: var(--good) } .wait { color: var(--wait) } .bad { color: var(--bad) }
"""
_WAITING = frozenset({EngineState.STARTING, EngineState.EMPTY, EngineState.DISABLED})
_STATE_WORDS = {
    EngineState.READY: "serving",
    EngineState.STARTING: "is still loading",
    EngineState.UNREACHABLE: "nothing listens at its address",
    EngineState.HANGING: "accepts the connection and does not answer",
    EngineState.STALLED: "answers, but does no work",
    EngineState.DISABLED: "has its metrics switched off",
    EngineState.UNAUTHORIZED: "asks for a token",
    EngineState.MALFORMED: "answers with something that is no metrics page",
    EngineState.EMPTY: "answers with no engine series",
    EngineState.TRUNCATED: "cut its answer short",
    EngineState.FAILED: "answers with an error",
    EngineState.UNSUPPORTED: "is something whose metrics are not read here",
}


def landing(snapshot: AgentSnapshot | None, unready: str = "") -> str:
    """The whole page; `unready` says why what it shows is not current."""
    warning = f"<p class=bad>Not ready 未就绪: {escape(unready)}.</p>" if unready else ""
    if snapshot is None:
        return _page("Tidegate agent", "", [warning])
    reading = snapshot.reading
    parts = [
        warning,
        _agent_line(snapshot),
        "<h2>Engines 推理引擎</h2>",
        _engines(snapshot) if reading.engines else "<p class=dim>No engine is configured or running here.</p>",
        "<h2>GPUs 显卡</h2>",
        _gpus(reading.gpus),
    ]
    if snapshot.replicas:
        states = sorted(snapshot.replicas.items())
        parts += [
            "<h2>Replicas 副本</h2>",
            _table(("replica 副本", "state 状态"), ([_text(r), _text(s)] for r, s in states)),
        ]
    return _page(f"Tidegate agent on {reading.host}", snapshot.version, parts)


def _page(title: str, version: str, parts: Iterable[str]) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="15">'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)} <small>{escape(version)}</small></h1>"
        '<nav><a href="/metrics">metrics 指标</a><a href="/-/healthy">healthy 存活</a>'
        '<a href="/-/ready">ready 就绪</a></nav>'
        f"{''.join(parts)}</body></html>\n"
    )


def _agent_line(snapshot: AgentSnapshot) -> str:
    spool, link = snapshot.spool, snapshot.link
    lines = [f"Collected at {snapshot.collected_at:%Y-%m-%d %H:%M:%S} UTC in {snapshot.collect_seconds:.2f} s."]
    if not link.configured:
        lines.append("No controller is configured: this agent only exports.")
    else:
        when = f"{link.last_success:%Y-%m-%d %H:%M:%S} UTC" if link.last_success else "never"
        lines.append(f"Controller last took a report: {when}. {spool.reports} waiting on disk.")
    said = "".join(f"<br>{escape(line)}" for line in lines)[len("<br>") :]
    if link.error:
        said += f"<br><span class=bad>Controller: {escape(link.error)}</span>"
    if spool.dropped:
        said += f"<br><span class=bad>Reports dropped for good (spool full, or too old): {spool.dropped}.</span>"
    for problem in (each for source in snapshot.sources.values() for each in source.problems):
        said += f"<br><span class=bad>Engines: {escape(problem)}.</span>"
    if not snapshot.config_reload_ok:
        said += "<br><span class=bad>The last reload failed; the earlier configuration is in force.</span>"
    return f"<p>{said}</p>"


def _engines(snapshot: AgentSnapshot) -> str:
    head = ("engine 引擎", "pool 池", "state 状态", "#queue 排队", "#running 运行", "#KV use 占用", "#hit rate 命中率",
            "#tokens/GPU/s", "#TTFT p95", "notes 备注")  # fmt: skip
    return _table(head, (_engine_row(snapshot, reading) for reading in snapshot.reading.engines))


def _engine_row(snapshot: AgentSnapshot, reading: EngineReading) -> list[str]:
    place = snapshot.engines.get(reading.engine, EngineLabels())
    known = snapshot.figures.get(reading.engine, {})

    def cell(figure: Figure, form: str) -> str:
        return _number(known.get(figure, Missing(Gap.NOT_REPORTED)), form)

    return [
        f"{_text(reading.engine)}<br><small>{escape(reading.model or '')}</small>",
        _text(place.pool),
        _state(reading.state),
        cell(Figure.QUEUE_DEPTH, ",.0f"),
        cell(Figure.RUNNING, ",.0f"),
        cell(Figure.KV_CACHE_USAGE, ".0%"),
        cell(Figure.KV_CACHE_HIT_RATE, ".1%"),
        _number(tokens_per_gpu_per_second(snapshot, reading), ",.0f"),
        cell(Figure.TTFT_P95, ",.3f s"),
        "<br>".join(map(escape, reading.problems)),
    ]


def _state(state: EngineState) -> str:
    tone = "good" if state is EngineState.READY else "wait" if state in _WAITING else "bad"
    return f"<span class={tone}>{state.value}</span><br><small>{_STATE_WORDS[state]}</small>"


def _gpus(survey: GpuSurvey) -> str:
    if not survey.up:
        return f"<p class=bad>GPUs cannot be read: {escape(survey.why or 'no reason given')}</p>"
    if not survey.gpus:
        return "<p class=dim>The driver lists no GPU.</p>"
    driver = f"<p class=dim>Driver {escape(survey.driver)}</p>" if survey.driver else ""
    head = ("#index", "GPU", "state 状态", "#utilisation 利用率", "#memory 显存", "#of 总量", "#power 功率",
            "#temperature 温度")  # fmt: skip
    return driver + _table(head, map(_gpu_row, survey.gpus))


def _gpu_row(gpu: GpuReading) -> list[str]:
    state = (
        "<span class=good>up</span>" if gpu.up else f"<span class=bad>down</span><br><small>{escape(gpu.why)}</small>"
    )
    gib = 2**30
    return [
        str(gpu.index),
        f"{_text(gpu.name)}<br><small>{escape(gpu.uuid)}</small>",
        state,
        _number(gpu.utilization, ".0%"),
        _number(gpu.memory_used_bytes, ",.1f GiB", gib),
        _number(gpu.memory_total_bytes, ",.1f GiB", gib),
        _number(gpu.power_watts, ",.0f W"),
        _number(gpu.temperature_celsius, ".0f °C"),
    ]


def _number(value: Number, form: str, unit: float = 1) -> str:
    """The figure with its unit (`form` is a format specification and a unit), or a dash and why there is none."""
    if isinstance(value, Missing):
        return f"<span class=dim>—<br><small>{value.why.value.replace('_', ' ')}</small></span>"
    spec, _, name = form.partition(" ")
    return escape(f"{value / unit:{spec}} {name}".strip())


def _text(value: str) -> str:
    return escape(value) or "<span class=dim>—</span>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; a heading that begins with # is a column of numbers."""
    numeric = [" class=n" if name.startswith("#") else "" for name in head]
    top = "".join(f"<th{kind}>{name.lstrip('#')}</th>" for name, kind in zip(head, numeric, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}</td>' for cell, kind in zip(row, numeric, strict=True))}</tr>" for row in rows
    )
    return f"<div class=scroll><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
