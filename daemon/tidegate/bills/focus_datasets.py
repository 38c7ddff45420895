"""FOCUS' datasets beside the charges: Billing Period (open or closed) and Invoice Detail (totals of invoices) of 1.4,
Contract Commitment of 1.3.
"""

from __future__ import annotations

from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Format, Hint, Manner, RowError
from tidegate.model.bill import Declared

_STATUSES = ("open", "closed")


class BillingPeriodReader(Cells):
    """One row a billing period."""

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        self._start, self._end = columns.find("billingperiodstart"), columns.find("billingperiodend")
        self._status, self._account = columns.find("billingperiodstatus"), columns.find("billingaccountid")

    def read(self, cells: list[str], row: int) -> Declared:  # noqa: ARG002 - rows of evidence have no place
        """Whether a period is closed."""
        status = self.text(cells, self._status).casefold()
        if status not in _STATUSES:
            raise RowError(f"BillingPeriodStatus {status[:40]!r} is neither Open nor Closed")
        start, end = self.time(cells, self._start), self.time(cells, self._end)
        if start is None or end is None:
            raise RowError("a billing period without its start or end")
        account = self.text(cells, self._account) or self.manner.account
        return Declared(account, start, end, status == "closed", f"BillingPeriodStatus {status.capitalize()}")

    def hint(self, cells: list[str]) -> Hint:
        """No money is here."""
        return self.told(cells, (), len(self.columns), self._account, self._start)


class InvoiceDetailReader(Cells):
    """One row a line of an invoice."""

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        self._start, self._end = columns.find("billingperiodstart"), columns.find("billingperiodend")
        self._invoice, self._total = columns.find("invoiceid"), columns.find("billedcost")
        self._currency = columns.find("billingcurrency", "paymentcurrency")
        self._account, self._status = columns.find("billingaccountid"), columns.find("invoiceissuestatus")

    def read(self, cells: list[str], row: int) -> Declared:  # noqa: ARG002 - rows of evidence have no place
        """What the invoice says that the charges add up to."""
        invoice = self.text(cells, self._invoice)
        if not invoice:
            raise RowError("InvoiceId is empty")
        return Declared(
            account=self.text(cells, self._account) or self.manner.account,
            start=self.time(cells, self._start),
            end=self.time(cells, self._end),
            closed=False,
            says=f"invoice {invoice} {self.text(cells, self._status).casefold() or 'issued'}",
            invoice_id=invoice,
            total=self.amount(cells, self._total),
            currency=self.currency(cells, self._currency),
        )

    def hint(self, cells: list[str]) -> Hint:
        """The invoice's amount."""
        return self.told(cells, (self._total,), self._currency, self._account, self._start)


class ContractCommitmentReader(Cells):
    """One row a commitment: what is agreed on, whose charges are in the cost dataset."""

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find = columns.find
        self._id, self._kind = find("contractcommitmentid"), find("contractcommitmenttype")
        self._start, self._end = find("contractcommitmentperiodstart"), find("contractcommitmentperiodend")
        self._cost, self._currency = find("contractcommitmentcost"), find("billingcurrency")

    def read(self, cells: list[str], row: int) -> Declared:  # noqa: ARG002 - rows of evidence have no place
        """What is agreed on; it counts in no total."""
        return Declared(
            account=self.manner.account,
            start=self.time(cells, self._start),
            end=self.time(cells, self._end),
            closed=False,
            says=f"contract commitment {self.text(cells, self._id)} ({self.text(cells, self._kind) or 'of no type'})",
            total=self.number(cells, self._cost),
            currency=self.currency(cells, self._currency),
        )

    def hint(self, cells: list[str]) -> Hint:
        """No money of a period is here."""
        return self.told(cells, (), self._currency, len(self.columns), self._start)


BILLING_PERIOD = Format(
    name="focus-billing-period",
    title="FOCUS 1.4 Billing Period",
    needs=(("billingperiodstatus",), ("billingperiodstart",), ("billingperiodend",)),
    lacks=("billedcost", "effectivecost"),
    reader=BillingPeriodReader,
    money=(),
    times=("billingperiodstart", "billingperiodend"),
)
INVOICE_DETAIL = Format(
    name="focus-invoice-detail",
    title="FOCUS 1.4 Invoice Detail",
    needs=(("invoicedetailid",), ("invoiceid",), ("billedcost",)),
    lacks=("chargeperiodstart", "effectivecost"),
    reader=InvoiceDetailReader,
    money=("billedcost",),
    times=("billingperiodstart", "billingperiodend", "invoiceissuedate"),
)
CONTRACT_COMMITMENT = Format(
    name="focus-contract-commitment",
    title="FOCUS 1.3 Contract Commitment",
    needs=(
        ("contractcommitmentid",),
        ("contractcommitmentcategory", "contractcommitmenttype", "contractcommitmentcost"),
    ),
    lacks=("billedcost", "effectivecost", "chargeperiodstart"),
    reader=ContractCommitmentReader,
    money=(),
    times=("contractcommitmentperiodstart", "contractcommitmentperiodend"),
)
