"""Read YAML as plain data, with the line of every key: the one owner of PyYAML, which only a YAML file needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.runtime.errors import ConfigError

Place = tuple[str | int, ...]
"""Keys and positions (from 0) from the root."""

_DEEPEST = 32


class NotYaml(ValueError):  # noqa: N818 - named for what is wrong
    """The text is no YAML that can be used; `line` counts from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line, self.why = line, why


@dataclass(frozen=True, slots=True)
class YamlText:
    """A document's data and the line of each of its places."""

    data: Any
    lines: Mapping[Place, int]


def read_yaml(text: str) -> YamlText:
    """The first document of the text, None for an empty one.

    Raises NotYaml for a syntax error, a key that stands twice or nesting without end; ConfigError without PyYAML.
    """
    try:
        import yaml
    except ImportError as error:
        raise ConfigError("a YAML file needs the package PyYAML: pip install 'tidegate[agent]'") from error
    try:
        return _read(yaml.SafeLoader(text))
    except NotYaml:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotYaml(mark.line + 1 if mark else 1, error.problem or "cannot be read") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotYaml(1, (str(error).splitlines() or ["nested too deep"])[0]) from error


def _read(loader: Any) -> YamlText:
    try:
        node = loader.get_single_node()
        lines: dict[Place, int] = {}
        if node is None:
            return YamlText(None, lines)
        _walk(node, (), lines, set())
        return YamlText(loader.construct_document(node), lines)
    finally:
        loader.dispose()


def _walk(node: Any, place: Place, lines: dict[Place, int], walked: set[int]) -> None:
    """Note the line of everything; what an alias stands for was walked already, and is not walked again."""
    if len(place) > _DEEPEST:
        raise NotYaml(node.start_mark.line + 1, "nested too deep")
    if id(node) in walked:
        return
    walked.add(id(node))
    if node.id == "mapping":
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise NotYaml(key.start_mark.line + 1, f"the key {name[:60]!r} stands twice")
            seen.add(name)
            lines[*place, name] = key.start_mark.line + 1
            _walk(value, (*place, name), lines, walked)
    elif node.id == "sequence":
        for position, value in enumerate(node.value):
            lines[*place, position] = value.start_mark.line + 1
            _walk(value, (*place, position), lines, walked)
