"""Ports of this machine: which are free, and whether the site answers on one."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing

# What a server listens on when it listens everywhere, and where it is then reached from here.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def is_free(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do it: connections of the last run that are still closing do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def free_port(address: str, preferred: int) -> int:
    if is_free(address, preferred):
        return preferred
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def reachable_at(address: str) -> str:
    return _EVERYWHERE.get(address, address)


def answers(address: str, port: int, path: str, *, host_name: str, timeout: float = 1.0) -> bool:
    """Whether GET on `path` is answered with 200 when the site is called by `host_name`."""
    with closing(http.client.HTTPConnection(reachable_at(address), port, timeout=timeout)) as connection:
        try:
            connection.request("GET", path, headers={"Host": host_name})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
