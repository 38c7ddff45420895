"""What a million tokens cost: three bases, and four prices that conserve the cost.

    allocation   everything of the model: what it used, what it held idle, its share of network and storage. Reconciles.
    busy         GPU time in which it worked, and its share of network and storage: free of how well GPUs were filled.
    goodput      the allocation cost over tokens of requests that met the objective.

p_in x T_miss + p_hit x T_hit + p_out x T_out = C holds exactly: prices are fractions until they are shown.
Sources: DeepSeek's open-infra-index (split by measured rates), DistServe (goodput).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from tidegate.model.cost_report import Method, Tokens, UnitPrices

_MILLION = 1_000_000
_SHOWN = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class Split:
    """The shares of a cost that input and output carry; they need not add up to 1, only their ratio counts."""

    method: Method
    input: Fraction
    output: Fraction


def shown(price: Fraction | None) -> Decimal | None:
    """A price for people and programs, to nine decimals, half to even."""
    if price is None:
        return None
    scaled = round(price * 1_000_000_000)
    return Decimal(scaled).scaleb(-9).quantize(_SHOWN)


def by_pools(prefill: Fraction, decode: Fraction) -> Split:
    """Prefill hosts' cost is the input's, decode hosts' the output's."""
    return Split(Method.POOL, prefill, decode)


def by_rates(tokens: Tokens, input_rate: Fraction, output_rate: Fraction, *, cached: bool = False) -> Split:
    """By tokens a second of a GPU or node, as measured; `cached`: the input rate counts cached tokens too."""
    taken = tokens.computed + tokens.cached if cached else tokens.computed
    return Split(Method.GPU_TIME, taken / input_rate, tokens.output / output_rate)


def by_request_time(prefill_seconds: Fraction, decode_seconds: Fraction) -> Split:
    """By requests' seconds in each phase."""
    return Split(Method.REQUEST_TIME, prefill_seconds, decode_seconds)


def by_ratio(tokens: Tokens, ratio: Fraction, cached_ratio: Fraction = Fraction(0)) -> Split:
    """An output token costs `ratio` computed input tokens, a cached one `cached_ratio` of one."""
    return Split(Method.RATIO, tokens.computed + cached_ratio * tokens.cached, ratio * tokens.output)


def unit_prices(
    cost: Fraction, tokens: Tokens, division: Split | None = None, cached_ratio: Fraction = Fraction(0)
) -> UnitPrices:
    """Blended price, and with a division the price of each kind of token.

    Without tokens there is no price. A kind of token that carries a cost and was not served leaves only the blended
    price: the others' would not add up to the cost.
    """
    blended = cost * _MILLION / tokens.delivered if tokens.delivered else None
    only = UnitPrices(Method.BLENDED, blended, None, None, None)
    if division is None or division.input + division.output <= 0 or not tokens.delivered:
        return only
    whole = division.input + division.output
    for_input, for_output = cost * division.input / whole, cost * division.output / whole
    weighed = tokens.computed + cached_ratio * tokens.cached
    if (for_input and not weighed) or (for_output and not tokens.output):
        return only
    price = for_input * _MILLION / weighed if weighed else None
    return UnitPrices(
        division.method,
        blended,
        price if tokens.computed else None,
        (Fraction(0) if price is None else price * cached_ratio) if tokens.cached else None,
        for_output * _MILLION / tokens.output if tokens.output else None,
    )


def tokens_per_unit(cost: Fraction, tokens: Fraction) -> Fraction | None:
    """Tokens for one unit of the currency."""
    return tokens / cost if cost > 0 else None


def peak_price(per_gpu_hour: Fraction, tokens_per_gpu_second: Fraction) -> Fraction:
    """What a million tokens would cost at a rate that is held all the time: a bound, never what they did cost."""
    return per_gpu_hour * _MILLION / (tokens_per_gpu_second * 3600)
