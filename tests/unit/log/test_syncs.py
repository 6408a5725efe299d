"""Syncs that are made late, and syncs one after the other."""

from types import SimpleNamespace

from mpbroker.log.syncs import InlineSyncs, LateSyncs, Synced


def test_threads_are_made_with_the_first_sync():
    made, begun = [], []
    pool = SimpleNamespace(start=begun.append, finished=lambda: ["done"], wait=lambda timeout_s: timeout_s == 3)
    late = LateSyncs(lambda: made.append(1) or pool)
    assert late.finished() == [] and late.wait(3) is False and made == []
    for ordinal in (4, 5):
        late.start(ordinal)
    assert begun == [4, 5] and made == [1]
    assert late.finished() == ["done"] and late.wait(3) is True and late.wait(2) is False


def test_without_threads_a_sync_has_ended_when_it_begins():
    syncs = InlineSyncs(SimpleNamespace(flush=lambda ordinal: (0, 10 * ordinal)))
    syncs.start(1)
    syncs.start(2)
    assert syncs.wait(5) is False
    assert syncs.finished() == [Synced(1, 0, 10), Synced(2, 0, 20)] and syncs.finished() == []
