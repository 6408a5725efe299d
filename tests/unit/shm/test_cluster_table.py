"""Rows of `assignments` and `brokers`: whole or not at all, bounded, and none in a broker that is alone."""

import sys

import pytest

from mpbroker import _native
from mpbroker.shm import cluster_table
from mpbroker.shm.cluster_table import Assignment, Broker, ClusterState, Endpoint
from mpbroker.shm.layout import MAX_ASSIGNED, MAX_BROKERS
from tests.harness.small_core import small_core

ROW = Assignment(b"t" * 16, 3, 1, 7, 9, 2, [1, 2, 3], [1, 3], [2])


@pytest.fixture
def core():
    return small_core(replicated=True).core


def broker(id, epoch=5, rack=None):
    return Broker(id, epoch, [Endpoint("PLAINTEXT", 0, "h\u00f6st", 9092), Endpoint("INTERNAL", 0, "", 9094)], rack)


def test_an_assignment_is_read_as_it_was_written(core):
    assert cluster_table.assignment_read(core, 4) is None
    cluster_table.assignment_write(core, 4, ROW)
    assert cluster_table.assignment_read(core, 4) == ROW
    later = ROW._replace(leader=-1, leader_epoch=8, isr=[], offline=[1, 2, 3])
    cluster_table.assignment_write(core, 4, later)
    assert cluster_table.assignment_read(core, 4) == later
    assert cluster_table.assignment_read(core, 5) is None
    cluster_table.assignment_clear(core, 4)
    assert cluster_table.assignment_read(core, 4) is None


def test_an_assignment_is_bounded(core):
    most = list(range(MAX_ASSIGNED))
    cluster_table.assignment_write(core, 0, ROW._replace(replicas=most, isr=most, offline=most))
    assert cluster_table.assignment_read(core, 0).offline == most
    with pytest.raises(ValueError, match="17 replicas"):
        cluster_table.assignment_write(core, 0, ROW._replace(replicas=[*most, 16]))
    with pytest.raises(ValueError, match="16 bytes"):
        cluster_table.assignment_write(core, 0, ROW._replace(topic_id=b"t"))
    with pytest.raises(IndexError):
        cluster_table.assignment_write(core, 1 << 20, ROW)
    assert cluster_table.assignment_read(core, 0).replicas == most


def test_lists_are_given_back(core):
    """Also those of a row that is refused."""
    given = [1, 2], [1], [2]
    before = [sys.getrefcount(each) for each in given]
    cluster_table.assignment_write(core, 0, ROW._replace(replicas=given[0], isr=given[1], offline=given[2]))
    with pytest.raises(TypeError):
        cluster_table.assignment_write(core, 0, ROW._replace(replicas=given[0], isr=given[1], offline=["x"]))
    assert [sys.getrefcount(each) for each in given] == before


def test_brokers_are_shown_anew_as_a_whole(core):
    cluster_table.brokers_write(core, [broker(3, rack="r"), broker(1)])
    assert cluster_table.brokers_read(core) == {1: broker(1), 3: broker(3, rack="r")}
    assert cluster_table.brokers_read(core)[1].on("INTERNAL").port == 9094
    assert cluster_table.brokers_read(core)[1].on("OTHER") is None
    cluster_table.brokers_write(core, [broker(1, epoch=6)])
    assert cluster_table.brokers_read(core) == {1: broker(1, epoch=6)}
    with pytest.raises(IndexError):
        cluster_table.brokers_write(core, [broker(id) for id in range(MAX_BROKERS + 1)])


@pytest.mark.parametrize(("before", "after"), [([1, 2, 3, 4], [2]), ([2, 3], [1, 2, 3, 4]), ([1, 2, 3], [])])
def test_a_kill_between_two_rows_leaves_no_gap(core, monkeypatch, before, after):
    """Readers stop at the first row that shows nobody, and the next writer clears no further."""
    write, killed_at = _native.broker_write, 0
    while True:
        cluster_table.brokers_write(core, [broker(id) for id in before])
        writes = iter(range(killed_at))
        monkeypatch.setattr(_native, "broker_write", lambda *row: (next(writes), write(*row)))  # noqa: B023
        try:
            cluster_table.brokers_write(core, [broker(id) for id in after])
            break
        except StopIteration:
            shown = [_native.broker_read(core, row) is not None for row in range(MAX_BROKERS)]
            assert shown == sorted(shown, reverse=True)
            killed_at += 1
        finally:
            monkeypatch.setattr(_native, "broker_write", write)
    assert killed_at > 0 and list(cluster_table.brokers_read(core)) == after


def test_rows_that_nobody_needs_are_not_looked_at(core, monkeypatch):
    """Looking at one gives it memory; there are 64, of two pages each."""
    read, rows = _native.broker_read, []
    monkeypatch.setattr(_native, "broker_read", lambda core, row: (rows.append(row), read(core, row))[1])
    cluster_table.brokers_write(core, [broker(1), broker(2)])
    cluster_table.brokers_read(core)
    assert max(rows) == 2


def test_endpoints_that_do_not_fit(core):
    wide = Broker(1, 1, [Endpoint("L" * 200, 0, "h" * 200, 1)] * 11)
    assert cluster_table.fits(broker(1)) and not cluster_table.fits(wide)
    with pytest.raises(ValueError, match="bytes of endpoints"):
        cluster_table.brokers_write(core, [wide])


def test_who_controls(core):
    assert cluster_table.cluster_state(core) == ClusterState(0, -1, 0, -1)
    assert cluster_table.cluster_announce(core, 0, 3, 0) == 1
    assert cluster_table.cluster_state(core) == ClusterState(1, 0, 3, 0)
    assert cluster_table.cluster_announce(core, -1, 3, -1) == 2
    assert cluster_table.cluster_state(core) == ClusterState(2, -1, 3, -1)


def test_a_broker_that_is_alone_has_no_rows():
    core = small_core().core
    assert cluster_table.brokers_read(core) == {}
    with pytest.raises(IndexError):
        cluster_table.assignment_read(core, 0)
    with pytest.raises(IndexError):
        cluster_table.brokers_write(core, [broker(1)])
