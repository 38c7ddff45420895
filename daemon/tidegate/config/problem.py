"""What is wrong with a configuration file: each problem with its place, all of them in one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.runtime.errors import ConfigError


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that must be mended, and where: prints as `file:line: key: message`."""

    file: str
    line: int
    """Counted from 1; 1 also where the file as a whole is meant."""
    key: str
    """The key as written, such as `pool[burst].max`; empty where the file as a whole is meant."""
    message: str
    """What is wrong, and what would be right; never a secret."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: "
        return f"{place}{self.key}: {self.message}" if self.key else f"{place}{self.message}"


class ConfigProblems(ConfigError):  # noqa: N818 - named for what it holds
    """Every problem of a file at once, in the order of its lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))
