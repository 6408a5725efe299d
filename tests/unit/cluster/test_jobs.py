"""Answers of the store that belong to no transaction of now."""

from collections import deque
from types import SimpleNamespace

import pytest

from mpbroker.cluster.cluster_config import MAX_TRANSACTION_OPERATIONS
from mpbroker.cluster.jobs import (
    BROKERS,
    CLASSES,
    CLIENTS,
    ELECTION,
    LINK_OPERATIONS,
    MAX_IN_DOUBT,
    Jobs,
    StepBuilder,
)
from mpbroker.metadata.meta_store import Absent, Committed, DeletePrefix, ModRev, Put, Unknown, Version


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


@pytest.fixture
def image():
    """It has the keys a and b, and broker 1."""
    entries = {"a": SimpleNamespace(version=3), "b": SimpleNamespace(version=4)}
    keys = SimpleNamespace(broker=lambda broker: f"broker {broker}")
    return SimpleNamespace(entry=entries.get, brokers={1: SimpleNamespace(mod_rev=9)}, keys=keys)


def put(*names):
    return [Put(name, b"") for name in names]


def test_a_step_checks_that_all_is_as_it_is_known(image):
    builder = StepBuilder(image, 121)
    assert builder.add([*put("a", "c"), DeletePrefix("d")], [1, 2])
    assert builder.add(put("a"), [1])
    step = builder.step()
    assert step.checks == (Version("a", 3), Absent("c"), ModRev("broker 1", 9), Absent("broker 2"))
    assert step.ops == (*put("a", "c"), DeletePrefix("d"), *put("a"))


@pytest.mark.parametrize(
    ("first", "second", "brokers", "fits"),
    [
        ("abc", "d", [], True),
        ("abc", "de", [], False),
        ("aaa", "a", [], True),
        ("aaa", "aa", [], False),
        ("ab", "c", [1], True),
        ("ab", "c", [1, 2], False),
        ("", "abcdef", [1, 2], True),
    ],
    ids=["room", "too many", "one key", "too many of one key", "checks", "too many checks", "the first one"],
)
def test_so_many_operations_and_so_many_checks(image, first, second, brokers, fits):
    """What is larger than a transaction by itself is one all the same: the store says so."""
    builder = StepBuilder(image, 4 + LINK_OPERATIONS)
    assert builder.add(put(*first))
    before = builder.step()
    assert builder.add(put(*second), brokers) is fits
    assert (builder.step() == before) is not fits or not second
    assert len(builder.step().ops) == len(first) + len(second) * fits


@pytest.mark.parametrize(
    ("most", "room"), [(10, 8), (MAX_TRANSACTION_OPERATIONS + 2, 120), (10_000, MAX_TRANSACTION_OPERATIONS)]
)
def test_a_large_store_is_not_asked_for_more_than_others_take(image, most, room):
    builder = StepBuilder(image, most)
    assert [builder.add(put("a")) for _ in range(room + 1)] == [True] * room + [False]


def test_elections_go_before_commands_of_brokers_and_these_before_those_of_clients():
    assert (ELECTION, BROKERS, CLIENTS, CLASSES) == (0, 1, 2, 3)
    assert (MAX_IN_DOUBT, LINK_OPERATIONS) == (16, 2), "the guard and the link"
