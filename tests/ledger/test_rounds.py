"""What works in the background ends when told, and what fails for one tenant keeps nothing from the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from ledger import rounds


@pytest.fixture(autouse=True)
def _three_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "close_old_connections", lambda: None)
    monkeypatch.setattr(rounds, "all_tenants", lambda: [SimpleNamespace(pk=number) for number in (1, 2, 3)])


async def test_it_goes_round_until_it_is_told_to_stop() -> None:
    worked: list[int] = []
    stop = asyncio.Event()
    task = asyncio.create_task(
        rounds.round_after_round("house", lambda tenant, _: worked.append(tenant), stop, pause=0.01)
    )
    async with asyncio.timeout(10):
        while len(worked) < 7:
            await asyncio.sleep(0.01)
        stop.set()
        await task
    assert worked[:7] == [1, 2, 3, 1, 2, 3, 1]


def test_one_tenants_trouble_is_its_own(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[int] = []

    def keep(tenant: int, is_over: Callable[[], bool]) -> None:
        if tenant == 1:
            raise ValueError("Failing row contains (a secret)")
        kept.append(tenant)

    rounds.one_round("house", keep)
    assert kept == [2, 3]
    assert "house: tenant 1" in caplog.text and "ValueError" in caplog.text
    assert "a secret" not in caplog.text


def test_a_round_that_is_over_leaves_the_rest() -> None:
    kept: list[int] = []
    rounds.one_round("house", lambda tenant, _: kept.append(tenant), lambda: bool(kept))
    assert kept == [1]


def test_tenants_that_cannot_be_listed_are_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable() -> list[SimpleNamespace]:
        raise OSError("no route")

    monkeypatch.setattr(rounds, "all_tenants", unreachable)
    rounds.one_round("house", lambda tenant, _: None)
    assert "house: the tenants could not be listed" in caplog.text
