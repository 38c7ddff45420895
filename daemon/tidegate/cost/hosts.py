"""Which of our hosts a charge is for: by resource, name, tag or the operator's map; case and prefixes are folded.

One charge is one host's at most, unless the bill itself names several; where two hosts fit, neither is taken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.model.charge import Charge

_TAGS = ("tidegate_host", "tidegate:host", "host", "hostname", "node", "kubernetes.io/hostname", "name")
_PREFIXES = ("user:", "aws:", "label:", "labels/")
_CUT = re.compile(r"[/:]")
Found = tuple[tuple[str, ...], str]
"""Our hosts, and how they were found."""
NOBODY: Found = ((), "")


def folded(text: str) -> tuple[str, ...]:
    """The forms under which an id is known: whole, and without ARN, project, subscription or `//service/` prefix."""
    whole = text.strip().casefold().strip("/")
    if not whole:
        return ()
    last = _CUT.split(whole)[-1]
    return (whole,) if last in ("", whole) else (whole, last)


@dataclass(slots=True)
class HostNames:
    """Our hosts by every form of their names."""

    hosts: Collection[str]
    manual: Mapping[str, str] = field(default_factory=dict)
    """Resource, case folded -> host; wins over everything."""
    _by_form: dict[str, str | None] = field(default_factory=dict)
    _known: dict[tuple[object, ...], Found] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for host in sorted(self.hosts):
            self._by_form[host.casefold()] = host
        for host in sorted(self.hosts):
            short = host.casefold().partition(".")[0]
            if short != host.casefold():
                self._by_form[short] = host if short not in self._by_form else None

    def find(self, charge: Charge) -> Found:
        """The hosts that a charge is for, and how that is known; none where that is not certain."""
        if charge.hosts:
            named = tuple(host for each in charge.hosts if (host := self._host(folded(each))))
            return (named, "bill") if len(set(named)) == len(charge.hosts) else NOBODY
        key = (charge.resource_id, charge.resource_name, *sorted(charge.tags.items()))
        if key not in self._known:
            self._known[key] = self._look(charge)
        return self._known[key]

    def _look(self, charge: Charge) -> Found:
        forms = (*folded(charge.resource_id), *folded(charge.resource_name))
        mapped = {self.manual[form] for form in forms if form in self.manual}
        if mapped:
            return (next(iter(mapped)),) if len(mapped) == 1 else (), "map"
        for method, among in (("resource", folded(charge.resource_id)), ("name", folded(charge.resource_name))):
            if (host := self._host(among)) is not None:
                return (host,), method
        tagged = {host for text in _tagged(charge.tags) if (host := self._host(folded(text)))}
        return ((next(iter(tagged)),), "tag") if len(tagged) == 1 else NOBODY

    def _host(self, forms: Iterable[str]) -> str | None:
        return next((host for form in forms if (host := self._by_form.get(form)) is not None), None)


def _tagged(tags: Mapping[str, str]) -> Iterable[str]:
    for key, value in sorted(tags.items()):
        plain = key.strip().casefold()
        for prefix in _PREFIXES:
            plain = plain.removeprefix(prefix)
        if plain in _TAGS:
            yield value
