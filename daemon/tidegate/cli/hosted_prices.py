"""What a hosted API would have charged for the same tokens, by the price list that genai-prices carries (offline)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from tidegate.runtime.errors import Permanent

_EACH = 1_000
"""Asked for so many tokens of a kind: some lists have other prices for very long inputs."""


@dataclass(frozen=True, slots=True)
class HostedPrice:
    """Per million tokens, in USD."""

    provider: str
    model: str
    input: Decimal
    cached: Decimal
    output: Decimal


def hosted_price(name: str, at: datetime) -> HostedPrice:
    """The price of PROVIDER/MODEL or MODEL at a time; raises Permanent when it, or the whole list, is not there."""
    try:
        from genai_prices import Usage, calc_price
    except ModuleNotFoundError as error:
        raise Permanent("the price list is not installed: pip install 'tidegate[compare]'") from error
    provider, _, model = name.rpartition("/")

    def per_million(**tokens: int) -> Decimal:
        found = calc_price(Usage(**tokens), model, provider_id=provider or None, genai_request_timestamp=at)
        return found.total_price * 1_000_000 / _EACH

    try:
        found = calc_price(Usage(input_tokens=_EACH), model, provider_id=provider or None, genai_request_timestamp=at)
        return HostedPrice(
            found.provider.id,
            found.model.id,
            per_million(input_tokens=_EACH),
            per_million(input_tokens=_EACH, cache_read_tokens=_EACH),
            per_million(output_tokens=_EACH),
        )
    except LookupError as error:
        raise Permanent(f"no price of {name} is known: write PROVIDER/MODEL, such as openai/gpt-4o") from error
