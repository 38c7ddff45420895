"""Each format by small files: amounts in both ledgers, periods, what is bought and by whom."""

# ruff: noqa: E501, ISC004 - rows of bills are as long as they are
from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from fakes.bills import Found, focus, focus_row, read_files, read_text

from tidegate.bills.wishes import Wishes
from tidegate.model.charge import ChargeCategory, CommitmentStatus, ServiceClass
from tidegate.model.price import Price, Prices

CUR = [
    "identity/LineItemId",
    "identity/TimeInterval",
    "bill/InvoiceId",
    "bill/PayerAccountId",
    "bill/BillingPeriodStartDate",
    "bill/BillingPeriodEndDate",
    "lineItem/UsageAccountId",
    "lineItem/LineItemType",
    "lineItem/UsageStartDate",
    "lineItem/UsageEndDate",
    "lineItem/ProductCode",
    "lineItem/UsageType",
    "lineItem/ResourceId",
    "lineItem/CurrencyCode",
    "lineItem/UnblendedCost",
    "savingsPlan/SavingsPlanARN",
    "savingsPlan/SavingsPlanEffectiveCost",
    "savingsPlan/TotalCommitmentToDate",
    "savingsPlan/UsedCommitment",
    "reservation/ReservationARN",
    "reservation/EffectiveCost",
    "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod",
    "reservation/UnusedRecurringFee",
    "resourceTags/user:pool",
]


def cur_row(kind: str, cost: str, **more: str) -> str:
    values = {
        "bill/PayerAccountId": "111122223333",
        "bill/BillingPeriodStartDate": "2026-05-01T00:00:00Z",
        "bill/BillingPeriodEndDate": "2026-06-01T00:00:00Z",
        "lineItem/LineItemType": kind,
        "lineItem/UsageStartDate": "2026-05-03T00:00:00Z",
        "lineItem/UsageEndDate": "2026-05-03T01:00:00Z",
        "lineItem/ProductCode": "AmazonEC2",
        "lineItem/UsageType": "BoxUsage:p5.48xlarge",
        "lineItem/ResourceId": "i-1",
        "lineItem/CurrencyCode": "USD",
        "lineItem/UnblendedCost": cost,
    }
    named = {column.partition("/")[2]: column for column in CUR}
    values |= {named.get(key, key): value for key, value in more.items()}
    return ",".join(values.get(column, "") for column in CUR)


def snake(header: list[str]) -> list[str]:
    """Athena's and Parquet's spelling."""

    def one(name: str) -> str:
        spelled = "".join(f"_{mark.lower()}" if mark.isupper() else mark for mark in name)
        return spelled.replace("/_", "_").replace("/", "_").replace(":", "_").lstrip("_")

    return [one(name) for name in header]


def cur(folder: Path, *rows: str, header: list[str] | None = None) -> Found:
    return read_text(folder, "\n".join((",".join(header or CUR), *rows)) + "\n")


@pytest.mark.parametrize(
    ("kind", "more", "effective"),
    [
        ("Usage", {}, "10"),
        ("SavingsPlanCoveredUsage", {"SavingsPlanEffectiveCost": "6", "SavingsPlanARN": "sp"}, "6"),
        ("SavingsPlanNegation", {"SavingsPlanARN": "sp"}, "0"),
        ("SavingsPlanRecurringFee", {"TotalCommitmentToDate": "8", "UsedCommitment": "6", "SavingsPlanARN": "sp"}, "2"),
        ("SavingsPlanUpfrontFee", {"SavingsPlanARN": "sp"}, "0"),
        ("DiscountedUsage", {"reservation/EffectiveCost": "4", "ReservationARN": "ri"}, "4"),
        ("RIFee", {"UnusedAmortizedUpfrontFeeForBillingPeriod": "1.5", "UnusedRecurringFee": "0.5"}, "2.0"),
        ("Fee", {"ReservationARN": "ri"}, "0"),
        ("Fee", {}, "10"),
        ("Refund", {"SavingsPlanARN": "sp"}, "0"),
        ("Refund", {}, "10"),
        ("Tax", {}, "10"),
        ("Credit", {}, "10"),
        ("EdpDiscount", {}, "10"),
    ],
)
@pytest.mark.parametrize("spelling", ["slash", "snake"])
def test_aws_effective_cost_by_line_item_type(
    tmp_path: Path, kind: str, more: dict[str, str], effective: str, spelling: str
) -> None:
    charge = cur(tmp_path, cur_row(kind, "10", **more), header=snake(CUR) if spelling == "snake" else None).charge
    assert (charge.billed, charge.effective) == (10, Decimal(effective))


