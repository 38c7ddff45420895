"""The one user of pynvml: calls by name, counted, and what NVML's error codes cost.

Source of the classes: NVML's documentation and what other readers learnt: a code is about one figure, one GPU, or all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.model.missing import Gap, Missing, Number

try:
    import pynvml  # from the nvidia-ml-py distribution; the one named pynvml only warns and forwards
except ImportError:
    pynvml = None

NVMLError: Any = getattr(pynvml, "NVMLError", RuntimeError)
"""What every call raises; `value` is NVML's code."""

NOT_FOUND, TIMEOUT, FUNCTION_NOT_FOUND, UNKNOWN = 6, 10, 13, 999
LIFECYCLE = frozenset({1, 9, 12, 18})
"""UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH: all of NVML is gone."""
DEVICE = frozenset({15, 16, 28, UNKNOWN})
"""GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND, UNKNOWN: this GPU is gone, its neighbours are not."""
UNSUPPORTED = frozenset({2, 3, FUNCTION_NOT_FOUND, 25, 26})
"""INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND (a driver older than the call), ARGUMENT_VERSION_MISMATCH,
DEPRECATED: asking again soon gives the same answer."""

_GAPS = {
    **dict.fromkeys(UNSUPPORTED, Gap.NOT_SUPPORTED),
    4: Gap.UNAUTHORIZED,  # NO_PERMISSION
    NOT_FOUND: Gap.NOT_SUPPORTED,
    21: Gap.NOT_SUPPORTED,  # NO_DATA
    27: Gap.STARTING,  # NOT_READY
}
"""Errors of one figure. Any other code is one, too, as UNREACHABLE."""

_BLANK_32, _BLANK_64 = 0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0
"""From here on upwards lie the marks that management libraries put into 32 and 64 bits that they cannot fill."""


def is_blank(value: float) -> bool:
    """True for a mark that stands for "no value": all bits set, or one of the blanks below the sign bit."""
    return value in (2**32 - 1, 2**64 - 1) or _BLANK_32 <= value < 2**31 or _BLANK_64 <= value < 2**63


def is_installed() -> bool:
    """True when there is a pynvml to call."""
    return pynvml is not None


def structure(name: str) -> Any:
    """A fresh one of pynvml's structures; raises NVMLError when it has none of that name."""
    found = getattr(pynvml, name, None)
    if found is None:
        raise NVMLError(FUNCTION_NOT_FOUND)
    return found()


def missing(code: int) -> Missing:
    """Why a figure is missing after this error."""
    return Missing(_GAPS.get(code, Gap.UNREACHABLE))


class Library:
    """NVML by the names of its functions in pynvml; `calls` counts them."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, function: str, *arguments: Any) -> Any:
        """Call it. Raises NVMLError; a function that pynvml or the driver lacks is FUNCTION_NOT_FOUND."""
        found = getattr(pynvml, function, None)
        if found is None:
            raise NVMLError(FUNCTION_NOT_FOUND)
        self.calls += 1
        return found(*arguments)

    def words(self, function: str, *arguments: Any) -> str:
        """A name from the driver, empty when it has none; older bindings answer bytes. Raises as `costly` says."""
        try:
            text = self(function, *arguments)
        except UnicodeDecodeError:
            return ""
        except NVMLError as error:
            if costly(error):
                raise
            return ""
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

    def figure(self, function: str, *arguments: Any, pick: Callable[[Any], float] = float) -> Number:
        """The figure that `pick` takes from the answer, or why it is missing. Raises as `costly` says."""
        try:
            value = pick(self(function, *arguments))
        except NVMLError as error:
            if costly(error):
                raise
            return missing(error.value)
        return Missing(Gap.NOT_SUPPORTED) if is_blank(value) else value


def costly(error: Any) -> bool:
    """True when the error is about the whole GPU or all of NVML, not about one figure."""
    return error.value in DEVICE | LIFECYCLE


def scaled(value: Number, *, times: float = 1.0, over: float = 1.0) -> Number:
    """The figure in base units; divided rather than multiplied by a fraction, which would not be exact."""
    return value if isinstance(value, Missing) else value * times / over
