"""Huawei Cloud bill details (https://support.huaweicloud.com/usermanual-billing/), English and console headers."""

from __future__ import annotations

from typing import ClassVar

from tidegate.bills.format import Format
from tidegate.bills.instance_bill import Headers, InstanceBillReader
from tidegate.model.charge import ChargeCategory

_OWN = (
    "云服务类型", "企业项目", "企业项目名称", "官网价", "cloudservicetype", "cloudservicetypename", "enterpriseproject",
    "consumeamount", "officialamount", "servicetypename", "servicetypecode", "企业项目id", "官网价", "官网价总金额",
    "产品类型编码", "消费流水号",
)  # fmt: skip
NAMES = Headers(
    payable=("应付金额", "应付金额元", "amountdue", "consumeamount", "amount", "消费金额", "应付"),
    gross=("官网价", "官网价总金额", "officialamount", "listprice", "原价"),
    off=(
        ("优惠金额", "折扣优惠", "discountamount", "discounts", "discount"),
        ("抹零金额", "erasedamount", "truncatedamount"),
    ),
    cycle=("账期", "billcycle", "billingcycle", "cycle", "账单月份"),
    account=("账号id", "账号名", "账号", "客户账号", "customerid", "accountname", "payeraccountid", "account"),
    owner=(
        "企业项目id",
        "企业项目",
        "企业项目名称",
        "enterpriseprojectid",
        "enterpriseproject",
        "enterpriseprojectname",
    ),
    product=(
        "产品类型",
        "云服务类型",
        "cloudservicetypename",
        "cloudservicetype",
        "servicetype",
        "servicetypename",
        "产品",
    ),
    kind=("账单类型", "billtype", "交易类型", "订单类型", "tradetype"),
    mode=("计费模式", "chargemode", "billingmode", "chargingmode"),
    instance=("资源id", "resourceid", "实例id", "resinstanceid"),
    name=("资源名称", "resourcename", "实例名称"),
    spec=("规格", "specification", "specifications", "skucode", "productspecdesc", "资源规格", "产品规格描述"),
    item=("资源类型", "resourcetype", "resourcetypename", "使用量类型", "usagetype"),
    start=(
        "使用开始时间",
        "开始时间",
        "effectivetime",
        "usagestarttime",
        "消费时间",
        "消费退订时间",
        "expendituretime",
        "billdate",
        "账单日期",
    ),
    end=("使用结束时间", "结束时间", "expiretime", "usageendtime"),
    paid_at=("交易时间", "tradetime", "transactiontime", "消费时间"),
)


class HuaweiReader(InstanceBillReader):
    """One file; its times carry `GMT+08:00`."""

    provider: ClassVar = "huawei"
    names: ClassVar = NAMES
    kinds: ClassVar = {
        "消费": ChargeCategory.USAGE,  # the fee of a cancellation names both
        "expenditure": ChargeCategory.USAGE,
        "refund": ChargeCategory.CREDIT,
        "退": ChargeCategory.CREDIT,
        "unsubscri": ChargeCategory.CREDIT,
        "adjust": ChargeCategory.ADJUSTMENT,
        "调账": ChargeCategory.ADJUSTMENT,
    }


HUAWEI = Format(
    name="huawei",
    title="Huawei Cloud bill details",
    needs=(_OWN, (*NAMES.payable, *NAMES.gross), (*NAMES.cycle, *NAMES.start, *NAMES.paid_at)),
    lacks=("支付者uin", "pretaxamount", "billedcost"),
    reader=HuaweiReader,
    money=("应付金额", "consumeamount", "amountdue"),
    times=(*NAMES.start, *NAMES.end, *NAMES.paid_at),
)
