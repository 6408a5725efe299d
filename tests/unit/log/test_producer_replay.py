"""Producer state out of a log's batches, where transactions of several producers cross."""

from mpbroker.log import producer_replay
from mpbroker.log.producer_replay import ABORT, COMMIT, NONE, AbortedTxn, ProducerReplay
from mpbroker.log.producer_snapshot import ProducerEntry
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


def test_what_is_known_of_a_producer_is_its_last_batch_and_its_last_marker():
    replay = ProducerReplay(10, [ProducerEntry(1, 4, 8, 9, 2, 50, 3, 7)])
    write = lambda first, last, sequence, producer=1, epoch=4, of=0: replay.take(  # noqa: E731
        first, last, 60 + first, producer, epoch, sequence, 1, of, NONE, NONE
    )
    write(9, 9, 0)  # that is known already
    assert replay.producers[1] == ProducerEntry(1, 4, 8, 9, 2, 50, 3, 7)
    write(10, 14, 9)
    assert replay.producers[1] == ProducerEntry(1, 4, 13, 14, 4, 70, 3, 7), "its transaction is open still"
    write(15, 18, 2**31 - 2, producer=2, epoch=0)
    assert replay.producers[2] == ProducerEntry(2, 0, 1, 18, 3, 75, NONE, NONE), "sequences wrap"
    write(19, 19, 0, producer=3, epoch=1, of=ATTRIBUTE_TRANSACTIONAL)
    write(20, 21, 1, producer=3, epoch=1, of=ATTRIBUTE_TRANSACTIONAL)
    assert replay.producers[3] == ProducerEntry(3, 1, 2, 21, 1, 80, NONE, 19)
    write(22, 22, 0, producer=4, epoch=1)
    assert replay.producers[4].txn_first == NONE, "no transaction begins outside of one"


def test_a_marker_of_a_later_epoch_leaves_nothing_of_the_batches_before_it():
    replay = ProducerReplay(0, [])
    end = lambda offset, producer, epoch, marker: replay.take(  # noqa: E731
        offset, offset, 50 + offset, producer, epoch, NONE, 1, ATTRIBUTE_CONTROL, marker, 8
    )
    replay.take(0, 3, 5, 1, 4, 0, 4, ATTRIBUTE_TRANSACTIONAL, NONE, NONE)
    end(4, 1, 4, COMMIT)
    assert replay.producers[1] == ProducerEntry(1, 4, 3, 3, 3, 54, 8, NONE), "of the same epoch all stays"
    replay.take(5, 5, 5, 1, 4, 4, 1, ATTRIBUTE_TRANSACTIONAL, NONE, NONE)
    end(6, 1, 5, ABORT)
    assert replay.producers[1] == ProducerEntry(1, 5, NONE, NONE, 0, 56, 8, NONE)
    end(7, 2, 0, ABORT)
    assert replay.producers[2] == ProducerEntry(2, 0, NONE, NONE, 0, 57, 8, NONE), "nothing else is known of it"
    assert replay.aborted == [AbortedTxn(1, 5, 6, 7)] and list(replay.ended) == [(0, 5), (5, 7)]


def test_a_transaction_in_the_first_record_is_one():
    replay = replayed((1, "+"), (2, "+"))
    assert replay.last_stable(2) == 0 and replay.last_stable(2, but=1) == 1 and len(replay.ongoing()) == 2


def test_as_many_as_there_is_room_for_are_kept_apart(monkeypatch):
    monkeypatch.setattr(producer_replay, "MAX_ENDED", 2)
    steps = [(1, "+"), (2, "+"), (2, COMMIT), (1, ABORT)]
    assert list(replayed(*steps).ended) == [(1, 3), (0, 4)], "in the order of their ends"
    assert list(replayed(*steps, (3, "+"), (3, COMMIT)).ended) == [(0, 4), (4, 6)], "from the first of both on"
