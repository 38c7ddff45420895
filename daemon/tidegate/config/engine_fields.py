"""The types of keys that only engines have: which kind, and which files list more of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tidegate.config.fields import Checked, FilePath, did_you_mean, refuse, shown, string
from tidegate.model.vocabulary import EngineKind

AUTO = "auto"
_ENDINGS = (".json", ".yml", ".yaml")
_PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class KindWord(Checked):
    """A kind of engine, or "auto" (None): found out from the series of its page."""

    allowed: ClassVar[str] = ", ".join([AUTO, *EngineKind])

    def check(self, value: Any) -> EngineKind | None:
        """The kind; None for "auto"."""
        text = string(value)
        if text == AUTO:
            return None
        if text not in list(EngineKind):
            raise refuse(f"is {shown(text)}, which is no kind of engine; {did_you_mean(text, [AUTO, *EngineKind])}")
        return EngineKind(text)


@dataclass(frozen=True, slots=True)
class EngineFiles(Checked):
    """A file of Prometheus' `file_sd` format, or a pattern of such files in one folder."""

    allowed: ClassVar[str] = "paths"

    def check(self, value: Any) -> Path:
        """The path; as in Prometheus only its last part may be a pattern, and its ending says what is in it."""
        path = FilePath().check(value)
        if not path.name.endswith(_ENDINGS):
            raise refuse(f"must end in {', '.join(_ENDINGS)}, not {shown(path.name)}")
        if any(_PATTERN & set(part) for part in path.parts[:-1]):
            raise refuse("must have a pattern (*, ?, [...]) in its last part only")
        return path
