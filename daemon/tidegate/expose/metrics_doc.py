"""The reference tables of `docs/metrics.md`, written from the table of families."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.expose.families import SECTIONS, Family

BEGIN = "<!-- families: generated from daemon/tidegate/expose/families.py -->"
END = "<!-- families: end -->"


def tables() -> str:
    """One Markdown table a section."""
    return "\n\n".join(f"### {title}\n\n{_table(families)}" for title, families in SECTIONS.items())


def with_tables(document: str) -> str:
    """The document with the text between its two marks replaced; raises ValueError when it lacks them."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def _table(families: Iterable[Family]) -> str:
    rows = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.help} |")
    return "\n".join(rows)
