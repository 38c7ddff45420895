"""Whatever stands in the file: settings or ConfigProblems, never another error."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tidegate.config.document import Document, read_document
from tidegate.config.fields import Between, Checked, Duration, OneOf, Whole
from tidegate.config.foreign import FOREIGN
from tidegate.config.lines import LineMap
from tidegate.config.meaning import interpret
from tidegate.config.problem import ConfigProblems
from tidegate.config.schema import REPEATED, SINGLE, every_table, inner_table
from tidegate.config.secret_files import SecretsElsewhere
from tidegate.config.settings import Settings

KEYS = sorted({key for _, table in every_table() for key in table.model_fields})
TABLES = sorted({*SINGLE, *REPEATED, *FOREIGN, "rules", "match", "target_pool", "prefill_instances", "enabled"})
WORDS = [
    "", "a", "b", "act", "base", "burst", "target", "threshold", "slo", "prefill", "http", "nvml", "process", "systemd",
    "webhook", "kv_cache_hit_rate_drop", "USD", "rmb", "127.0.0.1:9092", "http://h:1/metrics", "http://[::1", "x{slot}",
    "http://169.254.169.254/", "postgresql://u:p@h/d", "embedded", "ttft_ms", "~", "\0", "x.service", "agent",
    "whsec_!",
]  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-3, 20),
    st.sampled_from([10**30, -(10**30), 65536, Decimal("0.5"), Decimal("1E-40"), Decimal("NaN"), Decimal("Infinity")]),
    st.decimals(-2, 2),
)
LEAVES = st.one_of(st.sampled_from(WORDS), NUMBERS, st.booleans(), st.text(max_size=5))
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*KEYS, *TABLES]), inner, max_size=5)
    ),
    max_leaves=15,
)


NAMES = st.sampled_from(["a", "b", "base_pool"])
GOOD = {
    bool: st.booleans(),
    str: st.one_of(
        NAMES, st.sampled_from(["http://127.0.0.1:8100", "http://h/metrics", "USD", "EUR", "x@{slot}.service"])
    ),
    Path: st.just("/etc/hostname"),
    tuple: st.lists(NAMES, max_size=2),
    dict: st.dictionaries(st.just("A"), NAMES, max_size=1),
}


def good(field: FieldInfo) -> st.SearchStrategy[Any]:
    """Values that the key accepts by itself, most of the time: what is left to judge is how they go together."""
    inner = inner_table(field.annotation)
    if inner is not None:
        one = table_of(inner)
        return st.lists(one, min_size=1, max_size=2) if get_origin(field.annotation) is tuple else one
    checks = [each for each in (*field.metadata, *_nested(field.annotation)) if isinstance(each, Checked)]
    for check in checks:
        if isinstance(check, Between | Duration | Whole):
            low, high = int(check.low) + 1, int(min(check.high, 40))
            return (
                st.integers(low, max(low, high))
                if check.high > 1
                else st.sampled_from([Decimal("0.3"), Decimal("0.75")])
            )
        if isinstance(check, OneOf):
            return st.sampled_from(list(map(str, check.words)))
    kinds = (get_origin(field.annotation), field.annotation, *get_args(field.annotation))
    return next((GOOD[kind] for kind in kinds if kind in GOOD), st.integers(0, 5))


def _nested(annotation: Any) -> list[Any]:
    own = list(getattr(annotation, "__metadata__", ()))
    return own + [found for each in get_args(annotation) for found in _nested(each)]


def table_of(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    needed = {key: good(field) for key, field in model.model_fields.items() if field.is_required()}
    return st.fixed_dictionaries(
        needed, optional={key: good(field) for key, field in model.model_fields.items() if key not in needed}
    )


FITTING = st.fixed_dictionaries(
    {},
    optional={name: table_of(table) for name, table in SINGLE.items()}
    | {name: st.lists(table_of(table), min_size=1, max_size=2) for name, table in REPEATED.items()},
)
DOCUMENTS = st.dictionaries(st.sampled_from([*TABLES, "nonsense"]), ANYTHING, max_size=6)


def understood(data: dict[str, Any]) -> Settings | ConfigProblems:
    try:
        return interpret(Document(Path("any.toml"), data, LineMap({})), "host", SecretsElsewhere())
    except ConfigProblems as problems:
        return problems


def judge(data: dict[str, Any]) -> None:
    outcome = understood(data)
    event(type(outcome).__name__)
    if isinstance(outcome, ConfigProblems):
        assert outcome.problems
        assert all(each.message and "\n" not in each.message for each in outcome.problems)


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS)
def test_any_data_gives_settings_or_problems(data: dict[str, Any]) -> None:
    judge(data)


@settings(max_examples=150, deadline=None)
@given(FITTING)
def test_keys_that_fit_but_not_together_give_settings_or_problems(data: dict[str, Any]) -> None:
    judge(data)


@pytest.mark.parametrize("name", ["f.toml", "f.json"])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.one_of(st.binary(max_size=40), st.text(alphabet="ab[]{}=.,\"'\n#1:eE_", max_size=40).map(str.encode)))
def test_any_bytes_give_settings_or_problems(tmp_path: Path, name: str, body: bytes) -> None:
    (tmp_path / name).write_bytes(body)
    with suppress(ConfigProblems):
        interpret(read_document(tmp_path / name), "host", SecretsElsewhere())
