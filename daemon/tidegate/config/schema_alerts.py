"""What a user may write about alerts and whom they reach. Defaults are those of model/policy.py."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from tidegate.config.addresses import Url
from tidegate.config.fields import Between, Duration, FilePath, OneOf
from tidegate.config.schema_base import PlainName, Table
from tidegate.config.schema_roles import Flag, Variable
from tidegate.model.policy import Channel, HitRateRule

_RULE = HitRateRule()
_CHANNEL = Channel(name="channel", url="")


class AlertKind(StrEnum):
    """What an alert watches."""

    KV_CACHE_HIT_RATE_DROP = "kv_cache_hit_rate_drop"


class ChannelKind(StrEnum):
    """How people are told."""

    WEBHOOK = "webhook"


class AlertTable(Table):
    """`[[alert]]`: the KV hit rate of a pool against its own trailing baseline."""

    kind: Annotated[AlertKind, OneOf(AlertKind)]
    name: PlainName = _RULE.name
    window_seconds: Annotated[timedelta, Duration("seconds", 300, 86400)] = _RULE.window
    baseline_hours: Annotated[timedelta, Duration("hours", 1, 720)] = _RULE.baseline
    drop: Annotated[float, Between(0.01, 0.99)] = _RULE.drop
    recover: Annotated[float, Between(0, 0.99)] = _RULE.recover
    minimum_queries: Annotated[float, Between(0, 1e12)] = _RULE.minimum_queries
    hold_seconds: Annotated[timedelta, Duration("seconds", 0, 86400)] = _RULE.hold
    channels: tuple[PlainName, ...] = ()


class ChannelTable(Table):
    """`[[channel]]`: a webhook, signed when it has a secret."""

    kind: Annotated[ChannelKind, OneOf(ChannelKind, later=("alertmanager", "slack", "feishu", "dingtalk", "wecom"))]
    name: PlainName
    url: Annotated[str, Url(secret=True)] | None = None
    url_file: Annotated[Path, FilePath()] | None = None
    secret_file: Annotated[Path, FilePath()] | None = None
    secret_env: Variable | None = None
    allow_private: Flag = _CHANNEL.allow_private