def test_aws_every_line_item_type_is_in_the_total(tmp_path: Path) -> None:
    """Tax, credits, refunds, fees and unused commitments as well: nothing is filtered out."""
    kinds = [
        "Usage",
        "Tax",
        "Credit",
        "Refund",
        "Fee",
        "RIFee",
        "SavingsPlanRecurringFee",
        "EdpDiscount",
        "SomethingNew",
    ]
    found = cur(tmp_path, *(cur_row(kind, "1") for kind in kinds))
    assert found.billed == len(kinds)
    assert any("SomethingNew" in text for text in found.read.warnings)


def test_aws_an_unused_savings_plan_stands_once(tmp_path: Path) -> None:
    """Used and unused together are what was paid for the commitment."""
    rows = (
        cur_row("SavingsPlanRecurringFee", "8", TotalCommitmentToDate="8", UsedCommitment="6", SavingsPlanARN="sp"),
        cur_row("SavingsPlanCoveredUsage", "10", SavingsPlanEffectiveCost="6", SavingsPlanARN="sp"),
        cur_row("SavingsPlanNegation", "-10", SavingsPlanARN="sp"),
    )
    found = cur(tmp_path, *rows)
    assert (found.billed, found.total.effective) == (8, 8)
    statuses = [charge.commitment_status for charge in found.charges]
    assert statuses == [CommitmentStatus.UNUSED, CommitmentStatus.USED, CommitmentStatus.NONE]


def test_aws_is_final_when_every_amount_has_its_invoice(tmp_path: Path) -> None:
    invoiced = cur(tmp_path, cur_row("Usage", "1", InvoiceId="42"), cur_row("Usage", "2", InvoiceId="42"))
    half = cur(tmp_path, cur_row("Usage", "1", InvoiceId="42"), cur_row("Tax", "2"))
    assert [sums.evidence for sums in invoiced.read.snapshots] == ["invoice 42"]
    assert [sums.evidence for sums in half.read.snapshots] == [""]


def test_aws_tags_and_classes(tmp_path: Path) -> None:
    rows = (
        cur_row("Usage", "1", **{"user:pool": "chat", "resourceTags/user:pool": "chat"}),
        cur_row("Usage", "1", UsageType="USE1-DataTransfer-Out-Bytes"),
        cur_row("Usage", "1", UsageType="EBS:VolumeUsage.gp3", ResourceId="vol-1"),
    )
    charges = cur(tmp_path, *rows).charges
    assert charges[0].tags == {"user:pool": "chat"}
    assert [each.service for each in charges] == [ServiceClass.COMPUTE, ServiceClass.NETWORK, ServiceClass.STORAGE]


def test_aws_cur_2_maps(tmp_path: Path) -> None:
    header = "line_item_line_item_type,line_item_unblended_cost,line_item_net_unblended_cost,line_item_usage_start_date"
    header += ",line_item_usage_end_date,line_item_currency_code,resource_tags,product"
    tags, product = '"{""user_team"":""a""}"', '"{""instance_type"":""p5.48xlarge"",""region_code"":""us-east-1""}"'
    row = f"Usage,10,9,2026-05-03 00:00:00.000,2026-05-03 01:00:00.000,USD,{tags},{product}"
    found = read_text(tmp_path, f"{header}\n{row}\n")
    charge = found.charge
    assert (charge.billed, charge.sku, charge.region, charge.tags) == (
        9, "p5.48xlarge", "us-east-1", {"user_team": "a"},
    )  # fmt: skip
    assert any("net" in text for text in found.read.warnings)


