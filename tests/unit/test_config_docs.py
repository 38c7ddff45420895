"""docs/configure.md is exact: every key with its default and range, and every piece of TOML in it passes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from fakes.configuration import complaints, read
from pydantic.fields import FieldInfo

from tidegate.config.complaint import is_secret
from tidegate.config.fields import Between, Checked, Duration, OneOf, plain
from tidegate.config.schema import every_table, inner_table, title
from tidegate.config.settings import Listen
from tidegate.observe.gpu_json import FIGURES, decode

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "configure.md").read_text()
KEYS = [(table, key, field) for table, model in every_table() for key, field in model.model_fields.items()]
IDS = [f"{table}.{key}" for table, key, _ in KEYS]


def section(table: str) -> dict[str, list[str]]:
    """The rows of a table's own section by key."""
    begin = re.search(rf"^#+ `{re.escape(title(table))}`$", TEXT, re.MULTILINE)
    assert begin, f"no section of {title(table)}"
    body = re.split(r"^#+ ", TEXT[begin.end() :], maxsplit=1, flags=re.MULTILINE)[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body.splitlines() if "|" in line]
    return {row[0].strip("` "): row for row in rows[2:]}


def checks(annotation: Any, metadata: Any = ()) -> Iterator[Checked]:
    """The checks of a key, those of its elements too."""
    yield from (each for each in (*metadata, *getattr(annotation, "__metadata__", ())) if isinstance(each, Checked))
    for each in get_args(annotation):
        yield from checks(each)


def default(field: FieldInfo) -> str:
    """The default as the page writes it; empty where the page may say it in words."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, timedelta):
        (check,) = checks(field.annotation, field.metadata)
        assert isinstance(check, Duration)
        return plain(value / timedelta(**{check.unit: 1}))
    if isinstance(value, Listen):
        return f"{value.host}:{value.port}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return plain(value)
    return str(value) if isinstance(value, str | Path) else ""


@pytest.mark.parametrize(("table", "key", "field"), KEYS, ids=IDS)
def test_every_key_stands_in_its_section_with_its_default_and_range(table: str, key: str, field: FieldInfo) -> None:
    row = section(table).get(key)
    assert row is not None, f"{title(table)} {key} is not in docs/configure.md"
    if default(field):
        assert row[1] == default(field)
    ranges = [
        check.allowed
        for check in checks(field.annotation, field.metadata)
        if isinstance(check, Between | Duration | OneOf)
    ]
    assert all(row[2] == allowed for allowed in ranges)
    if bool in {field.annotation, *get_args(field.annotation)}:
        assert row[2] == "true, false"
    inner = inner_table(field.annotation)
    assert inner is None or row[2] == f"`{title(f'{table}.{key}')}`"


@pytest.mark.parametrize("table", [table for table, _ in every_table()])
def test_no_section_has_a_key_that_the_schema_has_not(table: str) -> None:
    model = dict(every_table())[table]
    assert set(section(table)) == set(model.model_fields)


BLOCKS = [
    (page.name, block)
    for page in (DOCS / "configure.md", DOCS / "pools.md", DOCS / "alerts.md")
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
]


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_every_piece_of_toml_in_the_documents_passes(page: str, block: str) -> None:
    secrets = ("cannot be read from",)
    assert [each for each in complaints(block) if not any(words in each for words in secrets)] == []


def test_the_short_form_stands_for_the_long_one_that_the_page_shows() -> None:
    short, long = (block for _, block in BLOCKS if 'prefill_cluster"' in block)
    assert "[elastic]" in short
    assert "[elastic]" not in long
    assert read(short).fleet == read(long).fleet


def test_the_json_of_another_gpu_reader_is_read_as_the_page_says(now: Any) -> None:
    (block,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    survey = decode(json.loads(block), now, "http")
    assert survey.up
    assert (survey.gpus[0].utilization, survey.gpus[0].power_watts) == (0.87, 410.5)
    assert all(f'"{figure}"' in block for figure in FIGURES)


def test_the_example_files_and_every_page_that_is_named_exist() -> None:
    for target in re.findall(r"\]\(([a-z_/.-]+\.(?:md|toml))\)", TEXT + (DOCS / "pools.md").read_text()):
        assert (DOCS / target).exists(), target


def test_no_key_holds_a_secret_itself() -> None:
    assert [key for _, key, _ in KEYS if is_secret(key)] == []
