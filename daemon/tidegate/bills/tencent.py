"""Tencent Cloud bill details (https://cloud.tencent.com/document/product/555), English and console headers."""

from __future__ import annotations

from typing import ClassVar

from tidegate.bills.format import Format
from tidegate.bills.instance_bill import Headers, InstanceBillReader
from tidegate.model.charge import ChargeCategory

_PAYERS = ("payeraccountid", "payeruin", "支付者uin", "支付者账号id", "使用者uin", "owneraccountid")
NAMES = Headers(
    payable=(
        "优惠后总价", "优惠后总价元", "totalamountafterdiscount", "totalamountafterdiscountexcludingtax",
        "discountedtotalprice",
        "realtotalcost", "realcost", "totalcost", "costafterdiscount", "totalpriceafterdiscount", "应付金额",
    ),
    gross=("组件原价", "原价", "originalcost", "cost", "originalprice"),
    off=(),
    cycle=("consumptionmonth", "billmonth", "账单月份", "消费月份", "账期", "月份"),
    account=("payeraccountid", "payeruin", "支付者uin", "支付者账号id"),
    owner=("owneraccountid", "owneruin", "使用者uin", "使用者账号id"),
    product=("productname", "产品名称", "businesscodename", "产品", "subproductname", "子产品名称"),
    kind=("consumptiontype", "transactiontype", "交易类型", "actiontypename", "adjusttype"),
    mode=("billingmode", "计费模式", "paymodename"),
    instance=("instanceid", "resourceid", "资源id", "实例id"),
    name=("instancename", "resourcename", "资源别名", "资源名称", "实例名称"),
    spec=("instancetype", "实例类型", "配置描述", "componentname", "组件名称"),
    item=("componenttype", "组件类型", "componentname", "组件名称", "subproductname", "子产品名称"),
    start=("usagestarttime", "feebegintime", "使用开始时间", "开始使用时间"),
    end=("usageendtime", "feeendtime", "使用结束时间", "结束使用时间"),
    paid_at=("transactiontime", "paytime", "扣费时间", "交易时间"),
    quantity=("componentusage", "usage", "组件用量", "usedamount"),
    unit=("componentusageunit", "usageunit", "组件用量单位", "usedamountunit"),
)  # fmt: skip


class TencentReader(InstanceBillReader):
    """One file; a `-` in place of money is no money."""

    provider: ClassVar = "tencent"
    names: ClassVar = NAMES
    kinds: ClassVar = {
        "refund": ChargeCategory.CREDIT,
        "退": ChargeCategory.CREDIT,
        "adjust": ChargeCategory.ADJUSTMENT,
        "settlement": ChargeCategory.ADJUSTMENT,
        "调账": ChargeCategory.ADJUSTMENT,
        "补结算": ChargeCategory.ADJUSTMENT,
        "重结算": ChargeCategory.ADJUSTMENT,
    }


TENCENT = Format(
    name="tencent",
    title="Tencent Cloud bill details",
    needs=(_PAYERS, (*NAMES.payable, *NAMES.gross), (*NAMES.cycle, *NAMES.start, *NAMES.paid_at)),
    lacks=("pretaxamount", "billedcost", "lineitemlineitemtype"),
    reader=TencentReader,
    money=NAMES.payable,
    times=(*NAMES.start, *NAMES.end, *NAMES.paid_at),
)
