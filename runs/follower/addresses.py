"""Keeps the follower off private networks.

A tenant's admin names the origin, so without this the worker could be sent to look around inside its own network.
The check is made on the address that is then connected to: a name that resolves differently a moment later (DNS
rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable

import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class PrivateAddress(Exception):
    """The host's name leads to a private, loopback or otherwise special address only."""


def is_public(text: str) -> bool:
    address = ipaddress.ip_address(text)
    inner = _embedded(address)
    return address.is_global and not address.is_multicast and (inner is None or is_public(str(inner)))


def _embedded(address: Address) -> Address | None:
    """The IPv4 address that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


async def resolve(name: str, port: int) -> list[str]:
    """Addresses of a name, without repetition, in the system's order of preference."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class PublicOnly(httpx.AsyncBaseTransport):
    """Connects to the public addresses of a host; TLS still verifies the host's name, and `Host` still carries it."""

    def __init__(self, inner: httpx.AsyncBaseTransport, *, resolve: Resolve = resolve) -> None:
        self._inner = inner
        self._resolve = resolve

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        name = request.url.host
        address = await self._public_address(name, request.url.port or 443, request)
        request.extensions = {**request.extensions, "sni_hostname": name}
        request.url = request.url.copy_with(host=address)
        return await self._inner.handle_async_request(request)

    async def _public_address(self, name: str, port: int, request: httpx.Request) -> str:
        try:
            addresses = await self._resolve(name, port)
        except OSError as problem:
            raise httpx.ConnectError(f"{name} can not be resolved", request=request) from problem
        for address in addresses:
            if is_public(address):
                return address
        raise PrivateAddress(f"{name} is on a private network")

    async def aclose(self) -> None:
        await self._inner.aclose()
