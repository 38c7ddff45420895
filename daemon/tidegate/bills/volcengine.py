"""Volcengine bill details (ListBillDetail, https://www.volcengine.com/docs/6269), English and console headers."""

from __future__ import annotations

from typing import ClassVar

from tidegate.bills.format import Format
from tidegate.bills.instance_bill import Headers, InstanceBillReader
from tidegate.model.charge import ChargeCategory

NAMES = Headers(
    payable=("payableamount", "应付金额", "pretaxpayableamount", "税前应付金额", "discountbillamount", "折后价"),
    gross=("originalbillamount", "原价"),
    off=(("preferentialbillamount", "优惠金额"), ("roundamount", "抹零金额")),
    cycle=("billperiod", "账期", "账单月份"),
    account=("payerid", "付款方id", "付款方账号id", "支付方id", "支付账号id", "账号id"),
    owner=("ownerid", "使用方id", "所有者id", "使用者id", "资源归属方id"),
    product=("productzh", "product", "产品", "产品名称", "产品中文名称"),
    kind=("billcategory", "账单类别", "账单类型", "交易类型"),
    mode=("billingmode", "计费模式", "计费方式"),
    instance=("instanceno", "实例编号", "实例id"),
    name=("instancename", "实例名", "实例名称"),
    spec=("configname", "配置名称", "configurationcode", "规格"),
    item=("element", "计费项", "factor", "计费因子"),
    start=("expensebegintime", "消费开始时间", "费用开始时间", "expensedate", "消费日期", "消费时间"),
    end=("expenseendtime", "消费结束时间", "费用结束时间"),
    paid_at=("tradetime", "交易时间", "expensedate"),
    quantity=("count", "用量", "使用量", "数量"),
)


class VolcengineReader(InstanceBillReader):
    """One file."""

    provider: ClassVar = "volcengine"
    names: ClassVar = NAMES
    kinds: ClassVar = {
        "消费": ChargeCategory.USAGE,
        "refund": ChargeCategory.CREDIT,
        "退": ChargeCategory.CREDIT,
        "transfer": ChargeCategory.ADJUSTMENT,
        "调账": ChargeCategory.ADJUSTMENT,
    }


VOLCENGINE = Format(
    name="volcengine",
    title="Volcengine bill details",
    needs=(
        (*NAMES.payable, *NAMES.gross),
        ("billperiod", "instanceno", "付款方id", "付款方账号id", "支付方id", "支付账号id", "实例编号", "使用方id"),
        (*NAMES.cycle, *NAMES.start),
    ),
    lacks=("支付者uin", "云服务类型", "billingcycle"),
    reader=VolcengineReader,
    money=("payableamount", "应付金额"),
    times=(*NAMES.start, *NAMES.end, *NAMES.paid_at),
)
