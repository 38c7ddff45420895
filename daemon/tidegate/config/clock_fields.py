"""Times of day and time zones, as schedules need them: an unknown zone is found when the file is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, time, tzinfo
from difflib import get_close_matches
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from tidegate.config.fields import Checked, refuse, shown, string


@dataclass(frozen=True, slots=True)
class TimeOfDay(Checked):
    """A local time to the minute, as "08:30" or TOML's own 08:30:00."""

    allowed: ClassVar[str] = "00:00 to 23:59"

    def check(self, value: Any) -> time:
        """The time; midnight at the end of a day is 00:00."""
        if isinstance(value, time):
            if value.second or value.microsecond:
                raise refuse(f"must be a time to the minute, not {value}")
            return value
        text = string(value)
        found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text)
        if not found:
            midnight = '; midnight is "00:00"' if text.startswith("24") else ""
            raise refuse(f'must be a time of day such as "08:30" ({self.allowed}), not {shown(text)}{midnight}')
        return time(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class TimeZone(Checked):
    """A zone of the IANA database by its name; an offset is none, since it knows no daylight saving."""

    allowed: ClassVar[str] = "a time zone"

    def check(self, value: Any) -> tzinfo:
        """The zone with its rules."""
        if isinstance(value, tzinfo):
            return value
        text = string(value)
        if text == "UTC":  # needs no database
            return UTC
        try:
            return ZoneInfo(text)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise refuse(f"must be a time zone such as {_like(text)}, not {shown(text)}") from None


def _like(text: str) -> str:
    known = sorted(available_timezones())
    if not known:
        return '"UTC": this machine has no time zones (install tzdata)'
    near = get_close_matches(text, known, n=1, cutoff=0.6) or [
        each for each in known if each.rpartition("/")[2].lower() == text.lower()
    ]
    return f'"{near[0]}"' if near else '"Asia/Shanghai", "Europe/Berlin" or "UTC"'
