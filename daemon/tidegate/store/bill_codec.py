"""Charges and sums as the database keeps them: COPY lines, JSON, and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import RowMapping

from tidegate.model.bill import AsideSum, LedgerSum, PartSum, SnapshotSums, SnapshotVersion
from tidegate.model.charge import (
    Charge,
    ChargeCategory,
    CommitmentStatus,
    ServiceClass,
    SnapshotKey,
)
from tidegate.store.schema_bills import charge

COLUMNS: Sequence[str] = tuple(column.name for column in charge.columns)
_FIELDS = COLUMNS[1:]
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\ufffd"})
_NULL = "\\N"
_KEPT = 32_768
_TEXTS = frozenset(
    column.name for column in charge.columns if column.nullable and str(column.type) in ("TEXT", "VARCHAR")
)


class _Texts(dict[str, str]):
    """Texts as COPY takes them, each worked out once while it is met again and again."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _KEPT:
            self.clear()
        plain = str(text)
        found = self[text] = plain.translate(_ESCAPES) if plain else _NULL
        return found


class _Moments(dict[datetime, str]):
    def __missing__(self, moment: datetime) -> str:
        if len(self) >= _KEPT:
            self.clear()
        found = self[moment] = moment.isoformat()
        return found


class CopyLines:
    """Makes the lines of one COPY; the columns stand in the order of `COLUMNS`, which a test holds."""

    def __init__(self) -> None:
        self._texts, self._moments = _Texts(), _Moments()
        self._tags: dict[int, tuple[Mapping[str, str], str]] = {}

    def line(self, version: int, row: Charge) -> str:
        """One charge in the text format of COPY."""
        text, moment = self._texts, self._moments
        tags = self._mapping(row.tags) if row.tags else _NULL
        hosts = _array(row.hosts).translate(_ESCAPES) if row.hosts else _NULL
        return (
            f"{version}\t{text[row.provider]}\t{text[row.account]}\t{moment[row.billing_start]}"
            f"\t{moment[row.billing_end]}\t{moment[row.start]}\t{moment[row.end]}\t{text[row.currency]}"
            f"\t{_number(row.billed)}\t{_number(row.effective)}\t{text[row.category]}\t{'t' if row.correction else 'f'}"
            f"\t{text[row.service]}\t{text[row.service_name]}\t{text[row.resource_id]}\t{text[row.resource_name]}"
            f"\t{text[row.resource_type]}\t{text[row.sku]}\t{text[row.region]}\t{text[row.zone]}"
            f"\t{text[row.sub_account]}\t{_number(row.list_cost)}\t{_number(row.pricing_quantity)}"
            f"\t{text[row.pricing_unit]}\t{_number(row.consumed_quantity)}\t{text[row.consumed_unit]}"
            f"\t{text[row.pricing_category]}\t{text[row.frequency]}\t{text[row.commitment_id]}"
            f"\t{text[row.commitment_status]}\t{tags}\t{hosts}\t{text[row.description]}\t{text[row.invoice_id]}"
            f"\t{text[row.file]}\t{row.row}\n"
        )

    def _mapping(self, value: Mapping[str, str]) -> str:
        held = self._tags.get(id(value))
        if held is None or held[0] is not value:
            if len(self._tags) >= _KEPT:
                self._tags.clear()
            # Postgres' jsonb takes no NUL and no lone surrogate.
            written = json.dumps({_clean(key): _clean(text) for key, text in value.items()}, ensure_ascii=False)
            held = self._tags[id(value)] = (value, written.translate(_ESCAPES))
        return held[1]


def _number(value: Decimal | None) -> str:
    return _NULL if value is None else str(value)


