"""The demo's configuration files: one for the controller, one for each simulated host. Pure text."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tidegate.demo.gpus import SimulatedHost
from tidegate.demo.pace import Pace

SERVICE, MODEL, CURRENCY = "chat", "demo-30b", "USD"
BASE, BURST = "base", "burst"
BASE_REPLICAS, BURST_MAX = 2, 5
BASE_PRICE, BURST_PRICE = "2.10", "3.40"
"""Per GPU hour: reserved, and by the hour."""
IN_FLIGHT_PER_REPLICA = 10


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where everything of one demo is."""

    folder: Path
    controller_port: int
    agent_ports: dict[str, int]
    gpus_url: str
    receiver_url: str

    @property
    def controller_url(self) -> str:
        """The controller's base address, the status page too."""
        return f"http://127.0.0.1:{self.controller_port}"

    @property
    def controller_state(self) -> Path:
        """The controller's state folder; its operator's token is in it."""
        return self.folder / "controller"

    def token_file(self, host: str) -> Path:
        """The file with a host's token."""
        return self.folder / f"{host}.token"

    @property
    def secret_file(self) -> Path:
        """The file with the webhook's secret."""
        return self.folder / "webhook.secret"


def controller_file(addresses: Addresses, hosts: list[SimulatedHost], pace: Pace) -> str:
    """The controller's file: one service over a base and a burst pool, one alert, one webhook."""
    base = [host.name for host in hosts if host.name.startswith(BASE)]
    burst = [host.name for host in hosts if host.name.startswith(BURST)]
    return "\n".join(
        [
            "[controller]",
            f'listen = "127.0.0.1:{addresses.controller_port}"',
            f"state_dir = {_text(addresses.controller_state)}",
            'mode = "act"',
            f"tick_seconds = {_seconds(pace.tick)}",
            f"view_window_seconds = {_seconds(pace.view_window)}",
            f"stale_after_seconds = {_seconds(pace.stale_after)}",
            f"restart_grace_seconds = {_seconds(pace.view_window)}",
            f"roll_up_seconds = {_seconds(pace.housekeeping)}",
            f"alert_interval_seconds = {_seconds(pace.housekeeping)}",
            f"notify_interval_seconds = {_seconds(pace.housekeeping)}",
            "",
            "[cost]",
            f'currency = "{CURRENCY}"',
            "",
            "[[service]]",
            f'name = "{SERVICE}"',
            f'model = "{MODEL}"',
            'policy = "target"',
            "",
            "[service.target]",
            f"in_flight_per_replica = {IN_FLIGHT_PER_REPLICA}",
            f"cooldown_seconds = {_seconds(pace.cooldown)}",
            f"scale_in_window_seconds = {_seconds(pace.scale_in_window)}",
            "",
            *_pool(BASE, (BASE_REPLICAS, BASE_REPLICAS), BASE_PRICE, base, pace),
            *_pool(BURST, (0, BURST_MAX), BURST_PRICE, burst, pace),
            *(line for host in hosts for line in _host(host)),
            *_alert(addresses, pace),
            "",
        ]
    )


def _pool(name: str, bounds: tuple[int, int], price: str, hosts: list[str], pace: Pace) -> list[str]:
    return [
        "[[pool]]",
        f'name = "{name}"',
        f'service = "{SERVICE}"',
        f'kind = "{name}"',
        f"min = {bounds[0]}",
        f"max = {bounds[1]}",
        "gpus_per_replica = 1",
        f"price_per_gpu_hour = {price}",
        "",
        "[[pool.flavour]]",
        'template = "engine"',
        f"hosts = {json.dumps(hosts)}",
        f"start_deadline_seconds = {_seconds(pace.start_deadline)}",
        f"drain_deadline_seconds = {_seconds(pace.drain_deadline)}",
        "",
    ]


def _host(host: SimulatedHost) -> list[str]:
    return [
        "[[host]]",
        f'name = "{host.name}"',
        f"gpus = {host.gpus}",
        f"first_port = {host.first_port}",
        'address = "127.0.0.1"',
        "",
    ]


def _alert(addresses: Addresses, pace: Pace) -> list[str]:
    return [
        "[[alert]]",
        'kind = "kv_cache_hit_rate_drop"',
        f"window_seconds = {_seconds(pace.alert_window)}",
        "baseline_hours = 6",
        f"hold_seconds = {_seconds(pace.alert_hold)}",
        'channels = ["receiver"]',
        "",
        "[[channel]]",
        'kind = "webhook"',
        'name = "receiver"',
        f'url = "{addresses.receiver_url}"',
        f"secret_file = {_text(addresses.secret_file)}",
        "allow_private = true",
    ]


def agent_file(addresses: Addresses, host: SimulatedHost, pace: Pace) -> str:
    """One host's file: simulated GPUs, and how an engine is started."""
    command = [sys.executable, "-m", "tidegate.demo.engine_server", "--port", "{port}", "--model", MODEL]
    command += ["--load-seconds", str(_seconds(pace.load))]
    return "\n".join(
        [
            "[agent]",
            f'name = "{host.name}"',
            f'listen = "127.0.0.1:{addresses.agent_ports[host.name]}"',
            f'controllers = ["{addresses.controller_url}"]',
            f"token_file = {_text(addresses.token_file(host.name))}",
            f"interval_seconds = {_seconds(pace.agent_interval)}",
            f"window_seconds = {_seconds(pace.view_window)}",
            f"state_dir = {_text(addresses.folder / host.name)}",
            'gpu_source = "http"',
            f'gpu_url = "{addresses.gpus_url}/{host.name}"',
            "",
            "[[template]]",
            'name = "engine"',
            'kind = "process"',
            f"command = {json.dumps(command)}",
            f"stop_timeout_seconds = {_seconds(pace.stop_timeout)}",
            f"drain_grace_seconds = {_seconds(pace.drain_grace)}",
            "",
        ]
    )


def _seconds(span: timedelta) -> int:
    return round(span.total_seconds())


def _text(path: Path) -> str:
    return json.dumps(str(path))
