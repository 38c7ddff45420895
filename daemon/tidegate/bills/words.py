"""The providers' words for services, categories and themselves, as our vocabulary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tidegate.model.charge import ChargeCategory, CommitmentStatus, ServiceClass

_PROVIDERS = (
    ("aws", ("aws", "amazon")),
    ("azure", ("microsoft", "azure")),
    ("gcp", ("google", "gcp")),
    ("oci", ("oracle", "oci")),
    ("alibaba", ("alibaba", "aliyun", "阿里")),
    ("tencent", ("tencent", "腾讯")),
    ("volcengine", ("volc", "火山")),
    ("huawei", ("huawei", "华为")),
    ("coreweave", ("coreweave",)),
    ("runpod", ("runpod",)),
)
CATEGORIES: Mapping[str, ChargeCategory] = {
    **{category.value: category for category in ChargeCategory},
    "": ChargeCategory.USAGE,
    "refund": ChargeCategory.CREDIT,
    "discount": ChargeCategory.CREDIT,
    "fee": ChargeCategory.PURCHASE,
    "rounding": ChargeCategory.ADJUSTMENT,
    "correction": ChargeCategory.ADJUSTMENT,
}
STATUSES: Mapping[str, CommitmentStatus] = {
    "used": CommitmentStatus.USED,
    "unused": CommitmentStatus.UNUSED,
    "used commitment": CommitmentStatus.USED,
    "unused commitment": CommitmentStatus.UNUSED,
}
PRICING: Mapping[str, str] = {
    "on-demand": "standard",
    "ondemand": "standard",
    "commitment-based": "committed",
    "reservation": "committed",
    "savingsplan": "committed",
    "spot": "dynamic",
}
_NETWORK = re.compile(
    r"network|data.?transfer|bandwidth|egress|ingress|nat.?gateway|load.?balanc|\blcu|\bvpc|\bvpn|\bcdn\b|cloudfront"
    r"|elastic.?ip|\beip\b|ipv4|bytes|express.?route|direct.?connect|virtual.?wan|traffic|dns"
    r"|网络|带宽|流量|负载均衡|弹性公网|公网ip|共享带宽|专线|\bslb\b|\bclb\b|\belb\b",
    re.IGNORECASE,
)
_STORAGE = re.compile(
    r"storage|\bebs\b|\bs3\b|\befs\b|\bfsx\b|volume|disk|snapshot|blob|backup|filestore|object.?store|bucket|lustre"
    r"|存储|云盘|硬盘|快照|\boss\b|\bcos\b|\bobs\b|\bevs\b|\bcbs\b|\btos\b|\bnas\b",
    re.IGNORECASE,
)
_COMPUTE = re.compile(
    r"compute|virtual.?machine|instance|boxusage|spotusage|hostusage|\bec2\b|\bgpu|\bgce\b|\bpod\b|server|bare.?metal"
    r"|kubernetes.?node|sagemaker|savings.?plan|h100|h200|b200|a100|mi300"
    r"|计算|云服务器|弹性云|裸金属|容器|\becs\b|\bcvm\b|\bbms\b|显卡",
    re.IGNORECASE,
)
_FOCUS_CLASSES = {
    "compute": ServiceClass.COMPUTE,
    "networking": ServiceClass.NETWORK,
    "storage": ServiceClass.STORAGE,
}


@lru_cache(maxsize=1024)
def provider_of(*names: str) -> str:
    """The provider's short name from the first name that says anything; a stranger's own name, lower case."""
    name = next((each for each in names if each), "").casefold()
    for short, signs in _PROVIDERS:
        if any(sign in name for sign in signs):
            return short
    return re.sub(r"[^\w]+", "-", name).strip("-") or "unknown"


@lru_cache(maxsize=16_384)
def class_of(*words: str) -> ServiceClass:
    """Network, storage or compute by the words of a line, the most telling first; other when none is told."""
    for word in words:
        for pattern, found in (
            (_NETWORK, ServiceClass.NETWORK),
            (_STORAGE, ServiceClass.STORAGE),
            (_COMPUTE, ServiceClass.COMPUTE),
        ):
            if pattern.search(word):
                return found
    return ServiceClass.OTHER


def focus_class(category: str, unit: str, description: str) -> ServiceClass:
    """FOCUS' ServiceCategory; what a compute service charges by the gigabyte is transfer or storage."""
    found = _FOCUS_CLASSES.get(category.casefold(), ServiceClass.OTHER)
    if found is ServiceClass.COMPUTE and unit[:2].casefold() in ("gb", "gi", "by", "tb"):
        return class_of(description) if description else found
    return found
