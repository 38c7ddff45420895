"""Alibaba Cloud instance bills (https://help.aliyun.com/document_detail/89133.html), English and console headers."""

from __future__ import annotations

from typing import ClassVar

from tidegate.bills.format import Format
from tidegate.bills.instance_bill import Headers, InstanceBillReader
from tidegate.model.charge import ChargeCategory

NAMES = Headers(
    payable=("pretaxamount", "应付金额", "税前应付金额", "应付金额含税"),
    gross=("pretaxgrossamount", "目录总价", "原价", "税前原价", "官网目录价"),
    off=(("invoicediscount", "优惠金额"), ("deductedbycoupons", "优惠券抵扣", "优惠券优惠金额")),
    cycle=("billingcycle", "账期", "账单月份", "月份", "账务账期"),
    account=("accountid", "billaccountid", "账号id", "用户uid", "账号", "云账号id", "用户id"),
    owner=("owneraccountid", "billownerid", "ownerid", "资源归属账号id", "资源归属账号", "资源购买账号id"),
    product=("productname", "产品", "产品名称", "productdetail", "产品明细", "productcode", "产品code", "产品代码"),
    kind=("item", "账单类型", "账单明细类型", "itemname"),
    mode=("subscriptiontype", "消费类型", "付费方式", "付费类型"),
    instance=("instanceid", "实例id", "资源id", "资源实例id"),
    name=("nickname", "实例昵称", "资源昵称", "实例名称"),
    spec=("instancespec", "实例规格"),
    item=("billingitem", "计费项", "productdetail", "产品明细"),
    start=("usagestarttime", "servicestarttime", "服务开始时间", "使用开始时间", "消费时间", "账单日期", "billingdate"),
    end=("usageendtime", "serviceendtime", "服务结束时间", "使用结束时间"),
    paid_at=("paymenttime", "支付时间", "订单/账单支付时间", "支付订单时间", "billingdate"),
    service_period=("serviceperiod", "服务时长"),
    service_period_unit=("serviceperiodunit", "服务时长单位"),
)


class AlibabaReader(InstanceBillReader):
    """One file. A prepaid order is spread over its service period; the month-end rounding is its own row."""

    provider: ClassVar = "alibaba"
    names: ClassVar = NAMES
    kinds: ClassVar = {
        "refund": ChargeCategory.CREDIT,
        "退款": ChargeCategory.CREDIT,
        "adjust": ChargeCategory.ADJUSTMENT,
        "调账": ChargeCategory.ADJUSTMENT,
        "rounddown": ChargeCategory.ADJUSTMENT,
        "round down": ChargeCategory.ADJUSTMENT,
        "rdd": ChargeCategory.ADJUSTMENT,
        "抹零": ChargeCategory.ADJUSTMENT,
    }


ALIBABA = Format(
    name="alibaba",
    title="Alibaba Cloud instance bill",
    needs=(
        (*NAMES.payable, *NAMES.gross),
        ("pretaxamount", "pretaxgrossamount", "实例id", "资源id", "资源实例id", "产品明细", "产品"),
        (*NAMES.cycle, *NAMES.start),
    ),
    lacks=(
        "支付者uin",
        "使用者uin",
        "付款方id",
        "付款方账号id",
        "支付方id",
        "支付账号id",
        "实例编号",
        "企业项目",
        "企业项目id",
        "企业项目名称",
        "云服务类型",
        "产品类型编码",
        "官网价",
        "官网价总金额",
        "billperiod",
        "instanceno",
    ),
    reader=AlibabaReader,
    money=("pretaxamount", "应付金额"),
    times=(*NAMES.start, *NAMES.end, *NAMES.paid_at),
)
