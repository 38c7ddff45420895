"""Rises that come at the same time of day: learned from the last two weeks, followed where that has proved right.

A bucket of five minutes has the load of the same time on earlier days. Of those days that are taken as alike (the last
three days, the last three of the same part of the week, or this weekday of two weeks) the middle one says by how much
load rises before a replica that is ordered now could serve, and up to where, in proportion to how busy today is beside
that day. One odd day or one that is missing so changes nothing.

What is said is bounded twice: by the present load and the rise, so that a day that does not come costs the lead alone;
and by the height of the earlier days. It never lowers a demand. And it is followed only where following it would have
been better: each forecast, plain and with the season, is kept until its time has come, and within an hour of the same
time of day the season's worst errors must have been smaller, in the last days more than before.

Loads are kept as they were measured. They do not follow the unit of load, which is known best in busy hours and drifts
in quiet nights; where it changes for good the last three days are soon all in the new one.

Times of day are UTC. Where clocks are put forward or back the rise comes an hour off: one lead for nothing, and about
three days until the new hour has proved itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.decide.forecast import Outlook, ahead
from tidegate.decide.profile import A_DAY, BUCKET_S, Profile, with_load
from tidegate.model.memory import Forecast
from tidegate.model.season import Claim, Rise, Season, Trial

_GAP_S = 180.0
"""After so long without data what was in between is not known."""
_COVERED = 0.5
"""A bucket counts when so much of it was seen."""
_SPARE_S = BUCKET_S + 15.0
"""Nobody is punctual: a rise is met a bucket before its time, and a tick."""
_STAY_S = 900.0
_BACK = 3
"""Buckets for which a rise stays due after its time."""
_ALIKE = 3
_SEARCHED = 11
"""How many days back to look for such days."""
_LEVEL, _LEVEL_STEP, _LEVEL_LEAST = 48, 3, 4
"""How busy a day is: its last four hours, one bucket in three, at least so many of them known."""
_QUIET = 0.5
"""Replicas' worth that are added to both levels, so that a quiet night says little."""
_LEAST_RATIO, _MOST_RATIO = 0.5, 1.5
_ROOM = 1.15
"""Days differ: a little more than the middle one had."""
_CLEAR, _LEAST_RISE = 0.25, 0.3
"""A rise is one of at least this part of its height, and so many replicas' worth."""
_DIFFERENT = 0.25
_NOTEWORTHY = 0.1
_HOUR = 12
_TRIALS, _CLAIMS = 64, 40
_FADE = 0.7
"""What a day before counts, beside today."""
_CAUTION = 1.2
"""Where the season did worse counts for more than where it did better."""
_ENOUGH, _PART = 0.1, 0.2
"""What the season must have been better by: a little, and this part of what was missed without it."""
_LIKELY = 0.95
"""The plain forecast is ready for about this quantile of its own errors; it is compared with that."""


def due(season: Season, now: datetime) -> tuple[Rise | None, Rise | None]:
    """The rise to be ready for, and the one to stay ready for; None for what is not due or has not proved right."""
    fresh = 0 <= _bucket(now) - season.bucket <= 1
    return (season.coming, season.later) if fresh else (None, None)


def foretold(rise: Rise, level: float) -> float:
    """The load after the rise, from this level: it grows with the level and is never less."""
    return max(level, min(level + rise.by, rise.to))


def with_tick(season: Season, load: float, forecast: Forecast, horizon: float, now: datetime) -> Season:
    """Take in the load of this tick; `forecast` is the plain one, with this tick in it."""
    bucket = _bucket(now)
    seconds = (now - season.at).total_seconds() if season.at else 0.0
    seconds = seconds if 0.0 <= seconds <= _GAP_S else 0.0
    if bucket != season.bucket:
        season = _turned(season, bucket, ahead(forecast, load, horizon, now), horizon)
        seconds = min(seconds, now.timestamp() - bucket * BUCKET_S)
    return replace(season, at=now, seconds=season.seconds + seconds, total=season.total + seconds * load)


def _bucket(now: datetime) -> int:
    return math.floor(now.timestamp() / BUCKET_S)


