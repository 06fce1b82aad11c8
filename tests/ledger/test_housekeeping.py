"""The worker that keeps house: it ends when told, and what fails for one tenant keeps nothing from the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from ledger import housekeeping


async def test_it_goes_round_until_it_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[bool] = []
    monkeypatch.setattr(housekeeping, "ROUND", 0.01)
    monkeypatch.setattr(housekeeping, "keep_house", lambda is_over: rounds.append(is_over()))
    stop = asyncio.Event()
    task = asyncio.create_task(housekeeping.keep_house_forever(stop))
    while len(rounds) < 3:
        await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(task, 10)
    assert rounds[:3] == [False] * 3


def test_one_tenants_trouble_is_its_own(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    kept: list[int] = []

    def keep(tenant: int, is_over: Callable[[], bool]) -> None:
        if tenant == 1:
            raise ValueError("Failing row contains (a secret)")
        kept.append(tenant)

    monkeypatch.setattr(housekeeping, "close_old_connections", lambda: None)
    monkeypatch.setattr(housekeeping, "all_tenants", lambda: [SimpleNamespace(pk=number) for number in (1, 2, 3)])
    monkeypatch.setattr(housekeeping, "keep_house_of", keep)
    housekeeping.keep_house()
    assert kept == [2, 3]
    assert "tenant 1" in caplog.text and "ValueError" in caplog.text
    assert "a secret" not in caplog.text
    kept.clear()
    housekeeping.keep_house(lambda: bool(kept))
    assert kept == [2]
