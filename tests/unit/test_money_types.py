"""Money is decimal from the cell to the column of the database: no float is made, compared or stored on its way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sqlalchemy import Float, Numeric

from tidegate.store.schema import metadata

PACKAGE = Path(__file__).resolve().parents[2] / "daemon" / "tidegate"
MEASURES = {
    "bills/moments.py",  # seconds since 1970
    "bills/overlap.py",  # the share of rows that two files have in common
    "cost/cells.py",  # utilisation
    "cost/keys.py",  # bytes, tokens: what money is split by, counted to the thousandth
}
"""Modules whose floats are no money."""
MODULES = sorted(
    str(path.relative_to(PACKAGE))
    for folder in ("bills", "cost")
    for path in (PACKAGE / folder).glob("*.py")
) + ["store/bill_codec.py", "store/bill_import.py", "store/bills.py", "store/costs.py"] + [
    f"model/{name}.py" for name in ("allocation", "bill", "charge", "cost_report", "money")
]  # fmt: skip


def floats_in(module: str) -> list[str]:
    """Where a module makes a float: a literal, a call, a true division of integers is left to mypy."""
    found = []
    for node in ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))):
        literal = isinstance(node, ast.Constant) and isinstance(node.value, float)
        made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float"
        if literal or made:
            found.append(f"{module}:{node.lineno}")
    return found


@pytest.mark.parametrize("module", [each for each in MODULES if each not in MEASURES])
def test_no_float_is_made_where_money_is(module: str) -> None:
    assert floats_in(module) == []


def test_every_exception_is_needed() -> None:
    assert all(floats_in(module) for module in MEASURES)


@pytest.mark.parametrize("table", ["charge", "price", "bill_quarantine", "cost_line"])
def test_amounts_are_stored_without_a_precision_that_could_cut_them(table: str) -> None:
    columns = metadata.tables[table].columns
    assert not [column.name for column in columns if isinstance(column.type, Float)]
    numbers = [column for column in columns if isinstance(column.type, Numeric)]
    assert numbers
    assert all((column.type.precision, column.type.scale) == (None, None) for column in numbers)  # type: ignore[attr-defined]
