"""Which addresses the follower connects to."""

from __future__ import annotations

import httpx
import pytest

from runs.follower.addresses import PrivateAddress, PublicOnly, is_public


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:a00:1::",
    ],
)
def test_is_private(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07::1", "64:ff9b::5db8:d70e"])
def test_is_public(address: str) -> None:
    assert is_public(address)


def connecting(*addresses: str) -> tuple[httpx.AsyncClient, list[httpx.Request]]:
    """A client whose every name leads to `addresses`, and the requests that reach the network."""
    seen: list[httpx.Request] = []

    async def resolve(name: str, port: int) -> list[str]:
        if not addresses:
            raise OSError("no such name")
        return list(addresses)

    def network(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200)

    return httpx.AsyncClient(transport=PublicOnly(httpx.MockTransport(network), resolve=resolve)), seen


async def test_connects_to_the_address_that_was_checked() -> None:
    client, seen = connecting("10.0.0.1", "93.184.215.14")

    async with client:
        await client.get("https://host.example/v1/runs")

    assert seen[0].url.host == "93.184.215.14"
    assert seen[0].headers["host"] == "host.example"
    assert seen[0].extensions["sni_hostname"] == "host.example"


async def test_refuses_a_name_that_is_private_only() -> None:
    client, seen = connecting("127.0.0.1", "10.0.0.1")

    async with client:
        with pytest.raises(PrivateAddress, match="host.example is on a private network"):
            await client.get("https://host.example/")
    assert seen == []


async def test_a_name_that_leads_nowhere_is_a_network_error() -> None:
    client, _ = connecting()

    async with client:
        with pytest.raises(httpx.ConnectError):
            await client.get("https://host.example/")


async def test_a_literal_private_address_is_refused_without_asking_anybody() -> None:
    client = httpx.AsyncClient(transport=PublicOnly(httpx.MockTransport(lambda request: httpx.Response(200))))

    async with client:
        with pytest.raises(PrivateAddress):
            await client.get("http://127.0.0.1:8000/")
        with pytest.raises(PrivateAddress):
            await client.get("http://[::ffff:127.0.0.1]:8000/")
        with pytest.raises(PrivateAddress):
            await client.get("http://2130706433/")
