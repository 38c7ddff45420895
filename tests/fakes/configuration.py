"""Configuration texts into settings or complaints, with secrets that only a test knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate.config.document import read_document
from tidegate.config.meaning import interpret
from tidegate.config.problem import ConfigProblems
from tidegate.config.settings import Settings

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass
class FakeSecrets:
    """Files and variables of a test; what is not in them is not there."""

    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def file(self, path: Path) -> str | None:
        text = self.files.get(str(path))
        if text is None:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return text

    def variable(self, name: str) -> str | None:
        return self.variables.get(name, "")


ALL = FakeSecrets({"/s/token": "tg_x", "/s/key": KEY, "/s/dsn": "postgresql://u:p@h/d"}, {"KEY": KEY})


def read(text: str, secrets: FakeSecrets = ALL, name: str = "tidegate.toml") -> Settings:
    """The settings of a text, as read on a machine called `here`."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text)
        return interpret(read_document(file), "here", secrets)


def complaints(text: str, secrets: FakeSecrets = ALL, name: str = "tidegate.toml") -> list[str]:
    """Every problem of a text as `line: key: message`; empty when there is none."""
    try:
        read(text, secrets, name)
    except ConfigProblems as refused:
        return [f"{each.line}: {each.key}: {each.message}" for each in refused.problems]
    return []


def notes(text: str) -> list[str]:
    """Every note of a text as `line: key: message`."""
    return [note.partition("tidegate.toml:")[2] for note in read(text).notes]
