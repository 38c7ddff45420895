"""The documents against the program: links lead somewhere, commands and their options exist, examples are read."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from tidegate.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", ".github/*.md", "*/README.md", "tests/captures/README.md")
    for path in ROOT.glob(pattern)
)


def anchors(document: Path) -> set[str]:
    """The fragments under which a document's headings are reached, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(text: str) -> Iterator[str]:
    """Every `tidegate ...` of a document, in code blocks and in lines."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            found = re.search(r"(?:^|[\s(/])tidegate ((?:[a-z]|--).*)", line.partition(" #")[0])
            if found and not re.match(r"\s*(?:#|git clone|install |\S+ /etc)", line):
                yield found[1]
    yield from re.findall(r"(?<!`)`(?:\.venv/bin/)?tidegate ((?:[a-z]|--)[^`]*)`(?!`)", text)


def problem_of(line: str) -> str:
    """Why the command line cannot be: a command or an option that does not exist; empty when it can."""
    line = re.split(r"[>|)&]| \.\.\.", line)[0]
    words, command = shlex.split(line), typer.main.get_command(app)
    while words and hasattr(command, "commands"):
        name = words.pop(0)
        if name in ("...",) or "|" in name or name.startswith("-"):
            return ""
        if name not in command.commands:
            return f"no command {name!r}"
        command = command.commands[name]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and len(word) > 1 and word.split("=")[0] not in options]
    return f"no option {unknown[0]!r}" if unknown else ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        there = (document.parent / name).resolve() if name else document
        assert there.exists(), f"{target}: no such file"
        assert not fragment or fragment in anchors(there), f"{target}: no such heading"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_can_be_given(document: Path) -> None:
    wrong = {line: why for line in commands(document.read_text()) if (why := problem_of(line))}
    assert wrong == {}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_toml_is_toml(document: Path) -> None:
    """What each table means is tested with the configuration; here, that it can be copied at all."""
    for block in re.findall(r"^```toml\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL):
        tomllib.loads(block)


def test_the_checks_see_what_is_wrong() -> None:
    assert list(commands("```\n/opt/x/bin/tidegate agent --once  # why\n```\nand `tidegate units rules`")) == [
        "agent --once ",
        "units rules",
    ]
    assert problem_of("agent --once") == ""
    assert problem_of("agent --twice") == "no option '--twice'"
    assert problem_of("angel") == "no command 'angel'"
