"""The texts of /proc (proc(5)): listening sockets, one process, its control group, its command line. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from tidegate.model.holders import HostProcess

_LISTEN = "0A"
_MOST_LINES = 20_000
_MOST_WORDS = 512
_DEAD = frozenset("ZX")


@dataclass(frozen=True, slots=True)
class Listener:
    """A TCP socket that waits for connections."""

    address: str
    """As it is bound: 0.0.0.0 or :: for every one."""
    port: int
    inode: int

    @property
    def authority(self) -> str:
        """Where this host reaches it: host:port, loopback where it is bound to every address."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.address, self.address)  # noqa: S104 - compared with
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def listeners(lines: Iterable[str]) -> list[Listener]:
    """The listening sockets of /proc/net/tcp or /proc/net/tcp6; lines that are none are passed over."""
    found = []
    for number, line in enumerate(lines):
        if number > _MOST_LINES:
            break
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            continue
        address, _, port = fields[1].partition(":")
        try:
            found.append(Listener(_address(address), int(port, 16), int(fields[9])))
        except ValueError:
            continue
    return found


def _address(text: str) -> str:
    raw = bytes.fromhex(text)
    if sys.byteorder == "little":  # each 32 bits as the host keeps them
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    if len(raw) == 4:
        return str(IPv4Address(raw))
    address = IPv6Address(raw)
    return str(address.ipv4_mapped or address)


def process(pid: int, stat: str, cgroup: str = "") -> HostProcess | None:
    """A process by the texts of /proc/PID/stat and /proc/PID/cgroup; None when it is dead or the text is none."""
    # The name in parentheses may hold anything, a parenthesis too: count from the last one.
    fields = stat.rpartition(")")[2].split()
    try:
        if fields[0] in _DEAD:
            return None
        return HostProcess(pid, int(fields[1]), int(fields[3]), int(fields[19]), control_group(cgroup))
    except (IndexError, ValueError):
        return None


def control_group(text: str) -> str:
    """The path of the unified hierarchy (`0::/...`), else systemd's own of the first version; empty without either."""
    paths = [line.split(":", 2) for line in text.splitlines()]
    for kind in ("", "name=systemd"):
        for parts in paths:
            if len(parts) == 3 and parts[1] == kind:
                return parts[2]
    return ""


def command(raw: bytes) -> tuple[str, ...]:
    """The words of /proc/PID/cmdline."""
    return tuple(word.decode(errors="replace") for word in raw.rstrip(b"\0").split(b"\0")[:_MOST_WORDS])
