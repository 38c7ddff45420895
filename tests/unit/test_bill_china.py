"""The Chinese clouds' files as their consoles, stores and APIs write them: whose they are, what is owed, for when."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from fakes.bills import read_bytes, read_text

from tidegate.model.charge import ChargeCategory

MARCH = datetime(2026, 2, 28, 16, tzinfo=UTC)
HUAWEI = {
    "账期": "2026-03",
    "企业项目": "default",
    "企业项目ID": "0",
    "账号": "zhangsan",
    "产品类型编码": "hws.service.type.ec2",
    "产品类型": "弹性云服务器",
    "产品": "弹性云服务器",
    "计费模式": "按需",
    "消费时间": "2026-03-23 22:00:00 GMT+08:00-2026-03-23 23:00:00 GMT+08:00",
    "账单类型": "消费-使用",
    "资源ID": "r-1",
    "官网价": "10.12345678",
    "优惠金额": "1",
    "抹零金额": "0.00345678",
    "应付金额": "9.12",
    "币种": "CNY",
}
VOLCENGINE = {
    "BillPeriod": "2026-03",
    "ExpenseDate": "2026-03-02",
    "PayerID": "2100",
    "OwnerID": "2100",
    "Product": "ECS",
    "BillingMode": "按量计费",
    "ExpenseBeginTime": "2026-03-02 00:00:00",
    "ExpenseEndTime": "2026-03-02 01:00:00",
    "BillCategory": "consume-use",
    "InstanceNo": "i-1",
    "OriginalBillAmount": "10",
    "PreferentialBillAmount": "2",
    "RoundAmount": "0.001",
    "DiscountBillAmount": "8",
    "PretaxAmount": "7.5",
    "PosttaxAmount": "7.999",
    "PayableAmount": "7.999",
    "CouponAmount": "1",
    "PaidAmount": "6.999",
    "Currency": "CNY",
}


def text_of(row: dict[str, str], **changes: str) -> str:
    row = row | changes
    return f"{','.join(row)}\n{','.join(row.values())}\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gbk", "utf-16"])
def test_huawei_writes_both_ends_of_the_usage_in_one_cell(tmp_path: Path, encoding: str) -> None:
    charge = read_bytes(tmp_path, text_of(HUAWEI).encode(encoding)).charge
    assert (charge.provider, charge.account, charge.billed) == ("huawei", "zhangsan", Decimal("9.12"))
    assert (charge.start, charge.end) == (datetime(2026, 3, 23, 14, tzinfo=UTC), datetime(2026, 3, 23, 15, tzinfo=UTC))
    assert charge.billing_start == MARCH


def test_huawei_statement_of_account(tmp_path: Path) -> None:
    header = "账期,消费/退订时间,订单号,订单类型,产品类型,区域,产品,规格,计费模式,官网价总金额,应付金额,现金支付,欠费"
    row = "2026-03,2026/03/02 08:36,CS1,退订,云硬盘,华北,HD3,高IO,包月,3.5,-3.5,0,0"
    charge = read_text(tmp_path, f"{header}\n{row}\n").charge
    assert (charge.provider, charge.billed, charge.category) == ("huawei", Decimal("-3.5"), ChargeCategory.CREDIT)
    assert charge.start == datetime(2026, 3, 2, 0, 36, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "category"),
    [
        ("消费-使用", ChargeCategory.USAGE),
        ("消费-退订手续费增收", ChargeCategory.USAGE),
        ("退款-退订", ChargeCategory.CREDIT),
        ("调账-补偿", ChargeCategory.ADJUSTMENT),
    ],
)
def test_huawei_kinds(tmp_path: Path, kind: str, category: ChargeCategory) -> None:
    assert read_text(tmp_path, text_of(HUAWEI, 账单类型=kind)).charge.category is category


def test_volcengine_has_amounts_before_tax_beside_the_payable_one(tmp_path: Path) -> None:
    charge = read_text(tmp_path, text_of(VOLCENGINE)).charge
    assert (charge.provider, charge.account, charge.billed) == ("volcengine", "2100", Decimal("7.999"))


@pytest.mark.parametrize(
    "answer",
    [
        {"ResponseMetadata": {"RequestId": "x"}, "Result": {"Total": 1, "List": [VOLCENGINE]}},
        {"Result": {"Data": {"List": [VOLCENGINE]}}},
        {"List": [VOLCENGINE]},
        [VOLCENGINE],
    ],
)
def test_an_answer_of_the_api_is_read_as_it_came(tmp_path: Path, answer: object) -> None:
    assert read_text(tmp_path, json.dumps(answer), name="bill.json").billed == Decimal("7.999")


@pytest.mark.parametrize("payer", ["付款方ID", "付款方账号ID", "支付方ID", "支付账号ID"])
def test_volcengine_console_is_not_taken_for_another_cloud(tmp_path: Path, payer: str) -> None:
    text = f"账期,账单日期,{payer},产品,计费模式,实例ID,原价,优惠金额,应付金额,币种\n"
    text += "2026-03,2026-03-02,2100,云服务器,按量计费,i-1,10,2,8,CNY\n"
    charge = read_bytes(tmp_path, text.encode("gbk")).charge
    assert (charge.provider, charge.account, charge.billed) == ("volcengine", "2100", 8)


def test_tencent_a_dash_is_no_money_and_a_list_price_no_cost(tmp_path: Path) -> None:
    text = "支付者UIN,产品名称,资源ID,使用开始时间,使用结束时间,原价,优惠后总价,账单月份\n"
    text += "1,CVM,i-1,2026-03-01 00:00:00,2026-03-01 01:00:00,-,5.5,2026-03\n"
    text += "1,CVM,i-2,2026-03-01 00:00:00,2026-03-01 01:00:00,10,-,2026-03\n"
    found = read_text(tmp_path, text)
    assert (found.billed, len(found.charges)) == (Decimal("5.5"), 1)
    assert [(row.amount, row.reason) for row in found.quarantined] == [(10, "优惠后总价 is empty")]


@pytest.mark.parametrize(
    ("period", "days"), [("1个月", 31), ("1 Month", 31), ("1年", 365), ("86400", 1), ("7天", 7), ("for ever", 1)]
)
def test_alibaba_service_periods_in_words(tmp_path: Path, period: str, days: int) -> None:
    text = "BillingCycle,AccountID,SubscriptionType,ProductName,InstanceID,UsageStartTime,ServicePeriod,PretaxAmount\n"
    text += f"2026-03,1,Subscription,ECS,i-1,2026-03-05,{period},7\n"
    charge = read_text(tmp_path, text).charge
    assert (charge.billed, charge.end - charge.start) == (7, timedelta(days=days))
