"""Sentences that the program writes in English, in Chinese: reasons of decisions, gaps, notes on cost, readiness. Pure.

The English sentence is the record: it is stored, logged and answered by the API. What this table does not know stays
English, so a new sentence is readable at once and translated later; a test finds it.
"""

from __future__ import annotations

import re

from tidegate.expose.words import Words

_NESTED = frozenset({"because", "move", "holds", "replicas", "need", "why", "gaps"})
"""Groups that are clauses themselves."""
_WORDS = Words("zh")

_CLAUSES = [
    # a decision: what was seen; what follows; what holds it
    (r"(?P<because>.+); (?P<move>\S+ (?:stays|grows|shrinks) [^(;]+)\.", "{because}；{move}。"),
    (
        r"(?P<because>.+); (?P<move>\S+ (?:stays|grows|shrinks) [^(;]+) \((?P<holds>.+)\)\.",
        "{because}；{move}（{holds}）。",
    ),
    (r"(?P<pool>\S+) stays at (?P<n>\d+)", "{pool} 保持 {n}"),
    (r"(?P<pool>\S+) grows from (?P<n>\d+) to (?P<m>\d+)", "{pool} 从 {n} 扩到 {m}"),
    (r"(?P<pool>\S+) shrinks from (?P<n>\d+) to (?P<m>\d+)", "{pool} 从 {n} 缩到 {m}"),
    # what was seen
    (
        (
            r"(?P<need>.+ needed); the last (?P<n>\d+) (?P<why>(?:work|weekend )?days|weeks) rose to (?P<x>\S+) "
            r"at this hour"
        ),
        "{need}；最近 {n} {why}在此时升至 {x}",
    ),
    (r"days", "天都"),
    (r"workdays", "个工作日都"),
    (r"weekend days", "个周末日都"),
    (r"weeks", "周的今天都"),
    (r"(?P<s>\S+) has no replica and so no load to read", "{s} 没有副本，因此没有负载可读"),
    (
        r"(?P<s>\S+) has no ready replica to read a load from and (?P<n>\d+) starting",
        "{s} 没有就绪副本可读取负载，{n} 个正在启动",
    ),
    (
        r"(?P<s>\S+) has (?P<x>\S+) requests in flight on (?P<replicas>.+) and (?P<need>needs .+|keeps its last one)",
        "{s} 有 {x} 个在途请求，{replicas}，{need}",
    ),
    (
        r"mean GPU utilisation of (?P<s>\S+) is (?P<x>\S+) on (?P<replicas>.+?), (?P<why>\w+ \d+%.*): (?P<n>.+) needed",
        "{s} 的平均 GPU 利用率为 {x}，{replicas}，{why}：需要 {n} 个",
    ),
    (
        (
            r"(?P<s>.+?) carries (?P<x>\S+) replicas' worth of load on (?P<replicas>.+), up to (?P<y>\S+) expected in "
            r"(?P<h>\S+) s, and one carries (?P<z>\S+) within the objective: (?P<n>\d+) needed"
        ),
        "{s} 的负载相当于 {x} 个副本，{replicas}，预计 {h} 秒内最高 {y}，目标内一个副本可承载 {z}：需要 {n} 个",
    ),
    (
        r"(?P<s>.+?) has no ready replica and (?P<x>\S+) requests waiting at its gateway: (?P<n>\d+) needed",
        "{s} 没有就绪副本，网关处有 {x} 个请求在等待：需要 {n} 个",
    ),
    (r"(?P<s>.+?) is scheduled for (?P<n>\d+)", "{s} 按时间表应有 {n} 个"),
    (
        r"(?P<s>.+?) is to have (?P<n>\d+) by an external program, (?P<x>\S+) s ago",
        "{s} 由外部程序指定为 {n} 个（{x} 秒前）",
    ),
    (r"(?P<s>.+?) hears nothing from its external program", "{s} 没有收到外部程序的指定"),
    (
        r"(?P<s>.+?) hears nothing from its external program and falls back to (?P<n>\d+)",
        "{s} 没有收到外部程序的指定，退回到 {n} 个",
    ),
    (r"(?P<n>\d+) ready", "{n} 个就绪"),
    (r"(?P<n>\d+) ready \((?P<k>\d+) silent: (?P<gaps>.+)\)", "{n} 个就绪（{k} 个无数据：{gaps}）"),
    (r"(?P<n>\d+) ready replicas?", "{n} 个就绪副本"),
    (
        r"(?P<n>\d+) ready replicas? \((?P<k>\d+) silent: (?P<gaps>.+); taken as at target\)",
        "{n} 个就绪副本（{k} 个无数据：{gaps}；按目标负载计）",
    ),
    (r"needs (?P<n>\d+) at (?P<x>\S+) each", "按每副本 {x} 个需要 {n} 个"),
    (r"keeps its last one", "保留最后一个"),
    (r"between (?P<x>\S+) and (?P<y>\S+)", "介于 {x} 与 {y} 之间"),
    (r"above (?P<x>\S+)", "高于 {x}"),
    (r"above (?P<x>\S+), and (?P<y>\S+) once all (?P<n>\d+) are ready", "高于 {x}，{n} 个全部就绪后为 {y}"),
    (r"below (?P<x>\S+)", "低于 {x}"),
    (r"below (?P<x>\S+), and the last replica stays", "低于 {x}，保留最后一个副本"),
    (
        r"below (?P<x>\S+), but (?P<y>\S+) on one replica less would be above (?P<z>\S+)",
        "低于 {x}，但少一个副本时为 {y}，将高于 {z}",
    ),
    # who leads
    (r"standing by: (?P<s>\S+) leads", "待命：{s} 主导"),
    (r"starting: it is not known yet who leads", "正在启动：尚不知由谁主导"),
    (r"starting: it is not known yet who leads: (?P<x>.+)", "正在启动：尚不知由谁主导：{x}"),
    (r"the database has not answered for (?P<n>\d+) s", "数据库已 {n} 秒无响应"),
    (r"the database has not answered for (?P<n>\d+) s: (?P<x>.+)", "数据库已 {n} 秒无响应：{x}"),
    # what holds it
    (r"(?P<why>.+), until (?P<t>\S+) UTC", "{why}，至 {t} UTC"),
    (r"min allows no less", "已到下限"),
    (r"max allows no more", "已到上限"),
    (r"the cooldown of the last change", "上次变更后的冷却时间"),
    (r"more was wanted within the scale-in window", "缩容窗口内曾需要更多"),
    (r"missing data never scales in", "数据缺失时不缩容"),
    (r"the controller has not observed for long enough to scale in", "控制器观察时间不足，暂不缩容"),
    (r"no free place for another replica", "没有空闲位置放置新副本"),
    (r"the rest is not managed here and is never stopped", "其余副本不归此处管理，从不停止"),
    (r"the base pool fills first", "先填满基础池"),
    (r"the last start failed", "上次启动失败"),
    (r"the last start failed: (?P<said>.+)", "上次启动失败：{said}"),
    (r"the mode lets nothing be done", "当前模式不执行任何操作"),
    (r"the budget allows no more", "预算不允许更多"),
    (r"no more at once", "单次变更已到上限"),
    (r"the size has gone up and down often enough", "规模来回变动已够多"),
    (r"the schedule's bounds", "时间表的边界"),
    (r"bounds set by hand", "人工设定的边界"),
    (r"paused by hand", "人工暂停"),
    (r"one replica less would not meet the objective", "少一个副本将达不到目标"),
    (
        r"single requests miss the objective by themselves, more replicas would not mend it",
        "单个请求本身就达不到目标，增加副本无济于事",
    ),
    (
        r"requests wait although replicas have room, more replicas would not mend it",
        "副本有余量而请求仍在等待，增加副本无济于事",
    ),
    (r"the ratio of prefill to decode", "预填充与解码的比例"),
    (r"replicas that are paid or held for longer", "已付费或仍在最短持有期内的副本"),
    (r"a preferred flavour is passed over", "首选规格暂不使用"),
    # why a figure is missing or incomplete
    (r"no replica serves", "没有副本在服务"),
    (r"(?P<k>\d+) of (?P<n>\d+) replicas missing \((?P<gaps>.+)\)", "{n} 个副本中 {k} 个缺失（{gaps}）"),
    (r"(?P<k>\d+) of (?P<n>\d+) replicas left out \(other buckets\)", "{n} 个副本中 {k} 个未计入（直方图分桶不同）"),
    # notes on cost
    (r"(?P<n>\d+) buckets without a usable token count are left out", "{n} 个时段没有可用的 token 计数，未计入"),
    (
        r"(?P<n>\S+) GPU hours have no price: set price_per_gpu_hour of the pool",
        "{n} GPU 小时没有价格：请设置资源池的 price_per_gpu_hour",
    ),
    (r"(?P<n>.+) are never added", "{n} 不能相加"),
    (
        r"(?P<n>\d+) five-minute buckets with GPUs held have no token data \(not reported, or still starting\)",
        "{n} 个五分钟时段占用了 GPU 但没有 token 数据（未上报或仍在启动）",
    ),
    (
        r"(?P<n>\d+) rows of bill (?P<v>\d+) are quarantined: the day cannot be final",
        "账单 {v} 有 {n} 行被隔离：当天不能定稿",
    ),
    (
        r"bill (?P<v>\d+) has no usable effective cost: its billed cost stands in",
        "账单 {v} 没有可用的摊销成本：以账单金额代替",
    ),
    (
        r"(?P<n>\d+) hosts held GPUs and stand in no bill: they cost 0 in it",
        "{n} 台主机占用过 GPU 却不在任何账单中：其成本计为 0",
    ),
    (
        r"(?P<h>[\d.]+) GPU hours of (?P<s>\S+) are in no bill and have no price",
        "{s} 的 {h} GPU 小时不在任何账单中且没有价格",
    ),
    (r"no token was served: the whole cost is idle", "没有产生 token：全部为空闲成本"),
    # notes on the Prometheus that is read
    (
        r"no samples from Prometheus: (?P<x>.+); figures grow stale, and nothing is scaled in by them",
        "Prometheus 没有给出样本：{x}；数据将变陈旧，不会据此缩容",
    ),
    (r"Prometheus cannot scrape host (?P<s>\S+): its target is down", "Prometheus 抓取不到主机 {s}：目标已下线"),
    (
        r"Prometheus has no samples of any agent: does it scrape them, is it the right tenant, do the matchers fit\?",
        "Prometheus 没有任何 agent 的样本：它是否抓取了它们、租户是否正确、matchers 是否匹配？",
    ),
    (
        r"Prometheus' clock is about (?P<n>\d+) s (?P<way>ahead of|behind) the agents', or its samples come late",
        "Prometheus 的时钟与各 agent 相差约 {n} 秒，或其样本来得太晚",
    ),
    (
        r"target (?P<s>\S+) exports Tidegate's metrics and does not say which host it is; (?:upgrade its agent, or .+)",
        "目标 {s} 导出 Tidegate 指标却未说明是哪台主机；请升级其 agent，或在 [prometheus] 中设置 host_label",
    ),
    (
        r"(?P<n>\d+) samples of the last answer became no figure: (?P<x>.+)",
        "最近一次应答中有 {n} 个样本未能成为指标：{x}",
    ),
    # readiness
    (r"starting: no tick has gone through yet", "启动中：尚无一次成功的轮询"),
    (r"no tick has gone through yet(?P<rest>(?:: .*)?)", "尚无一次成功的轮询{rest}"),
    (r"the last tick went through (?P<n>\d+) s ago(?P<rest>(?:: .*)?)", "上次成功的轮询在 {n} 秒前{rest}"),
]
_PATTERNS = [(re.compile(pattern, re.DOTALL), template) for pattern, template in _CLAUSES]


def chinese(sentence: str) -> str:
    """The sentence in Chinese, clause by clause; a clause that is not known stays as it is."""
    for pattern, template in _PATTERNS:
        if found := pattern.fullmatch(sentence):
            return template.format(**{name: _inner(name, text) for name, text in found.groupdict().items()})
    return sentence


def _inner(name: str, text: str) -> str:
    if name not in _NESTED:
        return text
    if name == "holds":
        return "；".join(chinese(hold) for hold in text.split("; "))
    if name == "gaps":
        return "、".join(_WORDS.phrase(gap) for gap in text.split(", "))
    return chinese(text)
