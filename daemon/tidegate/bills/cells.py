"""What a cell of a bill says: exact decimals, the many words for nothing, tags. Pure text in, values out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation

NOTHING: Mapping[str, str] = dict.fromkeys(
    ("", "NULL", "null", "Null", "(null)", "(NULL)", "-", "--", "None", "none", "N/A", "n/a", "NaN", "nan", "\\N"), ""
)
"""What exports write for "no value"; FOCUS' own samples alone use four of them. `NOTHING.get(cell, cell)` clears it."""
PLACEHOLDERS: Mapping[str, str] = {**NOTHING, "-2": "", "Unassigned": "", "unassigned": "", "<nil>": ""}
"""For names and ids only: Azure writes `-2` and `Unassigned`. As an amount, -2 is money."""
EXACT = Context(prec=400)
"""Sums of amounts are made under it: no sum of a bill has so many digits."""
_LONGEST_NUMBER = 128
_LARGEST_EXPONENT = 30
_SMALLEST_EXPONENT = -345
"""Of the smallest double with all its digits: what subtracting doubles leaves is written out so."""
_SYMBOLS = str.maketrans(
    dict.fromkeys("$€£¥￥₩₹ \xa0\u202f\u2009'\"", "") | {"\u2212": "-", "，": ",", "．": ".", "－": "-"}
)
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*)(,\d+)?([eE][+-]?\d+)?")
_CODE = re.compile(r"^[A-Z]{3}(?=[-+\d.])|(?<=[\d.])[A-Z]{3}$|元$")
_SIMPLE = re.compile(r"[+-]?\d{1,29}(\.\d{0,58})?", re.ASCII)
"""What nearly every amount looks like; within every bound as it stands."""
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MARK = re.compile(
    r"[-+]?(\d{1,3}(?:\.\d{3})+(?=,)|\d{1,3}(?:,\d{3})+(?=\.)|\d*)([.,])(\d+)(?:[eE][+-]?\d+)?", re.ASCII
)
"""A number with one mark that may part its decimals: digits, in groups or not, the mark, digits."""
_GROUPS = re.compile(r"[-+]?\d{1,3}([.,])\d{3}(?:\1\d{3})+", re.ASCII)
"""Two groups at least: their mark parts no decimals."""


class NumberError(ValueError):
    """The cell should be a number; its text says what it is instead."""


def decimal_of(text: str, *, comma: bool = False) -> Decimal | None:
    """The number that a cell says, exactly; None for any word for nothing. Raises NumberError.

    `comma`: the file writes 1.234,50. Without it, 1,234.50 is read too; 1,5 is refused, for it may mean either.
    """
    if not comma and _SIMPLE.fullmatch(text):
        return Decimal(text)
    if not comma and _PLAIN.fullmatch(text):
        return _bounded(Decimal(text), text) if len(text) <= _LONGEST_NUMBER else _refuse(text)
    if NOTHING.get(text, text) == "":
        return None
    if len(text) > _LONGEST_NUMBER:
        return _refuse(text)
    bare = _without_signs(text)
    negative = bare.startswith("(") and bare.endswith(")")
    bare = bare[1:-1] if negative else bare
    if bare.endswith("-") and bare[:1].isdigit():  # as ledgers write it
        negative, bare = True, bare[:-1]
    if NOTHING.get(bare, bare) == "":
        return None
    number = _bounded(_read(bare, text, comma=comma), text)
    return number.copy_negate() if negative else number


def _without_signs(text: str) -> str:
    """A cell without blanks and what names its currency."""
    return _CODE.sub("", text.strip().translate(_SYMBOLS))


def _read(bare: str, text: str, *, comma: bool) -> Decimal:
    if comma and _COMMA.fullmatch(bare):
        bare = bare.replace(".", "").replace(",", ".")
    elif not comma and _GROUPED.fullmatch(bare):
        bare = bare.replace(",", "")
    if not _PLAIN.fullmatch(bare):
        _refuse(text)
    try:
        return Decimal(bare)
    except InvalidOperation:
        return _refuse(text)


