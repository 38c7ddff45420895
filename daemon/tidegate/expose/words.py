"""The status page's words in English and Chinese: one table, so that a sentence without its twin cannot be written."""

from __future__ import annotations

from collections.abc import Mapping

LANGUAGES = ("en", "zh")

_WORDS: Mapping[str, tuple[str, str]] = {
    "title": ("Fleet", "集群"),
    "ready": ("ready", "正常"),
    "not_ready": ("not ready", "未就绪"),
    "stale_page": ("What follows is from {age} ago and no longer current.", "以下内容为 {age} 前的状态，已非当前。"),
    "unrecorded": (
        "Figures and hosts are from {age} ago, targets and replicas from before. Nothing is decided or changed.",
        "指标与主机为 {age} 前的状态；目标与副本仍为之前的状态。期间不做任何决策或更改。",
    ),
    "no_tick": ("No tick has gone through yet: nothing is known of the fleet.", "尚无一次成功的轮询：对集群一无所知。"),
    "stands_by": (
        "This controller stands by: {name} leads the fleet and shows it. This one takes over when the leader is gone.",
        "此控制器处于待命状态：{name} 正在主导集群，请查看它的页面。主导者失联后由此控制器接管。",
    ),
    "led_by": ("led by {name}", "由 {name} 主导"),
    "reload_failed": (
        "The last reload was refused (see the log); the earlier configuration stays in force.",
        "最近一次重新加载配置被拒绝（见日志），仍使用之前的配置。",
    ),
    "colon": (": ", "："),
    "comma": (", ", "、"),
    "mode": ("mode", "模式"),
    "mode.advise": ("advise: decides and records, does not act", "建议：只决策和记录，不执行"),
    "mode.act": ("act", "执行"),
    "mode.paused": ("paused: looks and records, does nothing", "暂停：只观察和记录，不做任何事"),
    "last_tick": ("last tick", "最近轮询"),
    "ago": ("{span} ago", "{span}前"),
    "in_future": ("in {span}", "{span}后"),
    "never": ("never", "从未"),
    "now": ("now", "现在"),
    "seconds": ("{n} s", "{n} 秒"),
    "minutes": ("{n} min", "{n} 分钟"),
    "hours": ("{n} h", "{n} 小时"),
    "days": ("{n} d", "{n} 天"),
    "pools": ("Pools", "资源池"),
    "no_pools": ("No pool is configured.", "未配置资源池。"),
    "kind.base": ("base", "基础"),
    "kind.burst": ("burst", "突发"),
    "role.mixed": ("mixed", "混合"),
    "role.prefill": ("prefill", "预填充"),
    "role.decode": ("decode", "解码"),
    "current": ("current", "当前"),
    "target": ("target", "目标"),
    "wanted": ("wanted", "期望"),
    "bounds": ("min {min}, max {max}", "最小 {min}，最大 {max}"),
    "why": ("why", "原因"),
    "bound_by": ("bound by", "受限于"),
    "may_change": ("may change", "最早可变"),
    "explain": ("why this size", "为何是这个规模"),
    "sized_by": ("sized by", "规模策略"),
    "policy.slo": ("slo: as few replicas as keep the promise", "slo：满足承诺的最少副本"),
    "policy.target": ("target: requests per replica", "target：每副本请求数"),
    "policy.threshold": ("threshold: GPU utilization", "threshold：GPU 利用率"),
    "policy.schedule": ("schedule: by the clock", "schedule：按时间表"),
    "policy.external": ("external: as another program wishes", "external：由外部程序指定"),
    "command": ("command", "人工指令"),
    "command.pause_in": ("paused from shrinking", "暂停缩容"),
    "command.pause_out": ("paused from growing", "暂停扩容"),
    "command.bounds": ("bounds", "边界"),
    "command.mode": ("mode", "模式"),
    "command_by": ("{what}, by {by}; ends {end}", "{what}，由 {by} 下达；{end}结束"),
    "open_end": ("when it is taken back", "撤销时"),
    "start_time": ("start time", "启动时间"),
    "drain_time": ("drain time", "排空时间"),
    "seen_times": ("{span} ({n} seen)", "{span}（共 {n} 次）"),
    "not_seen": ("no start seen yet", "尚未见过启动"),
    "capacity": ("capacity", "容量"),
    "capacity_of_one": ("{n} requests/s and replica", "每副本每秒 {n} 个请求"),
    "price_of": ("price of a GPU hour", "每 GPU 小时价格"),
    "price_unknown": ("{flavour}: not known", "{flavour}：未知"),
    "price_configured": ("{flavour}: {amount}, as configured", "{flavour}：{amount}，按配置"),
    "price_billed": (
        "{flavour}: {amount}, by bills to {last} (days: {n})",
        "{flavour}：{amount}，据至 {last} 的账单（{n} 天）",
    ),
    "price_was": (" (configured: {amount})", "（配置价 {amount}）"),
    "price_bounded": ("; bills say {amount}: kept in 0.2..5 x configured", "；账单价 {amount}，限配置价 0.2..5 倍"),
    "back_off": ("left alone", "暂不使用"),
    "back_off_of": (
        "{flavour} ({kind}, {n} in a row), tried again {end}: {why}",
        "{flavour}（{kind}，连续 {n} 次），{end}再试：{why}",
    ),
    "pending": ("under way", "进行中"),
    "missing": ("missing: {why}", "缺失：{why}"),
    "estimated": ("estimated", "估算"),
    "cost_state.estimated": ("estimated", "估算"),
    "cost_state.partial": ("partial", "部分"),
    "cost_state.final": ("final", "最终"),
    "figure.queue_depth": ("Queue depth", "排队请求"),
    "figure.running": ("Running requests", "运行中请求"),
    "figure.gpu_utilization": ("GPU utilization", "GPU 利用率"),
    "figure.kv_cache_usage": ("KV cache usage", "KV 缓存占用"),
    "figure.kv_cache_hit_rate": ("KV cache hit rate", "KV 缓存命中率"),
    "figure.tokens_per_gpu_per_second": ("Tokens/GPU/s", "每 GPU 每秒 token"),
    "figure.prompt_tokens_per_second": ("Prompt tokens/s", "输入 token/秒"),
    "figure.generation_tokens_per_second": ("Generated tokens/s", "生成 token/秒"),
    "figure.ttft_p95_seconds": ("TTFT p95", "TTFT p95"),
    "figure.tpot_p95_seconds": ("TPOT p95", "TPOT p95"),
    "figure.e2e_p99_seconds": ("Latency p99", "端到端延迟 p99"),
    "figure.cost_per_million_tokens": ("Cost per million tokens", "每百万 token 成本"),
    "state.requested": ("requested", "已请求"),
    "state.booting": ("booting", "启动中"),
    "state.loading": ("loading", "加载中"),
    "state.ready": ("ready", "就绪"),
    "state.cordoned": ("cordoned", "已隔离"),
    "state.draining": ("draining", "排空中"),
    "state.stopped": ("stopped", "已停止"),
    "state.failed": ("failed", "失败"),
    "cost": ("Cost", "成本"),
    "no_cost": ("Not worked out yet.", "尚未计算。"),
    "amount": ("amount", "金额"),
    "gpu_hours": ("GPU hours", "GPU 小时"),
    "tokens": ("tokens", "token"),
    "per_million": ("per million", "每百万"),
    "per_million_generated": ("generated only", "仅计生成"),
    "price": ("per GPU hour", "每 GPU 小时"),
    "of_which_burst": ("of which burst", "其中突发"),
    "idle_cost": ("idle: no tokens", "空闲：无 token"),
    "cost_span": ("{since} to {until} UTC.", "{since} 至 {until} UTC。"),
    "cost_estimated": (
        "Estimated: prices as configured, no invoice; GPUs count from request to stop, idle or not.",
        "估算：按配置的价格而非账单；GPU 从请求到停止计时，空闲也算。",
    ),
    "billed": ("By the bill", "按账单"),
    "billed_span": (
        "{since} to {until} UTC: invoices, spread over the time in which GPUs were held. `tidegate cost` says more.",
        "{since} 至 {until} UTC：按真实账单分摊到 GPU 占用时间。详见 `tidegate cost`。",
    ),
    "line.busy": ("busy GPUs", "工作中的 GPU"),
    "line.resident_idle": ("held and idle", "占用但空闲"),
    "line.empty": ("empty GPUs", "空闲 GPU"),
    "line.unobserved": ("not observed", "未观测到"),
    "line.shared": ("shared", "共享"),
    "line.commitment": ("commitments unused", "未用承诺"),
    "line.unattributed_host": ("unknown hosts", "未知主机"),
    "line.unattributed_charge": ("unknown charges", "未归属费用"),
    "line.tax": ("tax", "税费"),
    "line.credit": ("credits", "抵扣"),
    "line.rounding": ("rounding in the bill", "账单舍入"),
    "line.over_allocation": ("held twice", "重复占用"),
    "whole_bill": ("The whole bill", "账单合计"),
    "spent": ("Spent in the last hour", "最近一小时支出"),
    "last_hour": ("{state}, last hour", "{state}，最近一小时"),
    "burst_share": ("{share} of it burst; {hours} GPU hours", "其中突发占 {share}；{hours} GPU 小时"),
    "tokens_unknown": ("tokens not counted", "没有 token 计数"),
    "cost_not_yet": ("not worked out yet", "尚未计算"),
    "amount_unknown": ("price or currency missing", "缺少价格或币种不一"),
    "ready_of": ("{ready} ready of {target}", "{ready} 就绪 / {target}"),
    "gpus_held": ("{n} GPUs serve", "{n} 块 GPU 在服务"),
    "running": ("{n} running", "{n} 个运行中"),
    "fleet_speed": ("{n} tokens/s in all", "合计每秒 {n} token"),
    "not_known": ("not known: no engine says", "未知：没有引擎上报"),
    "firing": ("{n} firing", "{n} 个触发"),
    "none_fires": ("no alert fires", "没有告警触发"),
    "see_below": ("see below", "见下文"),
    "figures_span": (
        "Rates, ratios and latencies are those of the last {span}; what is missing is never shown as zero.",
        "速率、比率和延迟均为最近 {span}；缺失的数据绝不显示为 0。",
    ),
    "how_to_freeze": (
        'Freeze: mode = "paused" in [controller], then reload the controller.',
        '冻结：在 [controller] 中设 mode = "paused"，然后 reload 控制器。',
    ),
    "how_to_thaw": (
        'Frozen. To go on: mode = "act" (or "advise") in [controller], then reload the controller.',
        '已冻结。恢复：在 [controller] 中设 mode = "act"（或 "advise"），然后 reload 控制器。',
    ),
    "refreshes": ("every {n} s", "每 {n} 秒刷新"),
    "hold": ("hold still", "停止刷新"),
    "held": ("held still", "已停止刷新"),
    "go_on": ("go on", "恢复刷新"),
    "all_pools": ("all pools", "全部"),
    "burst_pools": ("burst pools", "突发池"),
    "lower_bound": ("lower bound", "下限"),
    "alerts": ("Alerts", "告警"),
    "no_alerts": ("None.", "无。"),
    "phase.inactive": ("inactive", "未激活"),
    "phase.pending": ("pending", "待定"),
    "phase.firing": ("firing", "触发"),
    "phase.resolved": ("resolved", "已恢复"),
    "replicas": ("Replicas", "副本"),
    "no_replicas": ("None.", "无。"),
    "replica": ("replica", "副本"),
    "pool": ("pool", "资源池"),
    "host": ("host", "主机"),
    "state": ("state", "状态"),
    "since": ("since", "自"),
    "place": ("place", "位置"),
    "slot": ("slot {slot}, GPU {gpus}, port {port}", "槽位 {slot}，GPU {gpus}，端口 {port}"),
    "own": ("the operator's own, port {port}", "自行管理，端口 {port}"),
    "want": ("asked to", "要求"),
    "want.run": ("run", "运行"),
    "want.cordon": ("cordon", "隔离"),
    "want.drain": ("drain", "排空"),
    "want.stop": ("stop", "停止"),
    "hosts": ("Hosts", "主机"),
    "no_hosts": ("None is enrolled: `tidegate host enroll NAME` adds one.", "尚未登记：`tidegate host enroll NAME`。"),
    "last_seen": ("last seen", "最近上报"),
    "host.up": ("up", "在线"),
    "host.silent": ("silent", "失联"),
    "host.revoked": ("revoked", "已吊销"),
    "gpus": ("GPUs", "GPU"),
    "gpus_up": ("{up} of {all} up", "{all} 中 {up} 正常"),
    "no_gpus": ("none read: {why}", "无法读取：{why}"),
    "agent": ("agent", "代理"),
    "spooled": ("{n} reports wait on its disk", "磁盘上有 {n} 份报告待送"),
    "dropped": ("{n} reports were given up", "已放弃 {n} 份报告"),
    "left_out": (
        "{n} series are not kept: it shows too many new ones in a day; find the label that changes with every scrape",
        "有 {n} 个时间序列未保存：该主机一天内出现的新序列过多，请找出每次抓取都变化的标签",
    ),
    "clock_off": ("its clock is off by {n} s", "时钟偏差 {n} 秒"),
    "problems": ("problems", "问题"),
    "decisions": ("Last decisions that did something", "最近执行过的决策"),
    "no_decisions": ("None yet.", "暂无。"),
    "signals": ("signals", "信号"),
    "idle": ("idle", "空闲"),
    "notes": ("Seen and left out", "观察到但未计入"),
    "jobs": ("Jobs", "任务"),
    "runs": ("runs", "运行"),
    "failures": ("failures", "失败"),
    "last_success": ("last success", "最近成功"),
    "error": ("last error", "最近错误"),
    "none": ("none", "无"),
    "unknown": ("unknown", "未知"),
}

