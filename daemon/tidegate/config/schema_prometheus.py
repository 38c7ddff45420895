"""What a user may write about a Prometheus that is read. Defaults are those of model/scrape.py."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tidegate.config.fields import Duration, FilePath, Pattern, Text, Whole
from tidegate.config.schema_base import Table
from tidegate.config.schema_roles import Address, HeaderName, SecretFile
from tidegate.model.scrape import PrometheusPlace

_PLACE = PrometheusPlace()
LabelName = Annotated[str, Pattern(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a label", 128)]


class PrometheusTable(Table):
    """`[prometheus]`: the Prometheus that scrapes the agents, read with `[controller] source = "prometheus"`."""

    url: Address | None = None
    token_file: SecretFile | None = None
    username: Annotated[str, Pattern(r"[^:\x00-\x1f\x7f]+", "a name without a colon", 255)] | None = None
    password_file: SecretFile | None = None
    headers: dict[HeaderName, Text] = Field(default_factory=dict)
    header_files: dict[HeaderName, SecretFile] = Field(default_factory=dict)
    ca_file: Annotated[Path, FilePath()] | None = None
    timeout_seconds: Annotated[timedelta, Duration("seconds", 0.5, 60)] = _PLACE.timeout
    most_mib: Annotated[int, Whole(1, 4096)] = _PLACE.most_bytes // (1024 * 1024)
    matchers: dict[LabelName, Text] = Field(default_factory=dict)
    host_label: LabelName | None = None