def gcp(cost: object, month: str, start: str, off: object = (), **more: object) -> dict[str, object]:
    end = (datetime.fromisoformat(start) + timedelta(hours=1)).isoformat()
    return {
        "billing_account_id": "0123-ABC", "service": {"id": "6F81", "description": "Compute Engine"},
        "sku": {"id": "2E27", "description": "A3 Instance Core running in Americas"}, "usage_start_time": start,
        "usage_end_time": end, "project": {"id": "llm"}, "labels": [{"key": "pool", "value": "chat"}],
        "location": {"region": "us-central1", "zone": "us-central1-a"}, "cost": cost, "currency": "USD",
        "credits": list(off) if isinstance(off, list | tuple) else off,
        "invoice": {"month": month}, "cost_type": "regular", "resource": {"global_name": "//compute/instances/7"},
        **more,
    }  # fmt: skip


def json_lines(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_gcp_net_is_cost_and_credits_exactly(tmp_path: Path) -> None:
    row = gcp(0.1, "202605", "2026-05-10T00:00:00+00:00", [{"name": "a", "amount": -0.02}, {"amount": -0.01}])
    found = read_text(tmp_path, json_lines(row), "bill.json")
    charge = found.charge
    assert (charge.billed, charge.resource_id, charge.sub_account) == (Decimal("0.07"), "//compute/instances/7", "llm")
    assert charge.tags == {"pool": "chat"}


def test_gcp_invoice_month_is_pacific_and_usage_utc(tmp_path: Path) -> None:
    """Usage of 1 August 03:00 UTC is on July's invoice, which ends at 07:00 UTC."""
    july = gcp(1, "202607", "2026-08-01T03:00:00+00:00")
    march, november = (gcp(1, month, f"{month[:4]}-{month[4:]}-15T00:00:00+00:00") for month in ("202603", "202611"))
    charges = read_text(tmp_path, json_lines(july, march, november), "bill.jsonl").charges
    assert charges[0].billing_start < charges[0].start < charges[0].billing_end
    assert charges[0].billing_end == datetime(2026, 8, 1, 7, tzinfo=UTC)
    hours = [(charge.billing_end - charge.billing_start) / timedelta(hours=1) for charge in charges[1:]]
    assert hours == [743, 721]


def test_gcp_flattened_csv(tmp_path: Path) -> None:
    text = (
        "billing_account_id,service_description,sku_id,sku_description,usage_start_time,usage_end_time,cost,currency,"
        "credits,invoice_month,cost_type\n"
        "0123,Networking,1,Network Egress,2026-05-01 00:00:00 UTC,2026-05-01 01:00:00 UTC,8.0E-10,EUR,"
        '"[{""amount"": -3.0E-10}]",202605,tax\n'
    )
    charge = read_text(tmp_path, text).charge
    assert (charge.billed, charge.currency, charge.category) == (Decimal("5.0E-10"), "EUR", ChargeCategory.TAX)


def test_gcp_credits_that_cannot_be_read_are_quarantined_with_the_cost(tmp_path: Path) -> None:
    found = read_text(tmp_path, json_lines(gcp(3, "202605", "2026-05-01T00:00:00+00:00", "[{oops")), "b.json")
    assert [row.amount for row in found.quarantined] == [3]


AZURE_FAMILIES = {
    "EA": "BillingAccountId,BillingPeriodStartDate,BillingPeriodEndDate,Date,SubscriptionId,MeterCategory,Cost,"
    "BillingCurrency,ResourceId,ChargeType,PricingModel,Tags,AdditionalInfo",
    "MCA": "billingAccountId,billingPeriodStartDate,billingPeriodEndDate,date,SubscriptionId,meterCategory,"
    "costInBillingCurrency,billingCurrency,ResourceId,chargeType,pricingModel,tags,additionalInfo",
    "German": "Abrechnungskonto (BillingAccountId),Anfang (BillingPeriodStartDate),Ende (BillingPeriodEndDate),"
    "Datum (Date),Abonnement-GUID (SubscriptionGuid),Verbrauchskategorie (MeterCategory),Kosten (Cost),"
    "Währung (BillingCurrency),Instanz-ID (InstanceId),Gebührentyp (ChargeType),Preismodell (PricingModel),"
    "Tags,Zusatz (AdditionalInfo)",
    "pay-as-you-go": "BillingAccountId,BillingPeriodStartDate,BillingPeriodEndDate,UsageDateTime,SubscriptionGuid,"
    "MeterCategory,PreTaxCost,Currency,InstanceId,ChargeType,PricingModel,Tags,AdditionalInfo",
}
AZURE_ROW = (
    "8611537,05/01/2026,05/31/2026,5/3/2026,s-1,Virtual Machines,1.5E-1,CAD,/subscriptions/S-1/VM-1,Usage,OnDemand,"
    '"""pool"": ""chat""","{""VMName"":""gpu-1""}"'
)


@pytest.mark.parametrize("family", AZURE_FAMILIES)
def test_azure_header_families(tmp_path: Path, family: str) -> None:
    charge = read_text(tmp_path, f"\ufeff{AZURE_FAMILIES[family]}\n{AZURE_ROW}\n").charge
    assert (charge.billed, charge.effective, charge.currency) == (Decimal("0.15"), None, "CAD")
    assert (charge.account, charge.sub_account, charge.resource_id) == ("8611537", "s-1", "/subscriptions/S-1/VM-1")
    assert (charge.tags, charge.resource_name) == ({"pool": "chat"}, "gpu-1")
    assert (charge.billing_start, charge.billing_end) == (
        datetime(2026, 5, 1, tzinfo=UTC),
        datetime(2026, 6, 1, tzinfo=UTC),
    )
    assert (charge.start, charge.end - charge.start) == (datetime(2026, 5, 3, tzinfo=UTC), timedelta(days=1))


@pytest.mark.parametrize(
    ("kind", "model", "cost", "source"),
    [
        ("UnusedReservation", "Reservation", "3", "azure-amortized"),
        ("UnusedSavingsPlan", "SavingsPlan", "3", "azure-amortized"),
        ("Usage", "Reservation", "3", "azure-amortized"),
        ("Usage", "Reservation", "0", "azure-actual"),
        ("Purchase", "Reservation", "3", "azure-actual"),
        ("Usage", "OnDemand", "3", "azure-actual"),
    ],
)
def test_azure_actual_and_amortised_are_told_apart_by_their_rows(
    tmp_path: Path, kind: str, model: str, cost: str, source: str
) -> None:
    row = AZURE_ROW.replace("Usage,OnDemand", f"{kind},{model}").replace("1.5E-1", cost)
    found = read_text(tmp_path, f"{AZURE_FAMILIES['EA']}\n{row}\n")
    assert [sums.key.source for sums in found.read.snapshots] == [source]
    assert (found.charge.billed is None) == (source == "azure-amortized")


def test_azure_by_the_folders_words_where_the_rows_say_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "AmortizedCost"
    folder.mkdir()
    (folder / "part_0.csv").write_text(f"{AZURE_FAMILIES['EA']}\n{AZURE_ROW}\n")
    assert read_files([folder / "part_0.csv"]).read.snapshots[0].key.source == "azure-amortized"


CHINESE = {
    "alibaba": (
        "BillingCycle,AccountID,ProductName,SubscriptionType,InstanceID,Tag,Region,Zone,UsageStartTime,UsageEndTime,"
        "Item,PretaxGrossAmount,InvoiceDiscount,DeductedByCoupons,PretaxAmount,DeductedByCashCoupons,Currency",
        "2026-03,1001,ECS,PayAsYouGo,i-bp1,key:pool value:chat,cn-hangzhou,h,2026-03-01 00:00:00,2026-03-01 01:00:00,"
        "PayAsYouGoBill,10,2,1,7,7,CNY",
    ),
    "alibaba-console": (
        "账期,账号ID,产品,消费类型,实例ID,实例标签,地域,可用区,服务开始时间,服务结束时间,账单类型,原价,优惠金额,优惠券抵扣,应付金额,代金券抵扣,币种",
        "2026-03,1001,云服务器 ECS,后付费,i-bp1,pool:chat,杭州,h,2026-03-01 00:00:00,2026-03-01 01:00:00,云资源按量费用,10,2,1,7,7,CNY",
    ),
    "tencent": (
        "支付者UIN,使用者UIN,产品名称,计费模式,资源ID,标签,地域,可用区,使用开始时间,使用结束时间,交易类型,组件原价,优惠后总价,代金券支出,账单月份",
        "1001,1001,云服务器CVM,按量计费,ins-1,pool:chat,广州,一区,2026-03-01 00:00:00,2026-03-01 01:00:00,按量计费扣费,10,7,-,2026-03",
    ),
    "volcengine": (
        "BillPeriod,PayerID,Product,BillingMode,InstanceNo,Tag,Region,Zone,ExpenseBeginTime,ExpenseEndTime,BillCategory,"
        "OriginalBillAmount,PayableAmount,CouponAmount,Currency",
        "2026-03,1001,ECS,按量计费,i-1,pool:chat,cn-beijing,a,2026-03-01 00:00:00,2026-03-01 01:00:00,consume-use,10,7,7,CNY",
    ),
    "huawei": (
        "账期,账号ID,企业项目,云服务类型,计费模式,资源ID,资源标签,区域,使用开始时间,使用结束时间,账单类型,官网价(¥),优惠金额(¥),应付金额(¥)",
        "2026-03,1001,default,弹性云服务器,按需,r-1,pool:chat,华北,2026-03-01 00:00:00 GMT+08:00,2026-03-01 01:00:00 GMT+08:00,消费,10,3,7",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHINESE)
def test_chinese_clouds(tmp_path: Path, name: str) -> None:
    """Payable amounts count, coupons that pay them do not lessen them; days and months are those of UTC+8."""
    header, row = CHINESE[name]
    found = read_text(tmp_path, f"{header}\n{row}\n")
    charge = found.charge
    assert charge.provider == name.partition("-")[0]
    assert (charge.billed, charge.effective, charge.currency, charge.account) == (7, 7, "CNY", "1001")
    assert charge.billing_start == datetime(2026, 2, 28, 16, tzinfo=UTC)
    assert (charge.start, charge.end) == (datetime(2026, 2, 28, 16, tzinfo=UTC), datetime(2026, 2, 28, 17, tzinfo=UTC))
    assert (charge.service, charge.tags) == (ServiceClass.COMPUTE, {"pool": "chat"})


def test_alibaba_payable_is_gross_less_discounts_where_it_is_missing(tmp_path: Path) -> None:
    header, row = CHINESE["alibaba"]
    row = row.replace("10,2,1,7,7", "10,2,1,,7")
    assert read_text(tmp_path, f"{header}\n{row}\n").billed == 7


def test_alibaba_subscription_lasts_its_service_period(tmp_path: Path) -> None:
    header, row = CHINESE["alibaba"]
    row = row.replace("PayAsYouGo,", "Subscription,").replace("PayAsYouGoBill", "SubscriptionOrder")
    charge = read_text(tmp_path, f"{header},ServicePeriod,ServicePeriodUnit\n{row},1,月\n").charge
    assert charge.end - charge.start == timedelta(days=31)
    assert (charge.frequency, charge.category) == ("recurring", ChargeCategory.USAGE)


@pytest.mark.parametrize(
    ("item", "category"), [("Refund", "credit"), ("Adjustment", "adjustment"), ("rdd", "adjustment")]
)
def test_alibaba_refunds_and_month_end_rounding(tmp_path: Path, item: str, category: str) -> None:
    header, row = CHINESE["alibaba"]
    row = row.replace("PayAsYouGoBill", item).replace("10,2,1,7,7", "0,0,0,-0.003,0")
    charge = read_text(tmp_path, f"{header}\n{row}\n").charge
    assert (charge.billed, charge.category.value) == (Decimal("-0.003"), category)


def test_oci_tags_in_columns_and_times_without_seconds(tmp_path: Path) -> None:
    text = (
        "lineItem/referenceNo,lineItem/tenantId,lineItem/intervalUsageStart,lineItem/intervalUsageEnd,product/service,"
        "product/resourceId,product/Description,cost/myCost,cost/currencyCode,lineItem/isCorrection,tags/ns.pool,"
        "tags/a\\b\n"
        "1,ocid1.tenancy,2026-11-13T10:00Z,2026-11-13T11:00:00Z,COMPUTE,ocid1.instance,BM.GPU.H100.8,80.0,USD,true,chat,x\n"
    )
    charge = read_text(tmp_path, text).charge
    assert (charge.billed, charge.correction, charge.tags) == (Decimal("80.0"), True, {"ns.pool": "chat", "a\\b": "x"})
    assert (charge.end - charge.start, charge.service) == (timedelta(hours=1), ServiceClass.COMPUTE)


COREWEAVE = (
    "ProviderName,BillingAccountId,BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,SkuId,"
    "ConsumedQuantity,ConsumedUnit,RegionId\n"
    "CoreWeave,cw,2026-05-01T00:00:00Z,2026-06-01T00:00:00Z,2026-05-01T00:00:00Z,2026-05-01T01:00:00Z,GD-8xH100,"
    "2.5,Hours,US-EAST-04A\n"
)


def test_coreweave_quantities_are_priced_by_contract(tmp_path: Path) -> None:
    later = Price("coreweave", "gd-8xh100", "USD", Decimal(99), since=datetime(2026, 6, 1, tzinfo=UTC))
    prices = Prices([Price("coreweave", "gd-8xh100", "USD", Decimal("49.24")), later])
    found = read_text(tmp_path, COREWEAVE, wishes=Wishes(prices=prices))
    assert (found.billed, found.total.effective, found.charge.provider) == (
        Decimal("123.100"),
        Decimal("123.1"),
        "coreweave",
    )


def test_coreweave_without_a_price_is_quarantined_not_free(tmp_path: Path) -> None:
    found = read_text(tmp_path, COREWEAVE)
    assert found.charges == ()
    assert "no contract price for 'GD-8xH100' in US-EAST-04A" in found.quarantined[0].reason


def test_runpod_splits_the_disk_from_the_pod(tmp_path: Path) -> None:
    record = {
        "podId": "abc", "startTime": "2026-05-01T00:00:00Z", "bucketSize": "hour", "totalAmount": 2.59,
        "gpuAmount": 2.49, "cpuAmount": 0, "diskAmount": 0.1,
    }  # fmt: skip
    found = read_text(tmp_path, json.dumps({"records": [record]}), "pods.json")
    assert [(charge.billed, charge.service.value) for charge in found.charges] == [
        (Decimal("2.49"), "compute"), (Decimal("0.1"), "storage"),
    ]  # fmt: skip
    assert (found.billed, found.total.currency) == (Decimal("2.59"), "USD")


def test_own_hardware_and_colocation(tmp_path: Path) -> None:
    text = (
        "source,invoice_id,period_start,period_end,currency,amount,category,hosts,note\n"
        "hall-7,R-1,2026-02-15,2026-03-15,EUR,2000.00,power,gpu-1;gpu-2,95th percentile\n"
        "hall-7,R-1,2026-02-15,2026-03-15,EUR,9000,depreciation,gpu-1,\n"
        "hall-7,R-1,2026-02-15,2026-03-15,EUR,300,bandwidth,,\n"
        "hall-7,R-1,2026-02-15,2026-03-15,EUR,100,rent,,\n"
    )
    found = read_text(tmp_path, text)
    power, depreciation, bandwidth = found.charges
    assert (power.hosts, power.service) == (("gpu-1", "gpu-2"), ServiceClass.COMPUTE)
    assert (depreciation.resource_id, bandwidth.service) == ("gpu-1", ServiceClass.NETWORK)
    assert power.end - power.start == timedelta(days=28)
    assert [(row.amount, "rent" in row.reason) for row in found.quarantined] == [(100, True)]


def test_focus_preview_and_old_names(tmp_path: Path) -> None:
    text = (
        "BilledCost,AmortizedCost,ChargeType,ChargeSubcategory,UsageQuantity,UsageUnit,Region,Provider,ChargePeriodStart,"
        "ChargePeriodEnd,BillingPeriodStart,BillingPeriodEnd,BillingCurrency\n"
        "0,3.5,Usage,Used Commitment,4,Hours,eastus,Microsoft,2026-05-01,2026-05-02,2026-05-01,2026-06-01,USD\n"
    )
    charge = read_text(tmp_path, text).charge
    assert (charge.effective, charge.consumed_quantity, charge.region) == (Decimal("3.5"), 4, "eastus")
    assert (charge.commitment_status, charge.provider) == (CommitmentStatus.USED, "azure")


def test_focus_1_4_without_provider_name(tmp_path: Path) -> None:
    text = focus(focus_row()).replace("ProviderName", "ServiceProviderName")
    assert read_text(tmp_path, text).charge.provider == "aws"


def test_focus_1_4_billing_period_and_invoice_detail(tmp_path: Path) -> None:
    period = (
        "BillingAccountId,BillingPeriodStart,BillingPeriodEnd,BillingPeriodStatus\nA,2026-05-01,2026-06-01,Closed\n"
    )
    invoice = "InvoiceId,InvoiceDetailId,BilledCost,BillingCurrency,InvoiceIssueStatus\nI-1,1,10.50,USD,Issued\n"
    (closed,) = read_text(tmp_path, period).read.declared
    (total,) = read_text(tmp_path, invoice).read.declared
    assert (closed.closed, closed.account, closed.says) == (True, "A", "BillingPeriodStatus Closed")
    assert (total.invoice_id, total.total, total.closed) == ("I-1", Decimal("10.50"), False)


def test_focus_contract_commitments_are_no_charges(tmp_path: Path) -> None:
    """FOCUS 1.3 delivers them beside the charges: read, told, in no total."""
    header = "ContractId,ContractCommitmentId,ContractCommitmentCategory,ContractCommitmentType,ContractCommitmentCost,"
    header += "ContractCommitmentPeriodStart,ContractCommitmentPeriodEnd,BillingCurrency"
    row = "c-1,cc-1,Spend,Savings,8760.00,2026-01-01T00:00:00Z,2027-01-01T00:00:00Z,USD"
    read = read_text(tmp_path, f"{header}\n{row}\n").read
    assert (read.totals, read.accepted, read.files[0].format) == ((), 1, "focus-contract-commitment")
    assert (read.declared[0].says, read.declared[0].total) == ("contract commitment cc-1 (Savings)", Decimal("8760.00"))


def test_an_empty_cell_in_one_ledger_is_not_zero_and_not_lost(tmp_path: Path) -> None:
    found = read_text(tmp_path, focus(focus_row("5", ""), focus_row("", "2")))
    assert (found.billed, found.total.effective) == (5, 2)
    assert [charge.effective for charge in found.charges] == [None, 2]
    assert any("EffectiveCost is empty" in text for text in found.read.warnings)
