"""Write the session in docs/planner.md anew: `PYTHONPATH=daemon:tests python tests/golden/regenerate_planner.py`.

The lines that begin with `> ` are what is asked; the answers below them are made again. Read the difference.
"""

from __future__ import annotations

from pathlib import Path

from tidegate.decide.plan import plan
from tidegate.link.planner.session import Session
from tidegate.model.memory import Memory

PAGE = Path(__file__).parents[2] / "docs" / "planner.md"
BEGIN, END = "```session\n", "```"
HOW = "if this change is meant: PYTHONPATH=daemon:tests python tests/golden/regenerate_planner.py"


def questions(page: str) -> list[str]:
    """What is asked in the page's session."""
    session = page.partition(BEGIN)[2].partition(END)[0]
    return [line.removeprefix("> ") for line in session.splitlines() if line.startswith("> ")]


def expected(page: str) -> str:
    """The page with the answers that the planner gives now."""
    memory, told = Memory(), ""
    for number, asked in enumerate(questions(page), start=1):
        turn = Session(plan).turn(asked.encode(), number, memory)
        memory = turn.memory
        told += f"> {asked}\n< {turn.answer.decode()}"
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + told + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(expected(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
