"""Whether an address is this machine itself: where a token may travel in the clear."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """True for "localhost" and for literal loopback addresses; no name is looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
