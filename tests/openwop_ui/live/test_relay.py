"""Announcements: merged on their way, cut to what PostgreSQL carries, and ids only."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from openwop_ui.live import announce
from openwop_ui.live.relay import Pending, group_of


def said(tenant: int, **topics: int | None) -> str:
    return json.dumps({"tenant": tenant, "topics": topics})


@pytest.mark.parametrize(
    ("heard", "taken"),
    [
        ([said(1, a=1), said(1, a=5)], {(1, "a"): 5}),
        ([said(1, a=5), said(1, a=1)], {(1, "a"): 5}),
        ([said(1, a=5), said(1, a=None)], {(1, "a"): 5}),
        ([said(1, a=None), said(1, a=5)], {(1, "a"): 5}),
        ([said(1, a=None), said(1, a=None)], {(1, "a"): None}),
        ([said(1, a=0), said(1, a=0)], {(1, "a"): 0}),
        ([said(1, a=1), said(2, a=2)], {(1, "a"): 1, (2, "a"): 2}),
        ([said(1, a=1, b=2), said(1, b=3)], {(1, "a"): 1, (1, "b"): 3}),
        ([], {}),
    ],
)
def test_of_many_announcements_the_furthest_is_left(heard: list[str], taken: dict[tuple[int, str], int | None]) -> None:
    pending = Pending()
    for payload in heard:
        pending.add(payload)
    assert pending.take() == taken
    assert pending.take() == {}


@pytest.mark.parametrize(
    "payload", ["", "x", "[]", "{}", '{"tenant": 1}', '{"tenant": "x", "topics": {}}', '{"tenant": 1, "topics": 2}']
)
def test_what_is_no_announcement_is_passed_over(payload: str) -> None:
    pending = Pending()
    pending.add(payload)
    pending.add(said(1, a=1))
    assert pending.take() == {(1, "a"): 1}


def test_groups_differ_by_tenant_and_topic_and_have_names_that_channels_take() -> None:
    topics = ["runs", "ledger", "run:alpha/a~2Fb", "run:alpha/" + "x" * 4000]
    groups = {group_of(tenant, topic) for tenant in (1, 2, 11) for topic in topics}
    assert len(groups) == 12
    assert all(len(group) < 100 and group.replace(".", "").isalnum() for group in groups)


def test_long_announcements_are_cut_into_several_that_fit() -> None:
    topics = {f"run:alpha/{number}-{'x' * 3000}": number for number in range(10)}
    payloads = list(announce._payloads(7, topics))
    assert all(len(payload.encode()) < 8000 for payload in payloads)
    merged: dict[str, int] = {}
    for payload in payloads:
        assert json.loads(payload)["tenant"] == 7
        merged |= json.loads(payload)["topics"]
    assert merged == topics


@pytest.mark.django_db
def test_a_topic_of_the_longest_run_id_can_be_announced() -> None:
    # 512 characters of three bytes each, of which the projection makes nine.
    announce.announce(1, {"run:alpha/" + "~E6~97~A5" * 512: 3, "runs": None})
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