_PHRASES: Mapping[str, tuple[str, str]] = {
    "unreachable": ("unreachable", "无法连接"),
    "disabled": ("metrics switched off", "指标已关闭"),
    "starting": ("starting", "启动中"),
    "stale": ("stale", "数据陈旧"),
    "not_finite": ("not a finite number", "非有限数值"),
    "not_supported": ("the engine does not export it", "引擎不提供"),
    "reset": ("counter reset", "计数器重置"),
    "no_traffic": ("no traffic", "无流量"),
    "one_scrape": ("needs a second reading", "需要第二次采样"),
    "malformed": ("unreadable answer", "响应无法解析"),
    "unauthorized": ("token needed", "需要令牌"),
    "not_reported": ("not reported", "未上报"),
    "no replica serves": ("no replica serves", "没有副本在服务"),
    "min": ("the pool's minimum", "资源池下限"),
    "max": ("the pool's maximum", "资源池上限"),
    "cooldown": ("cooldown", "冷却时间"),
    "scale_in_window": ("scale-in window", "缩容窗口"),
    "missing_data": ("missing data", "数据缺失"),
    "restart_grace": ("restart grace", "重启宽限"),
    "no_capacity": ("no free place", "没有空闲位置"),
    "unmanaged": ("the operator's own engines", "自行管理的引擎"),
    "base_first": ("base first", "基础池优先"),
    "start_failed": ("a start failed", "启动失败"),
    "mode": ("the mode", "模式"),
    "budget": ("the budget", "预算"),
    "step": ("the step limit", "步长限制"),
    "flap": ("the flap budget", "抖动预算"),
    "schedule": ("a schedule", "时间表"),
    "manual": ("an operator's bounds", "人工边界"),
    "paused": ("paused by an operator", "人工暂停"),
    "proof": ("one less would not do", "少一个不够"),
    "slo_infeasible": ("more replicas would not mend it", "增加副本无济于事"),
    "stuck_queue": ("a stuck queue", "队列卡住"),
    "ratio": ("the prefill/decode ratio", "预填充/解码比例"),
    "hold": ("a minimum hold or a paid hour", "最短持有或已付时段"),
    "flavour": ("another flavour is taken", "改用其他规格"),
    "quota": ("quota", "配额"),
    "sold_out": ("sold out", "售罄"),
    "authentication": ("authentication", "认证失败"),
    "image": ("image or model could not be loaded", "镜像或模型无法加载"),
    "health": ("not healthy", "不健康"),
    "time_out": ("timed out", "超时"),
}
"""Reasons and limits, by the word that the program uses."""


class Words:
    """One language's words."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._column = LANGUAGES.index(language)

    def __call__(self, key: str, **values: object) -> str:
        """The words for a key, with values filled in; raises KeyError for a key that the table lacks."""
        return _WORDS[key][self._column].format(**values)

    def phrase(self, word: str) -> str:
        """A reason or a limit in words; one that the table lacks stands as it is."""
        found = _PHRASES.get(word)
        return found[self._column] if found else word.replace("_", " ")


def choose_language(asked: str | None, accept_language: str) -> str:
    """The language asked for by name, else the first that the browser accepts and we have, else English."""
    if asked is not None and (found := _known(asked)):
        return found
    offers = [offer.partition(";") for offer in accept_language.split(",")]
    ranked = sorted(offers, key=lambda offer: _weight(offer[2]), reverse=True)
    return next((found for name, _, _ in ranked if (found := _known(name))), "en")


def _known(name: str) -> str:
    short = name.strip().lower()[:2]
    return short if short in LANGUAGES else ""


def _weight(text: str) -> float:
    try:
        return float(text.strip().removeprefix("q="))
    except ValueError:
        return 1.0
