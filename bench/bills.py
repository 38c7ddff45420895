"""How fast and how small a large bill is read and imported, beside pandas.read_csv and DuckDB on the same file.

Makes a FOCUS file of a million rows (ROWS=... another number), reads it as a dry run does, imports it into an embedded
Postgres, and imports it again unchanged: by the command `tidegate bill import` beside a running controller, from the
start of Python to the answer. Each reader runs in a process of its own; CPU seconds and peak memory are its own.
Exits 1 when the import takes more than 60 CPU seconds of our process or 300 MB, or the second one a second.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from random import Random
from socket import socket
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "daemon"))
ROWS = int(os.environ.get("ROWS", "1000000"))
CPU_SECONDS, MEGABYTES, AGAIN_SECONDS = 60.0, 300.0, 1.0
_NAMES = (
    "AvailabilityZone,BilledCost,BillingAccountId,BillingAccountName,BillingCurrency,BillingPeriodEnd,"
    "BillingPeriodStart,ChargeCategory,ChargeClass,ChargeDescription,ChargeFrequency,ChargePeriodEnd,"
    "ChargePeriodStart,CommitmentDiscountId,CommitmentDiscountStatus,ConsumedQuantity,ConsumedUnit,ContractedCost,"
    "EffectiveCost,InvoiceIssuerName,ListCost,ListUnitPrice,PricingCategory,PricingQuantity,PricingUnit,ProviderName,"
    "RegionId,RegionName,ResourceId,ResourceName,ResourceType,ServiceCategory,ServiceName,SkuId,SkuPriceId,"
    "SubAccountId,SubAccountName,Tags"
)
HEADER = _NAMES.split(",")
_CONFIG = """
[controller]
listen = "127.0.0.1:{port}"
state_dir = "{folder}"
database_file = "{address}"
"""


def make(path: Path, rows: int) -> None:
    """A month of hourly rows of 1,400 resources."""
    random = Random(6)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for number in range(rows):
            hour, resource_id = number * 720 // rows, number % 1400
            start = f"2026-09-{hour // 24 + 1:02}T{hour % 24:02}:00:00Z"
            end = f"2026-09-{hour // 24 + 1:02}T{hour % 24:02}:59:59Z"
            cost = f"{random.randrange(10**12) / 10**10:.10f}"
            tags = json.dumps({"pool": f"pool-{resource_id % 7}", "env": "prod", "team": f"team-{resource_id % 13}"})
            writer.writerow(
                (
                    "us-east-1a", cost, "111122223333", "Payer", "USD", "2026-10-01T00:00:00Z", "2026-09-01T00:00:00Z",
                    "Usage", "", "$98.32 per On Demand Linux p5.48xlarge Instance Hour", "Usage-Based", end, start, "",
                    "", "1.0000000000", "Hours", cost, cost, "Amazon Web Services, Inc.", cost, "98.32", "Standard",
                    "1.0000000000", "Hours", "AWS", "us-east-1", "US East (N. Virginia)",
                    f"arn:aws:ec2:us-east-1:111122223333:instance/i-{resource_id:017x}", f"gpu-{resource_id}",
                    "Instance", "Compute", "Amazon Elastic Compute Cloud", "4QT8X3ZNMYKXQRF7",
                    "4QT8X3ZNMYKXQRF7.JRTCKXETXF.6YS6EN2CT7", f"{resource_id % 9:012}", "Atlas", tags,
                )
            )  # fmt: skip


def read(path: Path) -> None:
    """As a dry run."""
    from tidegate.bills.parts import gather
    from tidegate.bills.reading import Reading
    from tidegate.bills.wishes import Wishes

    reading = Reading(gather([path]), Wishes())
    for _ in reading.items():
        pass
    assert reading.result().accepted == ROWS


def take(path: Path, dsn: str) -> None:
    """As the controller does."""
    from tidegate.bills.orders import hashes_of, order_of
    from tidegate.bills.parts import gather
    from tidegate.bills.reading import reading_of
    from tidegate.bills.wishes import Wishes
    from tidegate.controller.bill_book import BillBook
    from tidegate.runtime.clock import SystemClock
    from tidegate.store.bills import StoredBills
    from tidegate.store.database import open_database

    database = open_database(dsn)
    book = BillBook(SystemClock(), StoredBills(database), reading_of, tuple)
    bundle = gather([path])
    book.take(order_of(bundle, Wishes(), hashes_of(bundle)), "bench")
    database.close()


def pandas(path: Path) -> None:
    """Floats, and the whole table in memory."""
    import pandas as pd

    pd.read_csv(path, low_memory=False)["BilledCost"].sum()


def duckdb(path: Path) -> None:
    """One thread; floats; one column summed, every column parsed into a table."""
    import duckdb as library

    connection = library.connect(config={"threads": "1"})
    connection.execute(f"create table bill as select * from read_csv('{path}')")
    connection.execute("select sum(BilledCost) from bill").fetchall()


def again(path: Path, url: str, token: str) -> None:
    """As a person does."""
    command = [sys.executable, "-m", "tidegate", "bill", "import", str(path), "--controller", url]
    answer = subprocess.run(
        [*command, "--token-file", token], check=True, stdout=subprocess.PIPE, env=_env(), text=True
    )
    assert "nothing changes" in answer.stdout, answer.stdout


WORK: dict[str, Callable[..., None]] = {"read": read, "take": take, "again": again, "pandas": pandas, "duckdb": duckdb}


def measured(name: str, *arguments: str) -> dict[str, float]:
    """A piece of work in a process of its own."""
    command = [sys.executable, __file__, "--work", name, *arguments]
    started = time.monotonic()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found | {"wall": time.monotonic() - started}


def work(name: str, arguments: list[str]) -> None:
    """The child: do it, and say what it took."""
    WORK[name](Path(arguments[0]), *arguments[1:])
    usage = resource.getrusage(resource.RUSAGE_CHILDREN if name == "again" else resource.RUSAGE_SELF)
    print(json.dumps({"cpu": usage.ru_utime + usage.ru_stime, "mb": usage.ru_maxrss / 1024}))


@contextmanager
def database() -> Any:
    """An embedded Postgres, migrated."""
    from tidegate.store import migrate
    from tidegate.store.database import open_database
    from tidegate.store.embedded import EmbeddedPostgres

    folder = Path(tempfile.mkdtemp(prefix="tg-"))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    server = EmbeddedPostgres(folder)
    try:
        server.start()
        opened = open_database(server.dsn)
        migrate.upgrade(opened)
        opened.close()
        yield server.dsn
    finally:
        server.stop()


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "daemon")}


@contextmanager
def controller(folder: Path, dsn: str) -> Any:
    """A controller of no fleet over that database; its address."""
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, config = folder / "database.address", folder / "tidegate.toml"
    address.write_text(dsn)
    address.chmod(0o600)
    config.write_text(_CONFIG.format(port=port, folder=folder, address=address))
    command = [sys.executable, "-m", "tidegate", "controller", "--config", str(config)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=_env(), stdout=log, stderr=log)
    try:
        for _ in range(300):
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/v1/bills"):
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def main() -> int:
    """Measure, print, judge."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bill.csv"
        make(path, ROWS)
        size = path.stat().st_size / 1e6
        print(f"{ROWS} rows of FOCUS, {len(HEADER)} columns, {size:.0f} MB, {datetime.now(UTC):%Y-%m-%d}")
        peers = [name for name in ("pandas", "duckdb") if find_spec(name)]
        found = {name: measured(name, str(path)) for name in (*peers, "read")}
        with database() as dsn:
            found["import"] = measured("take", str(path), dsn)
            with controller(Path(folder), dsn) as url:
                found["again"] = measured("again", str(path), url, str(Path(folder) / "operator.token"))
    print(f"{'what':<10}{'CPU s':>8}{'wall s':>8}{'MB':>8}" + "".join(f"{f'x {name}':>10}" for name in peers))
    for name, each in found.items():
        ratios = "".join(f"{each['cpu'] / found[peer]['cpu']:>10.1f}" for peer in peers)
        print(f"{name:<10}{each['cpu']:>8.1f}{each['wall']:>8.1f}{each['mb']:>8.0f}{ratios}")
    if len(peers) < 2:
        print("for the peers: pip install pandas duckdb")
    taken = found["import"]
    good = taken["cpu"] <= CPU_SECONDS and taken["mb"] <= MEGABYTES
    good = good and found["again"]["cpu"] <= AGAIN_SECONDS
    print("good" if good else f"NOT within {CPU_SECONDS:.0f} CPU s, {MEGABYTES:.0f} MB, {AGAIN_SECONDS:.0f} s again")
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
