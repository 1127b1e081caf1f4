"""The order of waiting requests: the next one is of the client that has used least time."""

from __future__ import annotations

from dataclasses import dataclass

from komd.serve.fair_jobs import FairJobs


@dataclass(eq=False)
class Job:
    client: str
    seconds: float = 1.0


def served(jobs, count):
    """The clients of the next jobs, each of which takes its seconds."""
    order = []
    for _ in range(count):
        job = jobs.take()
        order.append(job.client)
        jobs.charge(job.client, job.seconds)
    return "".join(order)


def filled(*waiting):
    jobs = FairJobs()
    for client, seconds, count in waiting:
        for _ in range(count):
            jobs.add(Job(client, seconds))
    return jobs


def test_clients_take_turns_however_many_jobs_they_have():
    jobs = filled(("a", 1, 9), ("b", 1, 2))
    assert served(jobs, 11) == "ababaaaaaaa"
    assert jobs.take() is None


def test_time_is_shared_and_not_the_number_of_jobs():
    assert served(filled(("a", 4, 3), ("b", 1, 9)), 12) == "abbbbabbbbab"


def test_jobs_of_one_client_keep_their_order():
    jobs = FairJobs()
    given = [Job("a"), Job("a"), Job("a")]
    for job in given:
        jobs.add(job)
    assert [jobs.take() for _ in given] == given


def test_a_newcomer_is_next_and_has_no_claim_for_the_past():
    jobs = filled(("a", 1, 20), ("b", 1, 20))
    served(jobs, 10)
    for _ in range(10):
        jobs.add(Job("c"))
    order = served(jobs, 9)
    assert "c" in order[:2] and order.count("c") in (3, 4)


def test_who_was_away_has_saved_nothing():
    jobs = filled(("a", 1, 20), ("b", 1, 1))
    served(jobs, 10)
    for _ in range(8):
        jobs.add(Job("b"))
    assert served(jobs, 8).count("b") == 4


def test_time_that_nobody_else_wanted_is_not_owed():
    jobs = filled(("a", 100, 3))
    served(jobs, 3)
    for client in "ab":
        for _ in range(3):
            jobs.add(Job(client))
    assert served(jobs, 6) == "ababab"


def test_the_client_with_most_jobs_makes_room():
    jobs = filled(("a", 1, 3), ("b", 1, 1))
    newest = Job("a")
    jobs.add(newest)
    assert jobs.displaced("a") is None
    assert jobs.displaced("c") is newest
    assert jobs.displaced("b").client == "a"
    assert jobs.displaced("b") is None  # two of a, one of b: then two and two
    assert served(jobs, 3).count("a") == 2


def test_a_job_can_be_taken_out():
    jobs = filled(("a", 1, 1))
    second = Job("a")
    jobs.add(second)
    jobs.discard(second)
    jobs.discard(second)
    jobs.discard(Job("nobody"))
    assert served(jobs, 1) == "a" and jobs.take() is None


def test_a_stream_of_new_clients_keeps_nobody_waiting():
    """Nor is any of them remembered for long."""
    jobs = filled(("always", 1, 2000))
    order = []
    for k in range(1000):
        jobs.add(Job(f"visitor {k}"))
        order.append(served(jobs, 1))
    assert order.count("always") > 20  # a fair share: hundreds of visitors come to wait as well
    assert sum(jobs.take() is not None for _ in range(3000)) == 2000
    assert len(jobs._clients) < 1000
