"""Fail on a file or a function far over the house's size: a file that needs banners is two files."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The house aims at 300 and 40; the check leaves a little air, so that nobody writes worse code to please it.
FILE_LINES = 320
FUNCTION_LINES = 45
TEST_FILE_LINES = 600


def complaints(path: Path) -> Iterator[str]:
    """What is too long in one file."""
    text = path.read_text()
    name = path.relative_to(ROOT)
    lines, test = text.count("\n"), path.is_relative_to(ROOT / "tests")
    if lines > (TEST_FILE_LINES if test else FILE_LINES):
        yield f"{name}: {lines} lines"
    if test:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {size} lines"


def main() -> int:
    """Print every complaint; exit 1 when there is one."""
    found = [
        line
        for folder in ("daemon", "dashboards", "bench", "tests", ".ci")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in complaints(path)
    ]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
