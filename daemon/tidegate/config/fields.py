"""The small types that keys are made of; each says its whole allowed range when it refuses a value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


def refuse(message: str) -> PydanticCustomError:
    """An error whose text is complete as it is."""
    return PydanticCustomError("refused", "{message}", {"message": message})


def shown(value: object) -> str:
    """A value as it would stand in the file, cut short; tables and arrays only by name."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value[:60]}..."' if len(value) > 60 else f'"{value}"'
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    return "nothing" if value is None else str(value)[:60]


def did_you_mean(word: str, known: list[str]) -> str:
    """`did you mean "x"?` for a near miss, else the list of what is known."""
    near = get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    near = near or [each for each in known if each.startswith(f"{word.lower()}_")][:1]
    return f'did you mean "{near[0]}"?' if near else f"known: {', '.join(known)}"


class Checked:
    """A type annotation that checks a value by its own `check` instead of pydantic's rules."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Hand pydantic the check."""
        return core_schema.no_info_plain_validator_function(self.check)

    def check(self, value: Any) -> Any:
        """The value as the program wants it; raises what `refuse` makes."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Between(Checked):
    """A finite number from `low` to `high`, both allowed; never a string, never true or false."""

    low: float
    high: float

    @property
    def allowed(self) -> str:
        """The range in words."""
        return f"{plain(self.low)} to {plain(self.high)}"

    def check(self, value: Any) -> float:
        """The number as float."""
        number = _number(value, self.allowed)
        if not self.low <= number <= self.high:
            percent = self.high == 1 and 1 < number <= 100
            hint = f"; write {plain(number / 100)} for {plain(number)} %" if percent else ""
            raise refuse(f"must be {self.allowed}, not {plain(number)}{hint}")
        return number


@dataclass(frozen=True, slots=True)
class Whole(Between):
    """A whole number from `low` to `high`, both allowed."""

    def check(self, value: Any) -> int:
        """The number as int; 2.0 is not one."""
        number: float = Between.check(self, value)
        if not isinstance(value, int):
            raise refuse(f"must be a whole number, {self.allowed}, not {value}")
        return int(number)


@dataclass(frozen=True, slots=True)
class Duration(Checked):
    """A length of time, written as a number in the unit that the key's name ends in."""

    unit: str
    low: float
    high: float

    @property
    def allowed(self) -> str:
        """The range in words."""
        return f"{plain(self.low)} to {plain(self.high)} {self.unit}"

    def check(self, value: Any) -> timedelta:
        """The duration; one made by code is taken as it is."""
        if isinstance(value, timedelta):
            return value
        number = _number(value, self.allowed)
        if not self.low <= number <= self.high:
            raise refuse(f"must be {self.allowed}, not {plain(number)}")
        return timedelta(**{self.unit: number})


@dataclass(frozen=True, slots=True)
class Amount(Checked):
    """Money without its currency: an exact decimal."""

    allowed: ClassVar[str] = "0 to 100000"

    def check(self, value: Any) -> Decimal:
        """The amount as it was written."""
        number = _number(value, self.allowed)
        if not 0 <= number <= 100_000:
            raise refuse(f"must be {self.allowed}, not {plain(number)}")
        amount = Decimal(str(value))
        exponent = amount.as_tuple().exponent
        if isinstance(exponent, int) and exponent < -9:
            raise refuse("must have at most 9 decimal places")
        return amount


@dataclass(frozen=True, slots=True)
class AnyText(Checked):
    """Any text on one line, of a sensible length."""

    allowed: ClassVar[str] = "text"

    def check(self, value: Any) -> str:
        """The text, free of control characters."""
        text = string(value)
        if len(text) > 4096 or re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
            raise refuse("must be one line of at most 4096 characters")
        return text


@dataclass(frozen=True, slots=True)
class Pattern(Checked):
    """A text of a given form."""

    pattern: str
    allowed: str
    longest: int = 253
    hint: Callable[[str], str] = lambda _: ""
    secret: bool = False
    """Whether what stands here by mistake may be a secret, and so is never repeated."""

    def check(self, value: Any) -> str:
        """The text, when it fits as a whole."""
        text = string(value)
        if len(text) > self.longest:
            raise refuse(f"must have at most {self.longest} characters, not {len(text)}")
        if not re.fullmatch(self.pattern, text):
            given = "" if self.secret else f", not {shown(text)}{self.hint(text)}"
            raise refuse(f"must be {self.allowed}{given}")
        return text


@dataclass(frozen=True, slots=True)
class OneOf(Checked):
    """A word of a closed vocabulary; `later` are words that a later version will know."""

    words: type[StrEnum]
    later: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The vocabulary."""
        return ", ".join(self.words)

    def check(self, value: Any) -> StrEnum:
        """The member."""
        text = string(value)
        if text in self.later:
            raise refuse(f'must be one of {self.allowed}; "{text}" is not in this version')
        if text not in list(self.words):
            near = get_close_matches(text.lower(), list(self.words), n=1, cutoff=0.6)
            hint = f'; did you mean "{near[0]}"?' if near else ""
            raise refuse(f"must be one of {self.allowed}, not {shown(text)}{hint}")
        return self.words(text)


@dataclass(frozen=True, slots=True)
class FilePath(Checked):
    """A path; a relative one starts at the configuration file's folder."""

    allowed: ClassVar[str] = "path"

    def check(self, value: Any) -> Path:
        """The path, when it means the same whoever reads it."""
        if isinstance(value, Path):
            return value
        text = string(value)
        if not text or "\0" in text:
            raise refuse("must be a path, not an empty text")
        if text.startswith(("~", "$")):
            raise refuse(f"must be a whole path, not {shown(text)}: a service has no home folder and no shell")
        return Path(text)


Text = Annotated[str, AnyText()]


def plain(number: float | Decimal) -> str:
    """A number without an exponent or a needless point."""
    return str(int(number)) if number == int(number) else f"{float(number):.6g}"


def string(value: Any) -> str:
    """The value when it is a string; refuses anything else."""
    if not isinstance(value, str):
        raise refuse(f'must be a text in "quotes", not {shown(value)}')
    return value


def _number(value: Any, allowed: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        unquote = "; write it without quotes" if isinstance(value, str) else ""
        raise refuse(f"must be a number, {allowed}, not {shown(value)}{unquote}")
    exact = Decimal(value)
    if not exact.is_finite() or abs(exact) >= 2**63:
        raise refuse(f"must be a finite number, {allowed}")
    return float(value)