def _clean(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _array(values: Sequence[str]) -> str:
    quoted = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join(f'"{value}"' for value in quoted) + "}"


def charge_of(row: RowMapping) -> Charge:
    """A stored charge."""
    values: dict[str, Any] = {name: row[name] for name in _FIELDS}
    for name in _TEXTS:
        values[name] = values[name] or ""
    values["category"] = ChargeCategory(values["category"])
    values["service"] = ServiceClass(values["service"])
    values["commitment_status"] = CommitmentStatus(values["commitment_status"])
    values["tags"], values["hosts"] = values["tags"] or {}, tuple(values["hosts"] or ())
    return Charge(**values)


def version_of(row: RowMapping) -> SnapshotVersion:
    """A stored version, joined with its snapshot."""
    sums = sums_of(row["sums"], key_of(row))
    return SnapshotVersion(
        id=row["version_id"],
        number=row["number"],
        active=row["active"],
        closed=row["closed_at"] is not None,
        closed_evidence=row["evidence"],
        imported_at=row["imported_at"],
        imported_by=row["imported_by"],
        charges_kept=row["charges_kept"],
        content=row["content"],
        files=tuple(row["files"]),
        sums=sums,
    )


def key_of(row: RowMapping) -> SnapshotKey:
    """The snapshot of a row that has its columns."""
    return SnapshotKey(row["source"], row["account"], row["billing_start"], row["billing_end"], row["shard"])


def sums_json(sums: SnapshotSums) -> dict[str, Any]:
    """Everything that a snapshot adds up to; amounts as text."""
    return {
        "rows": sums.rows,
        "corrections": sums.corrections,
        "totals": [_ledgers(each) for each in sums.totals],
        "parts": [{"category": part.category, "service": part.service, **_ledgers(part.sum)} for part in sums.parts],
        "aside": {
            "rows": sums.aside.rows,
            "unread": sums.aside.unread,
            "amounts": {currency: str(amount) for currency, amount in sums.aside.amounts.items()},
        },
        "invoices": {invoice: str(amount) for invoice, amount in sums.invoices.items()},
        "evidence": sums.evidence,
        "effective_usable": sums.effective_usable,
        "first": sums.first.isoformat() if sums.first else None,
        "last": sums.last.isoformat() if sums.last else None,
        "providers": list(sums.providers),
        "sub_accounts": list(sums.sub_accounts),
        "fingerprint": f"{sums.fingerprint:032x}",
        "warnings": list(sums.warnings),
        "priced": sums.priced,
    }


def sums_of(data: Mapping[str, Any], key: SnapshotKey) -> SnapshotSums:
    """What `sums_json` wrote."""
    aside = data["aside"]
    return SnapshotSums(
        key=key,
        rows=data["rows"],
        corrections=data["corrections"],
        totals=tuple(_sum(each) for each in data["totals"]),
        parts=tuple(PartSum(each["category"], each["service"], _sum(each)) for each in data["parts"]),
        aside=AsideSum(
            aside["rows"], {currency: Decimal(text) for currency, text in aside["amounts"].items()}, aside["unread"]
        ),
        invoices={invoice: Decimal(text) for invoice, text in data["invoices"].items()},
        evidence=data["evidence"],
        effective_usable=data["effective_usable"],
        first=datetime.fromisoformat(data["first"]) if data["first"] else None,
        last=datetime.fromisoformat(data["last"]) if data["last"] else None,
        providers=tuple(data["providers"]),
        sub_accounts=tuple(data["sub_accounts"]),
        fingerprint=int(data["fingerprint"], 16),
        warnings=tuple(data["warnings"]),
        priced=data.get("priced", 0),
    )


def _ledgers(each: LedgerSum) -> dict[str, str | None]:
    return {
        "currency": each.currency,
        "billed": None if each.billed is None else str(each.billed),
        "effective": None if each.effective is None else str(each.effective),
    }


def _sum(data: Mapping[str, Any]) -> LedgerSum:
    billed, effective = data["billed"], data["effective"]
    return LedgerSum(
        data["currency"],
        None if billed is None else Decimal(billed),
        None if effective is None else Decimal(effective),
    )
