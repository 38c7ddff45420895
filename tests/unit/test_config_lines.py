"""The line of every key: hand-written shapes, and any text that tomllib or json accepts."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.json_lines import json_lines
from tidegate.config.lines import KeyPath, toml_lines

SHAPES = '''\
top = 1
dotted . "quo.ted" . 'raw' = 2   # a comment with [brackets] and key = value

[table]  # trailing
plain = "a # no comment, [no] table"
date = 1979-05-27 07:32:00
many = [
    "one",  # first
    # nothing
    [2, 3],
    { inner = 4, deep.er = [5] },
]
text = """
[not.a.table]
key = "no key" \\
""" # after
raw = \'\'\'
[[neither]]\'\'\'\'\'
last = true

[[pool]]
name = "a"
  [[pool.flavour]]
  hosts = ["x",
           "y"]
  [[pool.flavour]]
  template = "t"
[[pool]]
name = "b"
[pool.extra]
k = {}
[  "spa ced" . tail  ]
z = ""
'''

EXPECTED: dict[KeyPath, int] = {
    ("top",): 1,
    ("dotted", "quo.ted", "raw"): 2,
    ("table",): 4,
    ("table", "plain"): 5,
    ("table", "many"): 7,
    ("table", "many", 0): 8,
    ("table", "many", 1, 1): 10,
    ("table", "many", 2, "inner"): 11,
    ("table", "many", 2, "deep", "er", 0): 11,
    ("table", "text"): 13,
    ("table", "raw"): 17,
    ("table", "last"): 19,
    ("pool",): 21,
    ("pool", 0): 21,
    ("pool", 0, "flavour", 0, "hosts", 1): 25,
    ("pool", 0, "flavour", 1, "template"): 27,
    ("pool", 1): 28,
    ("pool", 1, "extra", "k"): 31,
    ("spa ced", "tail", "z"): 33,
}


def paths(data: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every key path of parsed data but the root's."""
    if path:
        yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from paths(value, (*path, key))
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield from paths(value, (*path, position))


@pytest.mark.parametrize(("path", "line"), EXPECTED.items(), ids=str)
def test_each_shape_is_found_in_its_line(path: KeyPath, line: int) -> None:
    assert path in toml_lines(SHAPES).paths()
    assert toml_lines(SHAPES).of(path) == line


def test_every_path_of_the_shapes_is_found_and_nothing_else() -> None:
    assert toml_lines(SHAPES).paths() == set(paths(tomllib.loads(SHAPES)))


def test_a_key_that_is_not_written_stands_where_its_table_does() -> None:
    lines = toml_lines(SHAPES)
    assert lines.of(("pool", 1, "max")) == 28
    assert lines.of(("nothing", "at", "all")) == 1
    assert lines.of(()) == 1


def test_quotes_at_the_end_of_a_multi_line_string_belong_to_it() -> None:
    text = 'a = """x"""""\nb = \'\'\'y\'\'\'\'\nc = ""\nd = """\\""""\ne = 1\n'
    assert tomllib.loads(text)["a"] == 'x""'
    assert [toml_lines(text).of((key,)) for key in "abcde"] == [1, 2, 3, 4, 5]


KEYS = st.one_of(st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True), st.text(max_size=4))
SCALARS = st.one_of(st.booleans(), st.integers(-9, 9), st.floats(-9, 9), st.text(max_size=6))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
STYLES = st.randoms(use_true_random=False)


class Writer:
    """Writes data as TOML in changing styles, and remembers in which line each key was begun."""

    def __init__(self, style: Any) -> None:
        self.style = style
        self.text = ""
        self.lines: dict[KeyPath, int] = {}

    def mark(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def key(self, key: str) -> str:
        bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
        return key if bare and self.style.random() < 0.7 else _basic(key)

    def value(self, value: Any, path: KeyPath) -> None:
        if isinstance(value, dict):
            self.text += "{"
            for position, (key, inner) in enumerate(value.items()):
                self.text += " " if position == 0 else ", "
                self.mark((*path, key))
                self.text += f"{self.key(key)} = "
                self.value(inner, (*path, key))
            self.text += "}"
        elif isinstance(value, list):
            self.text += "["
            for position, inner in enumerate(value):
                self.text += self.style.choice(["", " ", "\n", "  # [no] = {\n"])
                self.mark((*path, position))
                self.value(inner, (*path, position))
                self.text += self.style.choice([",", " ,", "\n,"])
            self.text += self.style.choice(["]", "\n]"])
        elif isinstance(value, str):
            multi = self.style.random() < 0.4 and value.isprintable()
            self.text += f'"""\n{_basic(value)[1:-1]}\n"""' if multi else _basic(value)
        else:
            self.text += repr(value).lower()

    def table(self, data: dict[str, Any], path: KeyPath, heading: str) -> None:
        inner = {key: value for key, value in data.items() if self.as_heading(value)}
        for key, value in data.items():
            if key not in inner:
                self.mark((*path, key))
                self.text += f"{self.key(key)}{self.style.choice(['=', ' = '])}"
                self.value(value, (*path, key))
                self.text += self.style.choice(["\n", "  # key = [1]\n", "\n\n"])
        for key, value in inner.items():
            name = f"{heading}{'.' if heading else ''}{self.key(key)}"
            elements = value if isinstance(value, list) else [value]
            for position, element in enumerate(elements):
                place = (*path, key, position) if isinstance(value, list) else (*path, key)
                self.mark((*path, key))
                self.mark(place)
                self.text += f"[[{name}]]\n" if isinstance(value, list) else f"[ {name} ]\n"
                self.table(element, place, name)

    @staticmethod
    def as_heading(value: Any) -> bool:
        tables = isinstance(value, list) and value and all(isinstance(each, dict) for each in value)
        return isinstance(value, dict) or bool(tables)


def _basic(text: str) -> str:
    plain = (char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08x}" for char in text)
    return f'"{"".join(plain)}"'


@given(st.dictionaries(KEYS, VALUES, max_size=4), STYLES)
def test_whatever_is_written_is_found_in_the_line_it_was_written_in(data: dict[str, Any], style: Any) -> None:
    writer = Writer(style)
    writer.table(data, (), "")
    parsed = tomllib.loads(writer.text)
    lines = toml_lines(writer.text)
    assert lines.paths() == set(paths(parsed)) == set(writer.lines)
    assert {path: lines.of(path) for path in writer.lines} == writer.lines


@given(st.text(alphabet="ab[]{}=.,\"'\n# 1\\", max_size=30))
def test_any_text_that_tomllib_accepts_is_scanned_to_its_end(text: str) -> None:
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert toml_lines(text).paths() == set(paths(parsed))


@given(VALUES)
def test_json_keys_are_found_too(data: Any) -> None:
    text = json.dumps(data, indent=1)
    lines = json_lines(text)
    assert lines.paths() - {()} == set(paths(data))
    for path in paths(data):
        key = json.dumps(path[-1]) if isinstance(path[-1], str) else ""
        assert key in text.splitlines()[lines.of(path) - 1]
