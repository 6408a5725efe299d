"""For how long a topic that is not known here may only be late: metadata that is read, and ten seconds in a cluster."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.unknown_topics import GRACE_MS, UnknownTopics
from mpbroker.shm.clock import ManualClock


@pytest.mark.parametrize(
    ("in_cluster", "has_read", "after_ms", "are_gone"),
    [
        (False, True, 0, True),
        (False, False, 0, False),
        (True, True, 0, False),
        (True, True, GRACE_MS - 1, False),
        (True, True, GRACE_MS, True),
        (True, False, GRACE_MS, False),
    ],
)
def test_who_is_alone_waits_for_nobody(in_cluster, has_read, after_ms, are_gone):
    clock = ManualClock()
    unknown = UnknownTopics(SimpleNamespace(has_read_everything=has_read), clock, in_cluster)
    unknown.took_over(3)
    clock.advance(after_ms)
    assert unknown.are_gone(3) is are_gone


def test_a_partition_that_was_not_taken_over_has_waited_for_no_time():
    unknown = UnknownTopics(SimpleNamespace(has_read_everything=True), ManualClock(), True)
    unknown.took_over(3)
    assert unknown.are_gone(4) is False