def _turned(season: Season, bucket: int, outlook: Outlook, horizon: float) -> Season:
    """A bucket is over: keep it, compare what was claimed for it, and look what is due."""
    days = season.days
    if season.seconds >= _COVERED * BUCKET_S:
        days = with_load(days, season.bucket, season.total / season.seconds)
    view = _View(Profile(days), bucket)
    season = _judged(replace(season, days=days, bucket=bucket, seconds=0.0, total=0.0), view.profile)
    soon = [view.rise(like, BUCKET_S + horizon + _SPARE_S) for like in _LIKENESSES]
    target = bucket + int((0.5 * BUCKET_S + horizon) // BUCKET_S)  # of the looks within this bucket, the middle one
    claims = [claim for claim in season.claims if claim.bucket != target]
    claims.append(_claimed(target, soon, outlook))
    season = replace(season, claims=tuple(claims[-_CLAIMS:]))
    best = _best(season.trials, soon, target)
    if best is None:
        return replace(season, coming=None, later=None)
    later = view.rise(_LIKENESSES[best], BUCKET_S + 2.0 * horizon + _STAY_S)
    return replace(season, coming=_if_clear(soon[best]), later=_if_clear(later))


def _claimed(target: int, rises: Sequence[Rise | None], outlook: Outlook) -> Claim:
    plain = outlook.peak(_LIKELY)
    found = (_if_clear(rise) for rise in rises)
    said = tuple(max(plain, foretold(rise, outlook.expected)) if rise else plain for rise in found)
    return Claim(target, plain, said, outlook.scale)


def _if_clear(rise: Rise | None) -> Rise | None:
    return rise if rise and rise.by >= max(_LEAST_RISE, _CLEAR * rise.to) else None


_LIKENESSES = ("weeks", "workdays", "days")
"""In this order where they did equally well."""


def _days_back(like: str, today: int) -> Iterator[int]:
    """How many days before today the days are that are taken as like it, the nearest first."""
    if like == "weeks":
        yield from (7, 14)
        return
    for back in range(1, _SEARCHED):
        if like == "days" or _weekend(today - back) == _weekend(today):
            yield back


def _weekend(day: int) -> bool:
    return (day + 3) % 7 >= 5  # 1970-01-01 was a Thursday


@dataclass(frozen=True, slots=True)
class _View:
    """The past, seen from the beginning of a bucket."""

    profile: Profile
    bucket: int

    def rise(self, like: str, ahead: float) -> Rise | None:
        """The rise that the days of this likeness have within so many seconds; None: too few of them."""
        today = self.bucket // A_DAY
        found: list[tuple[float, float]] = []
        for back in _days_back(like, today):
            one = self._on(back * A_DAY, int(ahead // BUCKET_S))
            if one is not None and len(found) < _ALIKE:
                found.append(one)
        if len(found) < 2:
            return None
        middle = (len(found) - 1) // 2
        by, to = (sorted(values)[middle] for values in zip(*found, strict=True))
        name = "weekend days" if like == "workdays" and _weekend(today) else like
        return Rise(by, to, len(found), name)

    def _on(self, back: int, ahead: int) -> tuple[float, float] | None:
        """By how much and to where load rose around this time so many buckets ago."""
        then = self.bucket - back
        before = list(self.profile.known(range(then - _BACK, then + 1)))
        after = list(self.profile.known(range(then, then + ahead + 1)))
        if not before or 2 * len(after) <= ahead:
            return None
        ratio, high = _ROOM * self._ratio(back), max(after)
        return ratio * (high - min(high, *before)), ratio * high

    def _ratio(self, back: int) -> float:
        """How busy the last hours were beside the same hours so many buckets ago."""
        today, other, pairs = 0.0, 0.0, 0
        for bucket in range(self.bucket - _LEVEL, self.bucket, _LEVEL_STEP):
            now, then = self.profile.at(bucket), self.profile.at(bucket - back)
            if now is not None and then is not None:
                today, other, pairs = today + now, other + then, pairs + 1
        if pairs < _LEVEL_LEAST:
            return 1.0
        return min(_MOST_RATIO, max(_LEAST_RATIO, (today / pairs + _QUIET) / (other / pairs + _QUIET)))


def _judged(season: Season, profile: Profile) -> Season:
    """Compare the claims whose time has come, and the buckets around it, with what came."""
    due = [claim for claim in season.claims if claim.bucket + _BACK < season.bucket]
    trials = list(season.trials)
    for claim in due:
        came = profile.at(claim.bucket)
        if came is None or max(claim.with_season) - claim.plain <= _DIFFERENT * claim.scale:
            continue
        highest = max(profile.known(range(claim.bucket, claim.bucket + _BACK + 1)))
        plain, *others = (
            round(max(came - said, said - _ROOM * highest, 0.0) / claim.scale, 3)
            for said in (claim.plain, *claim.with_season)
        )
        if max(plain, *others) >= _NOTEWORTHY:
            _note(trials, Trial(claim.bucket, plain, tuple(others)))
    claims = tuple(claim for claim in season.claims if claim not in due)
    return replace(season, claims=claims, trials=tuple(trials[-_TRIALS:]))


def _note(trials: list[Trial], trial: Trial) -> None:
    """As one with the last where both are of one hour: its worst errors."""
    last = trials[-1] if trials else None
    if last is None or not 0 <= trial.bucket - last.bucket < _HOUR:
        trials.append(trial)
        return
    worst = tuple(map(max, last.with_season, trial.with_season))
    trials[-1] = Trial(last.bucket, max(last.plain, trial.plain), worst)


def _best(trials: Sequence[Trial], rises: Sequence[Rise | None], target: int) -> int | None:
    """The likeness that has proved best at this time of day, of those with days to go by; None where none has."""
    scores, missed = [0.0] * len(rises), 0.0
    for trial in trials:
        ago = target - trial.bucket
        apart = ago % A_DAY
        if min(apart, A_DAY - apart) <= _HOUR:
            weight = math.pow(_FADE, max(0.0, ago / A_DAY))
            missed += weight * trial.plain
            for place, error in enumerate(trial.with_season):
                gain = trial.plain - error
                scores[place] += weight * (gain if gain > 0 else _CAUTION * gain)
    able = [place for place, rise in enumerate(rises) if rise is not None]
    best = max(able, key=lambda place: scores[place], default=None)
    return best if best is not None and scores[best] > _ENOUGH + _PART * missed else None
