"""What a host name says about where it is."""

from __future__ import annotations

import ipaddress


def is_private(host: str) -> bool:
    """Whether a host, without port, is this machine or has a private address; names are not resolved."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return address.is_loopback or address.is_private
