"""What every step from tables to settings works on: the tables, the findings, and the machine that reads the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tidegate.config.credentials import credential_name, read_credential
from tidegate.config.fields import did_you_mean
from tidegate.config.findings import Findings
from tidegate.config.foreign import Foreign
from tidegate.config.lines import KeyPath
from tidegate.config.secret_files import Secrets
from tidegate.config.tables import Entry, Tables

Named = TypeVar("Named", bound=Entry[Any])


@dataclass(frozen=True, slots=True)
class Scope:
    """One file being understood."""

    tables: Tables
    foreign: Foreign
    findings: Findings
    folder: Path
    """Where the file lies: relative paths start here."""
    host: str
    """The name of this machine."""
    secrets: Secrets

    def path(self, written: Path) -> Path:
        """A path of the file as an absolute one."""
        return self.folder / written

    def secret(self, written: Path | None, path: KeyPath, what: str, *, words: bool = False) -> str:
        """The one line of a secret's file; a problem at `path`, and nothing, when it cannot be had.

        `credential:NAME` is a file that systemd hands over. With `words` the line may hold blanks.
        """
        if written is None:
            return ""
        if _looks_like_a_secret(str(written)):
            self.findings.problem(path, f"looks like the {what} itself; name the file that holds it")
            return ""
        name = credential_name(written)
        file: Path | str = self.path(written) if name is None else f"the credential {name}"
        try:
            text = self.secrets.file(self.path(written)) if name is None else read_credential(self.secrets, name)
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
            self.findings.problem(path, f"the {what} cannot be read from {file}: {why}")
            return ""
        if text is not None and len(text.splitlines() if words else text.split()) != 1:
            self.findings.problem(path, f"{file} must hold the {what} alone, on one line")
            return ""
        return text or ""

    def present(self, written: Path, path: KeyPath) -> bool:
        """Whether a file that the configuration names can be read; a problem at `path` where it cannot.

        False without a problem where files are deliberately not looked at.
        """
        try:
            return self.secrets.file(self.path(written)) is not None
        except UnicodeDecodeError:
            return True
        except OSError as error:
            self.findings.problem(path, f"{self.path(written)} cannot be read: {error.strerror}")
            return False

    def known(self, name: str, kind: str, extra: Iterable[str] = ()) -> bool:
        """Whether the file has a `[[kind]]` of this name, a refused one too."""
        return name in self.tables.named[kind] or name in extra

    def unknown(self, name: str, kind: str, extra: Iterable[str] = ()) -> str:
        """What to say of a reference to nothing."""
        there = sorted({*self.tables.named[kind], *extra} - {""})
        hint = did_you_mean(name, there) if there else "this file has none"
        return f'there is no [[{kind}]] "{name}"; {hint}'

    def unique(self, entries: Iterable[Named], what: str) -> Iterator[Named]:
        """Every entry in turn; a name that an earlier one has is a problem."""
        first: dict[str, Named] = {}
        for entry in entries:
            name = entry.table.name
            if name and name in first:  # one without a name was refused already
                line = self.findings.line(first[name].at("name"))
                self.findings.problem(entry.at("name"), f'the {what} "{name}" stands twice, first in line {line}')
            first.setdefault(name, entry)
            yield entry


def _looks_like_a_secret(text: str) -> bool:
    return len(text) >= 20 and not any(mark in text for mark in "/.:")
