"""Who is served next."""

from __future__ import annotations

from runs.follower.schedule import Job, Schedule


def jobs(tenant: int, count: int, *, host: int = 1) -> list[Job]:
    return [Job(tenant, host, f"run-{n}") for n in range(count)]


def taken(schedule: Schedule, most: int) -> list[Job]:
    return [job for _ in range(most) if (job := schedule.take(1.0)) is not None]


def test_a_tenant_with_many_runs_does_not_keep_another_waiting() -> None:
    schedule = Schedule(places=4, per_host=10)
    for job in jobs(1, 10_000):
        schedule.add(job, 0.0)
    schedule.add(Job(2, 7, "only"), 0.0)

    assert [job.tenant_id for job in taken(schedule, 4)] == [1, 2, 1, 1]
    assert schedule.take(1.0) is None


def test_places_are_shared_evenly() -> None:
    schedule = Schedule(places=6, per_host=10)
    for tenant in (1, 2, 3):
        for job in jobs(tenant, 9):
            schedule.add(job, 0.0)

    assert [job.tenant_id for job in taken(schedule, 6)] == [1, 2, 3, 1, 2, 3]


def test_many_hosts_give_a_tenant_no_more_than_its_share() -> None:
    schedule = Schedule(places=6, per_host=10)
    for host in (1, 2, 3):
        for job in jobs(1, 9, host=host):
            schedule.add(job, 0.0)
    for job in jobs(2, 9, host=4):
        schedule.add(job, 0.0)

    assert [job.tenant_id for job in taken(schedule, 6)] == [1, 2, 1, 2, 1, 2]


def test_hosts_of_one_tenant_take_turns_too() -> None:
    schedule = Schedule(places=10, per_host=2)
    for host in (1, 2):
        for job in jobs(1, 5, host=host):
            schedule.add(job, 0.0)

    assert [job.host_id for job in taken(schedule, 10)] == [1, 2, 1, 2], "two places a host, in turn"


def test_a_job_waits_for_its_time() -> None:
    schedule = Schedule(places=1, per_host=1)
    schedule.add(Job(1, 1, "later"), 5.0)

    assert schedule.take(4.9) is None
    assert schedule.next_due() == 5.0
    assert schedule.take(5.0) == Job(1, 1, "later")


def test_equal_times_are_served_in_order_of_arrival() -> None:
    schedule = Schedule(places=9, per_host=9)
    for run in ("b", "a", "c"):
        schedule.add(Job(1, 1, run), 0.0)

    assert [schedule.take(0.0) for _ in range(3)] == [Job(1, 1, run) for run in ("b", "a", "c")]


def test_added_twice_is_there_once() -> None:
    schedule = Schedule(places=9, per_host=9)
    job = Job(1, 1, "run")
    schedule.add(job, 0.0)
    schedule.add(job, 0.0)
    assert schedule.take(0.0) == job
    schedule.add(job, 0.0)

    assert schedule.take(0.0) is None
    assert job in schedule


def test_a_job_comes_again_at_its_time() -> None:
    schedule = Schedule(places=1, per_host=1)
    job = Job(1, 1, "run")
    schedule.add(job, 0.0)
    schedule.take(0.0)
    schedule.again(job, 3.0)

    assert schedule.running == 0
    assert schedule.take(2.9) is None
    assert schedule.take(3.0) == job


def test_a_job_that_is_done_can_be_added_anew() -> None:
    schedule = Schedule(places=1, per_host=1)
    job = Job(1, 1, "run")
    schedule.add(job, 0.0)
    schedule.take(0.0)
    schedule.done(job)

    assert job not in schedule
    schedule.add(job, 0.0)
    assert schedule.take(0.0) == job


def test_place_is_given_only_when_somebody_could_use_it() -> None:
    schedule = Schedule(places=1, per_host=1)
    holder, waiting = Job(1, 1, "holder"), Job(2, 2, "waiting")
    schedule.add(holder, 0.0)
    schedule.take(0.0)

    assert not schedule.should_give_place(holder, 1.0)
    schedule.add(waiting, 5.0)
    assert not schedule.should_give_place(holder, 1.0)
    assert schedule.should_give_place(holder, 5.0)


def test_place_on_a_full_host_is_given_to_a_run_of_that_host() -> None:
    schedule = Schedule(places=9, per_host=1)
    holder = Job(1, 1, "holder")
    schedule.add(holder, 0.0)
    schedule.take(0.0)
    schedule.add(Job(2, 2, "elsewhere"), 0.0)
    assert not schedule.should_give_place(holder, 1.0)

    schedule.add(Job(1, 1, "next"), 0.0)
    assert schedule.should_give_place(holder, 1.0)


def test_nothing_is_due_while_all_places_are_taken() -> None:
    schedule = Schedule(places=1, per_host=5)
    for job in jobs(1, 2):
        schedule.add(job, 0.0)
    schedule.take(0.0)

    assert schedule.next_due() is None


def test_a_forgotten_host_leaves_nothing() -> None:
    schedule = Schedule(places=9, per_host=9)
    for job in jobs(1, 3):
        schedule.add(job, 0.0)
    schedule.add(Job(1, 2, "other host"), 0.0)
    schedule.forget_host(1, 1)

    assert schedule.take(0.0) == Job(1, 2, "other host")
    assert schedule.take(0.0) is None
    assert Job(1, 1, "run-0") not in schedule


def test_four_full_rounds_serve_everybody() -> None:
    schedule = Schedule(places=2, per_host=2)
    everybody = [job for tenant in range(10) for job in jobs(tenant, 2)]
    for job in everybody:
        schedule.add(job, 0.0)

    served: list[Job] = []
    while (taken := schedule.take(0.0)) is not None:
        served.append(taken)
        schedule.done(taken)

    assert sorted(served) == sorted(everybody)
    assert {job.tenant_id for job in served[:10]} == set(range(10)), "each tenant once before any twice"
