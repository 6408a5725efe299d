"""Producer state out of a log's batches, where transactions of several producers cross."""

from mpbroker.log import producer_replay
from mpbroker.log.producer_replay import ABORT, COMMIT, NONE, AbortedTxn, ProducerReplay
from mpbroker.record.record_batch import ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL


def replayed(*steps, start=0):
    """Steps in the log's order, an offset each: (producer, "+") writes in a transaction, COMMIT or ABORT ends it."""
    replay, sequences = ProducerReplay(start, []), dict[int, int]()
    for offset, (producer, what) in enumerate(steps):
        if what == "+":
            sequence = sequences.get(producer, 0)
            replay.take(offset, offset, 5, producer, 0, sequence, 1, ATTRIBUTE_TRANSACTIONAL, NONE, NONE)
            sequences[producer] = sequence + 1
        else:
            attributes = ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL
            replay.take(offset, offset, 5, producer, 0, NONE, 1, attributes, what, 7)
    return replay


def test_the_oldest_open_transaction_holds_the_last_stable_offset():
    replay = replayed((1, "+"), (2, "+"), (3, "+"), (1, COMMIT))
    assert replay.last_stable(4) == 1
    assert replay.last_stable(4, but=2) == 2 and replay.last_stable(4, but=3) == 1
    assert [entry.producer_id for entry in replay.ongoing()] == [2, 3]
    assert replayed((1, "+"), (1, COMMIT)).last_stable(2) == 2


def test_what_was_aborted_says_where_readers_were_then():
    """`last_stable` of an entry: of the transactions that were open beside it."""
    replay = replayed((1, "+"), (2, "+"), (3, "+"), (2, ABORT), (3, "+"), (1, ABORT), (3, COMMIT))
    assert replay.aborted == [AbortedTxn(2, 1, 3, 0), AbortedTxn(1, 0, 5, 2)]
    assert replay.last_stable(7) == 7 and not replay.ongoing()


def test_a_marker_without_a_transaction_ends_nothing():
    replay = replayed((1, "+"), (2, COMMIT), (3, ABORT))
    assert replay.last_stable(3) == 0 and not replay.aborted
    assert replayed((1, "+"), (1, 9)).last_stable(2) == 0, "a control batch of another kind"


def test_of_very_many_that_ended_the_oldest_are_one(monkeypatch):
    monkeypatch.setattr(producer_replay, "MAX_ENDED", 3)
    steps = [(producer, what) for producer in range(5) for what in ("+", COMMIT)]
    ended = list(replayed(*steps).ended)
    assert len(ended) == 3 and ended[0][0] == 0 and ended[-1] == (8, 10)
    assert [first for first, _ in ended] == sorted(first for first, _ in ended)


def test_what_lies_below_the_start_is_known_already():
    assert replayed((1, "+"), (2, "+"), (1, COMMIT), start=1).last_stable(3) == 1
