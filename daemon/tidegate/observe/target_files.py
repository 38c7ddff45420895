"""Engines from files in Prometheus' `file_sd` format: read again when they change, the last good list kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import structlog

from tidegate.model.reading import EngineName
from tidegate.model.target import EngineTarget, Found
from tidegate.model.vocabulary import EngineKind, TrafficClass
from tidegate.runtime.errors import ConfigError
from tidegate.runtime.web import Stamp, stamp
from tidegate.runtime.yaml_text import NotYaml, read_yaml

_log = structlog.get_logger()

_LARGEST_BYTES = 1024 * 1024
_MOST_FILES = 64
_MOST_TARGETS = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,252}")
_POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_WORDS = TypeVar("_WORDS", EngineKind, TrafficClass)


class BadList(ValueError):  # noqa: N818 - named for what is wrong
    """The text is no list of targets; its words say where and why."""


class TargetFiles:
    """Watches files and patterns of files. For one thread."""

    def __init__(self, patterns: Sequence[Path]) -> None:
        self._patterns = tuple(patterns)
        self._known: dict[Path, _Known] = {}

    def use(self, patterns: Sequence[Path]) -> None:
        """Watch these from now on."""
        self._patterns = tuple(patterns)

    @property
    def watched(self) -> bool:
        """Whether any file is named."""
        return bool(self._patterns)

    def look(self) -> Found:
        """The engines of every file as it is now, or as it last was good; what is wrong is said once, and told."""
        problems: list[str] = []
        present = self._files(problems)
        for path in [path for path in self._known if path not in present]:
            del self._known[path]
        for path in present:
            self._read(path)
        kept = [known for path, known in sorted(self._known.items()) if path in present]
        problems += [known.problem for known in kept if known.problem]
        targets = list({target.name: target for known in kept for target in known.targets}.values())
        if len(targets) > _MOST_TARGETS:
            problems.append(f"{len(targets)} engines in files: the first {_MOST_TARGETS} are read")
        return Found(tuple(targets[:_MOST_TARGETS]), tuple(problems))

    def _files(self, problems: list[str]) -> list[Path]:
        found: dict[Path, None] = {}
        for pattern in self._patterns:
            if set("*?[") & set(pattern.name):
                found |= dict.fromkeys(sorted(pattern.parent.glob(pattern.name)))
            else:
                found[pattern] = None
        if len(found) > _MOST_FILES:
            problems.append(f"{len(found)} files of engines: the first {_MOST_FILES} are read")
        return list(found)[:_MOST_FILES]

    def _read(self, path: Path) -> None:
        before = self._known.get(path, _Known())
        now = stamp((path,))
        if now == before.stamp:
            return
        try:
            targets = parse(_text(path), is_json=path.suffix == ".json")
        except (BadList, ConfigError) as error:
            problem = f"{path}: {error}"
            if problem != before.problem:
                _log.error("list of engines refused, the last good one stays", problem=problem)
            self._known[path] = _Known(now, before.targets, problem)
        else:
            _log.info("list of engines read", file=str(path), engines=len(targets))
            self._known[path] = _Known(now, targets)


@dataclass(frozen=True, slots=True)
class _Known:
    stamp: Stamp = ()
    targets: tuple[EngineTarget, ...] = ()
    problem: str = ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            body = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise BadList(f"cannot be read: {error.strerror}") from error
    if len(body) > _LARGEST_BYTES:
        raise BadList("is larger than 1 MiB: this is no list of engines")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadList("is not UTF-8 text") from error


def parse(text: str, *, is_json: bool) -> tuple[EngineTarget, ...]:
    """The engines of one file; raises BadList, ConfigError without PyYAML for a YAML file."""
    data = _data(text, is_json=is_json)
    if data is None:
        return ()
    if not isinstance(data, list):
        raise BadList("must be a list of groups, each with `targets` and `labels`")
    targets = [target for position, group in enumerate(data, 1) for target in _group(group, position)]
    if len({target.name for target in targets}) < len(targets):
        raise BadList("names an engine twice")
    return tuple(targets)


def _data(text: str, *, is_json: bool) -> Any:
    try:
        return json.loads(text) if is_json else read_yaml(text).data
    except NotYaml as error:
        raise BadList(f"line {error.line}: is not YAML: {error.why}") from error
    except json.JSONDecodeError as error:
        raise BadList(f"line {error.lineno}: is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise BadList(f"cannot be read: {error}") from error


def _group(group: Any, position: int) -> Iterator[EngineTarget]:
    place = f"group {position}"
    if not isinstance(group, dict) or set(group) - {"targets", "labels"}:
        raise BadList(f"{place}: must have `targets` and `labels`, and nothing else")
    addresses, labels = group.get("targets"), group.get("labels") or {}
    if not isinstance(addresses, list) or not all(isinstance(each, str) for each in addresses):
        raise BadList(f"{place}: targets must be a list of texts, host:port")
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in [*labels, *labels.values()]):
        raise BadList(f"{place}: labels must be texts (write numbers in quotes)")
    if "engine" in labels and len(addresses) != 1:
        raise BadList(f"{place}: the label engine names one engine, and there are {len(addresses)} targets")
    for address in addresses:
        yield _target(address, labels, f"{place}, target {address[:80]!r}")


def _target(address: str, labels: Mapping[str, str], place: str) -> EngineTarget:
    url = f"{labels.get('__scheme__', 'http')}://{address}{labels.get('__metrics_path__', '/metrics')}"
    if not _is_address(address) or not _is_url(url):
        raise BadList(f"{place}: must be host:port")
    gpus = labels.get("gpus", "1")
    if not gpus.isdecimal() or not 1 <= int(gpus) <= 128:
        raise BadList(f"{place}: gpus must be a whole number, 1 to 128, not {gpus[:20]!r}")
    kind = labels.get("kind", "auto")
    return EngineTarget(
        name=EngineName(_named(labels.get("engine", _name_of(address)), _NAME, "engine", place)),
        url=url,
        pool=_named(labels.get("pool", ""), _POOL, "pool", place),
        service=_named(labels.get("service", ""), _NAME, "service", place),
        gpus=int(gpus),
        kind=None if kind == "auto" else _word(kind, EngineKind, place),
        traffic=_word(labels.get("traffic", TrafficClass.PRODUCTION.value), TrafficClass, place),
    )


def _is_address(address: str) -> bool:
    return bool(address) and not set(address) & set("/?#@\\") and address.isascii() and address.isprintable()


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not None
    except ValueError:
        return False


def _name_of(address: str) -> str:
    plain = address.replace("[", "").replace("]", "")
    return plain if plain[:1].isalnum() else f"ip{plain}"


def _named(text: str, pattern: re.Pattern[str], label: str, place: str) -> str:
    if text and not pattern.fullmatch(text):
        raise BadList(f"{place}: {label} is {text[:60]!r}, which is no name")
    return text


def _word(text: str, words: type[_WORDS], place: str) -> _WORDS:
    if text not in list(words):
        raise BadList(f"{place}: {text[:60]!r} is none of {', '.join(words)}")
    return words(text)
