"""What every table of the file is made of: the closed table, names, prices, counts."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict

from tidegate.config.fields import Amount, Between, Pattern, Whole

PlainName = Annotated[
    str, Pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "letters, digits, _ . - (a letter or digit first)", 63)
]
"""A name that becomes part of unit names and replica ids."""
LongName = Annotated[
    str, Pattern(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]*", "letters, digits, _ . : @ / - (a letter or digit first)", 253)
]
"""A name that other systems gave, such as a host's or a model's."""


def _chinese(text: str) -> str:
    return '; write "CNY"' if text.upper() in {"RMB", "¥", "元"} else f'; write "{text.upper()}"' * text.isalpha()


Currency = Annotated[str, Pattern(r"[A-Z]{3}", "a currency code of three capital letters (ISO 4217)", 8, _chinese)]
Price = Annotated[Decimal, Amount()]
Replicas = Annotated[int, Whole(0, 10_000)]
GpuCount = Annotated[int, Whole(1, 128)]
Share = Annotated[float, Between(0.01, 1)]
HostAddress = Annotated[str, Pattern(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+", "a host name or an IP, without a port")]
Port = Annotated[int, Whole(1, 65535)]


class Table(BaseModel):
    """Closed: an unknown key is an error, not a silent loss."""

    model_config = ConfigDict(frozen=True, extra="forbid")
