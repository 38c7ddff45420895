"""Field values: many figures of a GPU in one call of NVML, each with an error of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.model.missing import Gap, Missing, Number
from tidegate.observe.nvml.library import (
    DEVICE,
    LIFECYCLE,
    UNKNOWN,
    UNSUPPORTED,
    Library,
    NVMLError,
    costly,
    is_blank,
    missing,
)

Field = tuple[int, int]
"""A field's number and its scope: the link, or 0 for the whole GPU."""

_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member of the value's union, by value type."""
_NEVER = Missing(Gap.NOT_SUPPORTED)


class FieldValues:
    """A list of fields of one GPU. It asks for those that the GPU has, and for all of them after `forget`."""

    def __init__(self, library: Library, handle: Any, fields: Sequence[Field]) -> None:
        self._library, self._handle = library, handle
        self._fields = list(fields)
        self._asked = self._fields

    def forget(self) -> None:
        """Ask for everything once more: a mode may have changed, or a link come up."""
        self._asked = self._fields

    def read(self) -> Mapping[Field, Number]:
        """What the GPU has of the fields; raises NVMLError when the GPU or NVML itself is gone."""
        if not self._asked:
            return {}
        try:
            answers = self._library("nvmlDeviceGetFieldValues", self._handle, self._asked)
        except NVMLError as error:
            if costly(error):
                raise
            found: dict[Field, Number] = dict.fromkeys(self._asked, missing(error.value))
            self._asked = [] if error.value in UNSUPPORTED else self._asked
            return {} if not self._asked else found
        codes = [answer.nvmlReturn for answer in answers]
        _check(codes)
        told = zip(self._asked, codes, answers, strict=True)
        found = {field: _number(answer) if code == 0 else missing(code) for field, code, answer in told}
        self._asked = [field for field, code in zip(self._asked, codes, strict=True) if code not in UNSUPPORTED]
        return {field: value for field, value in found.items() if value != _NEVER}


def _check(codes: Sequence[int]) -> None:
    """Raise NVMLError for a GPU that is gone. One field may be UNKNOWN by itself; all of them are a sick GPU."""
    for code in codes:
        if code in LIFECYCLE | DEVICE and (code != UNKNOWN or set(codes) == {UNKNOWN}):
            raise NVMLError(code)


def _number(answer: Any) -> Number:
    if not 0 <= answer.valueType < len(_VALUES):
        return Missing(Gap.MALFORMED)
    value = getattr(answer.value, _VALUES[answer.valueType])
    return _NEVER if is_blank(value) else float(value)


def total(found: Mapping[Field, Number], numbers: Sequence[int]) -> Number:
    """The sum over all scopes of these fields; missing when none is there, or one of them for the moment."""
    values = [value for (number, _), value in found.items() if number in numbers]
    gone = next((value for value in values if isinstance(value, Missing)), None)
    if gone is not None:  # a sum over the rest would run backwards
        return gone
    return sum(value for value in values if not isinstance(value, Missing)) if values else _NEVER
