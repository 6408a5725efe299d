"""Answers of the store that belong to no transaction of now."""

from collections import deque
from types import SimpleNamespace

import pytest

from mpbroker.cluster.jobs import Jobs
from mpbroker.metadata.meta_store import Committed, Unknown


@pytest.mark.parametrize("under_way", [None, "another"])
def test_what_comes_of_a_transaction_that_is_not_under_way_says_nothing(under_way):
    jobs = object.__new__(Jobs)
    jobs._txn = None if under_way is None else SimpleNamespace(tag=under_way)
    assert jobs.read("tag", {}) == []
    for outcome in (Unknown("tag"), Committed(5)):
        assert jobs.outcome("tag", outcome) == []


@pytest.mark.parametrize(
    ("under_way", "waiting", "idle"),
    [(None, [], True), ("an election's", [], False), (None, ["a job"], False), ("a job's", ["a job"], False)],
)
def test_idle_is_who_has_neither_a_transaction_nor_a_job(under_way, waiting, idle):
    jobs = object.__new__(Jobs)
    jobs._txn, jobs._waiting = under_way, [deque(), deque(waiting), deque()]
    assert (jobs.idle, jobs.queue_size) == (idle, len(waiting))
