"""A figure that may be missing, and the closed set of reasons why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Gap(StrEnum):
    """Why a figure is missing. The order is a contract: `model/vector.py` stores the position."""

    UNREACHABLE = "unreachable"
    DISABLED = "disabled"
    STARTING = "starting"
    STALE = "stale"
    NOT_FINITE = "not_finite"
    NOT_SUPPORTED = "not_supported"
    RESET = "reset"
    NO_TRAFFIC = "no_traffic"
    ONE_SCRAPE = "one_scrape"
    MALFORMED = "malformed"
    UNAUTHORIZED = "unauthorized"
    NOT_REPORTED = "not_reported"


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure that is not known, and why. Never a zero."""

    why: Gap


Number = float | Missing
"""A figure: a finite number or the reason why there is none."""
