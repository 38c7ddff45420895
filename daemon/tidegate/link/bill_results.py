"""The outcome of an import as it is shown."""

from __future__ import annotations

from tidegate.link.bill_messages import BillShape, bill_shape, sums_shape
from tidegate.model.bill import ImportResult


def result_shape(result: ImportResult) -> BillShape:
    """What was read, with what became of each snapshot."""
    shape = bill_shape(result.read, dry_run=False)
    done = {each.sums.key: each for each in result.snapshots}
    snapshots = []
    for sums, shown in zip(result.read.snapshots, shape.snapshots, strict=True):
        each = done[sums.key]
        snapshots.append(
            shown.model_copy(
                update={
                    "outcome": each.outcome,
                    "version": each.version,
                    "difference": sums_shape(each.difference),
                    "evidence": each.evidence or shown.evidence,
                }
            )
        )
    return shape.model_copy(update={"snapshots": snapshots, "warnings": [*shape.warnings, *result.warnings]})