def _bounded(number: Decimal, text: str) -> Decimal:
    """No bill says more than 1e30 or less than a double can; an exponent beyond would only cost memory."""
    exponent = number.as_tuple().exponent
    known = isinstance(exponent, int) and _SMALLEST_EXPONENT <= exponent <= _LARGEST_EXPONENT
    if not known or number.adjusted() >= _LARGEST_EXPONENT:
        _refuse(text)
    return number


def _refuse(text: str) -> Decimal:
    raise NumberError(f"{text[:40]!r} is not a number")


@dataclass(frozen=True, slots=True)
class Decimals:
    """How a file writes decimals: decided once, by a sample of its cells, never by row."""

    comma: bool
    doubt: str = ""
    """A cell that may mean either, where nothing else in the file decides."""


def decimals_of(money: Iterable[str], others: Iterable[str], delimiter: str) -> Decimals:
    """Amounts decide; where they may mean either, all other cells; then the delimiter, for `;` is there for commas."""
    commas, points, doubt = _marks(map(_without_signs, money))
    if commas == points:
        commas, points, _ = _marks(others)
    if commas != points or not doubt:
        return Decimals(comma=commas > points)
    european = delimiter == ";"
    return Decimals(comma=european and "," in doubt, doubt=doubt if european else "")


def _marks(cells: Iterable[str]) -> tuple[int, int, str]:
    """(sure commas, sure points, a cell such as 1.234 or 1,234 that may be either)."""
    commas = points = 0
    doubt = ""
    for cell in cells:
        if found := _GROUPS.fullmatch(cell):
            commas, points = commas + (found[1] == "."), points + (found[1] == ",")
            continue
        if not (found := _MARK.fullmatch(cell)):
            continue
        whole, mark, rest = found[1], found[2], found[3]
        if len(rest) == 3 and whole not in ("", "0") and len(whole) <= 3:
            doubt = doubt or cell
        else:
            commas, points = commas + (mark == ","), points + (mark == ".")
    return commas, points, doubt


def text_of(cell: str) -> str:
    """A name or an id, without what only stands for nothing."""
    bare = cell.strip()
    return PLACEHOLDERS.get(bare, bare)


def tags_of(text: str) -> dict[str, str]:
    """Tags as JSON (braces left out or not), or as `key:value;key:value`, or Alibaba's `key:K value:V`.

    The last of equal keys wins; keys lose outer blanks; a tag without a value is `true`. Text that is none of these
    becomes the one tag `unparsed`: kept, never guessed.
    """
    bare = text.strip()
    if NOTHING.get(bare, bare) == "" or bare in ("{}", "[]"):
        return {}
    for candidate in (bare, f"{{{bare}}}") if bare[0] in '{["' else ():
        try:
            found = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        return _flat(found)
    return _listed(bare)


def _flat(found: object) -> dict[str, str]:
    if isinstance(found, dict):
        return {str(key).strip(): _scalar(value) for key, value in found.items()}
    if isinstance(found, list):
        pairs = (each for each in found if isinstance(each, dict) and "key" in each)
        return {str(each["key"]).strip(): _scalar(each.get("value")) for each in pairs}
    return {"unparsed": str(found)[:1000]}


def _scalar(value: object) -> str:
    if value is None or value is True:
        return "true"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


_KEY_VALUE = re.compile(r"key:(?P<key>.*?)\s+value:(?P<value>.*)", re.DOTALL)


def _listed(text: str) -> dict[str, str]:
    tags: dict[str, str] = {}
    for part in re.split(r"[;；]", text):
        piece = part.strip()
        if not piece:
            continue
        if found := _KEY_VALUE.fullmatch(piece):
            tags[found["key"].strip()] = found["value"].strip()
            continue
        key, mark, value = piece.partition("=" if "=" in piece and ":" not in piece else ":")
        tags[key.strip()] = value.strip() if mark else "true"
    return tags
