"""What the bills' tables mean."""

from __future__ import annotations

from tidegate.config.scope import Scope
from tidegate.config.settings_bills import BillSettings


def bill_settings(scope: Scope) -> BillSettings:
    """`[bills]` with every `[[bill_host]]`."""
    entry = scope.tables.bills
    table = entry.table
    if table.options_file is not None and table.address is None:
        scope.findings.problem(entry.at("options_file"), "without `address` nothing reads it")
    hosts: dict[str, str] = {}
    for each in scope.tables.bill_hosts:
        resource = each.table.resource.casefold()
        if resource in hosts:
            scope.findings.problem(each.at("resource"), f"{each.table.resource} stands twice; name one host for it")
        hosts[resource] = each.table.host
    return BillSettings(
        accounts=table.accounts,
        currency=table.currency or "",
        folder=scope.path(table.folder) if table.folder else None,
        address=table.address or "",
        options_file=scope.path(table.options_file) if table.options_file else None,
        poll=table.poll_minutes,
        hosts=hosts,
    )
