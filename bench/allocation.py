"""How long it takes to share out a month for 200 hosts of eight GPUs, hourly rows: CPU seconds, and that the sums hold.

python bench/allocation.py [HOSTS] [DAYS]
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tidegate.cost.allocate import allocate
from tidegate.cost.atoms import amount, atoms
from tidegate.model.activity import EVERY_SLOT, Activity, PoolFacts, hour_of
from tidegate.model.allocation import CostPolicy, LineKind
from tidegate.model.charge import Charge, ChargeCategory, ServiceClass
from tidegate.model.fleet import PoolName, ReplicaId
from tidegate.model.usage import Holding

MONTH, HOUR = datetime(2026, 11, 1, tzinfo=UTC), timedelta(hours=1)
POOLS = {
    f"pool-{n}": PoolFacts(f"service-{n % 4}", f"model-{n % 4}", "burst" if n % 5 == 0 else "base") for n in range(8)
}


def day_activity(day: datetime, hosts: int) -> Activity:
    """Two replicas a host, one of them for part of the day; tokens in most slots; some slots unseen."""
    first, held, worked, seen, output, busy = hour_of(day), [], {}, {}, {}, {}
    for n in range(hosts):
        host, one, two = f"gpu-{n:03}", f"pool-{n % 8}", f"pool-{(n + 3) % 8}"
        start = day + timedelta(minutes=7 * n % 600)
        for pool, begin, end in ((one, day, day + 24 * HOUR), (two, start, start + 11 * HOUR)):
            held.append(Holding(ReplicaId(f"{pool}-{n}"), PoolName(pool), 4, begin, end, Decimal(2), "USD", host))
        for hour in range(first, first + 24):
            seen[host, hour] = EVERY_SLOT if (n + hour) % 50 else 0b101111111111
            for pool in (one, two):
                worked[host, pool, hour] = EVERY_SLOT >> (hour % 3)
                output[host, pool, hour] = 1e5 + n
                busy[host, pool, hour] = [0.5 + (n + slot) % 7 / 20 for slot in range(12)]
    gpus = {f"gpu-{n:03}": 8 for n in range(hosts)}
    return Activity(day, day + timedelta(days=1), held, gpus, POOLS, seen, worked, busy, output)


def day_charges(day: datetime, hosts: int) -> Iterator[tuple[Charge, bool]]:
    """Three rows an hour and host, and what is of nobody."""
    for hour in range(24):
        start = day + hour * HOUR
        for n in range(hosts):
            for service, price in (
                (ServiceClass.COMPUTE, "15.73"),
                (ServiceClass.NETWORK, "0.0317"),
                (ServiceClass.STORAGE, "0.011"),
            ):
                yield _charge(start, start + HOUR, price, f"arn:aws:ec2:eu-1:12:instance/GPU-{n:03}", service), False
    for category, price in ((ChargeCategory.TAX, "1000.01"), (ChargeCategory.CREDIT, "-333.33")):
        yield _charge(MONTH, MONTH + timedelta(days=30), price, "", ServiceClass.OTHER, category), False


def _charge(start: datetime, end: datetime, price: str, resource_id: str, service: ServiceClass,
            category: ChargeCategory = ChargeCategory.USAGE) -> Charge:  # fmt: skip
    cost = Decimal(price)
    return Charge(
        provider="aws", account="acme", billing_start=MONTH, billing_end=MONTH + timedelta(days=30), start=start,
        end=end, currency="USD", billed=cost, effective=cost * Decimal("0.7"), category=category, service=service,
        resource_id=resource_id,
    )  # fmt: skip


def main() -> None:
    hosts, days = (int(word) for word in (sys.argv[1:] + ["200", "30"][len(sys.argv) - 1 :])[:2])
    spent, rows, lines, given, found, monthly = 0.0, 0, 0, 0, 0, 0
    for number in range(days):
        day = MONTH + timedelta(days=number)
        on, charges = day_activity(day, hosts), list(day_charges(day, hosts))
        begun = time.process_time()
        result = allocate(charges, on, CostPolicy())
        spent += time.process_time() - begun
        rows, lines = rows + len(charges) - 2, lines + len(result)
        apart = (LineKind.TAX, LineKind.CREDIT)
        found += sum(atoms(line.billed) for line in result if line.billed is not None and line.place.kind not in apart)
        monthly += sum(atoms(line.billed) for line in result if line.billed is not None and line.place.kind in apart)
        given += sum(atoms(charge.billed) for charge, _ in charges[:-2] if charge.billed is not None)
    print(f"{hosts} hosts, {days} days, {rows:,} hourly rows: {lines:,} lines in {spent:.1f} s of CPU")
    print(f"resident at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
    print(f"billed by the hour {amount(given)}, in lines {amount(found)}: {'equal' if given == found else 'NOT EQUAL'}")
    print(f"tax and credit of {amount(monthly)} in {days} of 30 days (666.68 in all)")


if __name__ == "__main__":
    main()
