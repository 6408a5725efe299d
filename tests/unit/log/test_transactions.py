"""Transactions in one partition against a naive model: last stable offset, what a reader of committed records gets, and
what a start makes of the files."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mpbroker._native import NO_REQUEST, READ_TO_STABLE, LogOptions
from mpbroker.errors import ErrorCode
from mpbroker.log.producer_snapshot import ProducerEntry, read_snapshot, snapshot_offsets, snapshot_path, write_snapshot
from mpbroker.log.txn_index_file import AbortedTxn, read_aborted, write_aborted
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.record_batch import ATTRIBUTE_CONTROL, iterate_batches
from tests.unit.log.log_world import LogWorld

SEGMENT_BYTES = 700
OPTIONS = LogOptions(segment_bytes=SEGMENT_BYTES, index_interval_bytes=200)
PRODUCERS = st.integers(0, 3)
EXAMPLES = 150 if os.environ.get("LONG") else 6


class Batch:
    """One batch of the model. `outcome`: of its transaction, None while it is open; `first`: its first offset."""

    def __init__(self, offset: int, producer: int | None, marker: bool = False) -> None:
        self.offset, self.producer, self.marker = offset, producer, marker
        self.outcome: bool | None = None


class Model:
    """The log as a list of batches of one record."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.log_start = 0
        self.epochs = dict.fromkeys(range(4), 0)
        self.sequences = dict.fromkeys(range(4), 0)
        self.verified: set[int] = set()

    def open(self, producer: int) -> list[Batch]:
        """Batches of the producer's open transaction."""
        return [b for b in self.batches if b.producer == producer and not b.marker and b.outcome is None]

    @property
    def lso(self) -> int:
        undecided = [b.offset for producer in self.epochs for b in self.open(producer)]
        return max(min(undecided, default=len(self.batches)), self.log_start)

    def committed(self, first: int) -> list[int]:
        """Offsets of records that a reader of committed records gets from `first` on."""
        return [b.offset for b in self.batches[first : self.lso] if not b.marker and b.outcome is not False]


def read_committed(world: LogWorld, offset: int, most_bytes: int) -> list[int]:
    """Offsets, as a consumer finds them: batches of aborted producers are skipped until their abort marker."""
    found = []
    while True:
        error, plan = world.log.find(0, offset, READ_TO_STABLE, most_bytes)
        assert error == 0
        if not plan.length:
            return found
        error, aborted = world.log.aborted(plan, offset)
        assert error == 0
        found_bytes = bytearray(plan.length)
        assert world.log.read_into(plan, found_bytes) == (0, plan.length)
        skipping: set[int] = set()
        waiting = sorted(aborted, key=lambda row: row[1])
        for info, batch in iterate_batches(found_bytes):
            while waiting and waiting[0][1] <= info.base_offset:
                skipping.add(waiting.pop(0)[0])
            if info.attributes & ATTRIBUTE_CONTROL:
                if batch[61 + 8] == 0:  # of the key: version, type
                    skipping.discard(info.producer_id)
            elif info.producer_id not in skipping and info.base_offset >= offset:
                found.append(info.base_offset)
            last = info.base_offset
        offset = last + 1


@settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
class Partition(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self.world = LogWorld(Path(self.directory.name))
        self.partition = self.world.create(segment_bytes=str(1 << 20))
        self.world.core.transactions_ready = 1
        self.model = Model()
        self.last_lso = 0

    def teardown(self) -> None:
        self.world.close()
        self.directory.cleanup()

    def append(self, **fields):
        now_ms = self.world.clock.wall_ms()
        batch = encode_batch([(b"k", bytes(40), now_ms)], **fields)
        return self.world.log.append(0, NO_REQUEST, 0, batch, OPTIONS, now_ms)

    @rule()
    def plain(self) -> None:
        assert self.append().error == 0
        batch = Batch(len(self.model.batches), None)
        batch.outcome = True
        self.model.batches.append(batch)

    @rule(producer=PRODUCERS)
    def verify(self, producer: int) -> None:
        assert self.world.log.verify(0, producer, self.model.epochs[producer]) == 0
        self.model.verified.add(producer)

    @rule(producer=PRODUCERS)
    def transactional(self, producer: int) -> None:
        model = self.model
        code = self.append(
            producer_id=producer,
            producer_epoch=model.epochs[producer],
            base_sequence=model.sequences[producer],
            transactional=True,
        ).error
        known = producer in model.verified or bool(model.open(producer))
        assert code == (0 if known else ErrorCode.INVALID_TXN_STATE)
        if known:
            model.sequences[producer] += 1
            model.batches.append(Batch(len(model.batches), producer))

    @rule(producer=PRODUCERS)
    def repeat(self, producer: int) -> None:
        """The last batch once more: a duplicate within its transaction, out of order in the next one (ADR 24)."""
        model, sequence = self.model, self.model.sequences[producer] - 1
        sent = [b for b in model.batches if b.producer == producer and not b.marker]
        if sequence < 0 or sent[-1].offset < model.log_start:
            return
        result = self.append(
            producer_id=producer, producer_epoch=model.epochs[producer], base_sequence=sequence, transactional=True
        )
        if sent[-1].outcome is None:
            assert (result.error, result.duplicate, result.base_offset) == (0, True, sent[-1].offset)
        elif producer in model.verified:
            assert (result.error, result.duplicate) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False)
        else:
            assert result.error == ErrorCode.INVALID_TXN_STATE

    @rule(producer=PRODUCERS, committed=st.booleans(), raises=st.integers(0, 3))
    def end(self, producer: int, committed: bool, raises: int) -> None:
        model = self.model
        if raises == 3:
            model.epochs[producer] += 1
            model.sequences[producer] = 0
        result = self.world.log.append_marker(0, producer, model.epochs[producer], 7, committed, OPTIONS, 5)
        assert (result.error, result.base_offset) == (0, len(model.batches))
        for batch in model.open(producer):
            batch.outcome = committed
        model.verified.discard(producer)
        model.batches.append(Batch(len(model.batches), producer, marker=True))

    @rule(producer=PRODUCERS)
    def stale(self, producer: int) -> None:
        log, epoch = self.world.log, self.model.epochs[producer]
        if epoch and any(b.producer == producer for b in self.model.batches):
            assert log.append_marker(0, producer, epoch - 1, 7, True, OPTIONS, 5).error == 47
        if any(b.producer == producer and b.marker for b in self.model.batches):
            assert log.append_marker(0, producer, epoch, 6, True, OPTIONS, 5).error == 52

    @precondition(lambda self: self.model.batches)
    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        model = self.model
        offset = int(share * len(model.batches))
        assert self.world.log.set_log_start(0, offset) == 0
        model.log_start = max(model.log_start, offset)

    @rule(snapshot=st.booleans())
    def crash(self, snapshot: bool) -> None:
        """The next start reads the log, perhaps from a snapshot on; what was verified is forgotten."""
        if snapshot:
            directory = f"{self.world.path}/t-0"
            offset, rows = self.world.log.producer_entries(0)
            write_snapshot(directory, offset, [ProducerEntry(*row) for row in rows])
        log_start = self.model.log_start
        self.world.reboot()
        self.world.core.transactions_ready = 1
        if log_start:
            assert self.world.log.set_log_start(0, log_start) == 0
        self.model.verified.clear()

    @invariant()
    def the_ends_are_those_of_the_model(self) -> None:
        state, model = self.world.log.state(0), self.model
        assert (state.leo, state.hw, state.lso) == (len(model.batches), len(model.batches), model.lso)
        assert state.lso >= self.last_lso
        self.last_lso = state.lso
        stable, rows = self.world.log.open_transactions(0)
        firsts = {p: model.open(p)[0].offset for p in model.epochs if model.open(p)}
        assert stable == model.lso and {row[0]: row[3] for row in rows} == firsts
        assert state.open_transactions == len(firsts)

    @invariant()
    def readers_get_what_is_committed(self) -> None:
        model = self.model
        for first in {model.log_start, (model.log_start + model.lso) // 2}:
            assert read_committed(self.world, first, 400) == model.committed(first)


TestPartition = Partition.TestCase


def open_and_end(world: LogWorld, producer: int, committed: bool | None) -> None:
    """A transaction of one batch; None: it stays open."""
    partition = world.partitions.all[0]
    assert world.log.verify(0, producer, 0) == 0
    sent = world.append(partition, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
    assert sent.error == 0
    if committed is not None:
        assert world.log.append_marker(0, producer, 0, 3, committed, OPTIONS, world.clock.wall_ms()).error == 0


@pytest.mark.parametrize("content", [b"x" * 33, b"\0\1" + bytes(32), b"\0\0" + b"\x7f" * 32, b""])
def test_a_damaged_index_of_aborted_transactions_is_written_anew(tmp_path, content):
    world = LogWorld(tmp_path)
    world.create()
    for producer in (5, 6):
        open_and_end(world, producer, producer == 6)
    path = tmp_path / "t-0" / f"{0:020d}.txnindex"
    good = path.read_bytes()
    path.write_bytes(content)
    world.reboot()
    assert path.read_bytes() == good
    assert [entry.first_offset for entry in read_aborted(str(path))] == [0]
    assert [kept.read_bytes() for kept in path.parent.glob("*.txnindex.cut")] == ([content] if content else [])


def test_an_index_of_what_was_never_aborted_is_kept_aside(tmp_path):
    world = LogWorld(tmp_path)
    world.create()
    open_and_end(world, 6, True)
    path = tmp_path / "t-0" / f"{0:020d}.txnindex"
    path.write_bytes(b"\0\0" + bytes(32))
    world.reboot()
    assert not path.exists() and path.with_suffix(".txnindex.cut").read_bytes() == b"\0\0" + bytes(32)


def test_snapshots_tell_open_transactions_and_coordinator_epochs(tmp_path):
    world = LogWorld(tmp_path)
    world.create()
    open_and_end(world, 5, False)
    open_and_end(world, 6, None)
    offset, rows = world.log.producer_entries(0)
    entries = [ProducerEntry(*row) for row in rows]
    write_snapshot(str(tmp_path / "t-0"), offset, entries)
    assert snapshot_offsets(str(tmp_path / "t-0")) == [3]
    assert read_snapshot(snapshot_path(str(tmp_path / "t-0"), 3)) == entries
    assert [(e.producer_id, e.coordinator_epoch, e.txn_first) for e in entries] == [(5, 3, -1), (6, -1, 2)]
    world.reboot()
    assert world.log.producer_entries(0)[1] == rows
    assert world.log.append_marker(0, 5, 0, 2, True, OPTIONS, 5).error == ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize("committed", [True, False])
def test_a_sequence_of_an_ended_transaction_is_not_taken_for_a_duplicate(tmp_path, committed):
    """An answer that its producer never got: it gives the same sequences to other records of its next transaction."""
    world = LogWorld(tmp_path)
    partition = world.create()
    sent = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    open_and_end(world, 5, committed)
    assert world.log.verify(0, 5, 0) == 0
    refused = world.append(partition, base_sequence=0, **sent)
    assert (refused.error, refused.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert world.append(partition, base_sequence=1, **sent).base_offset == 2
    assert world.append(partition, base_sequence=0, **sent).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    again = world.append(partition, base_sequence=1, **sent)
    assert (again.error, again.duplicate, again.base_offset) == (0, True, 2)
    world.close()


def test_one_in_a_transaction_is_never_forgotten(tmp_path):
    world = LogWorld(tmp_path)
    partition = world.create()
    open_and_end(world, 5, None)
    world.append(partition, producer_id=6, producer_epoch=0, base_sequence=0)
    assert world.log.verify(0, 7, 0) == 0
    later_ms = world.clock.wall_ms() + 1
    assert world.log.expire_producers(0, later_ms, later_ms) == 1  # number 6
    assert world.log.state(0).lso == 0
    assert world.append(partition, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True).error == 0


def test_an_index_that_somebody_writes_is_read_up_to_its_last_whole_entry(tmp_path):
    rows = [AbortedTxn(1, 0, 5, 4), AbortedTxn(2, 3, 9, 8)]
    path = str(tmp_path / "x.txnindex")
    write_aborted(path, rows)
    assert read_aborted(path) == read_aborted(path, cut_off=True) == rows
    with open(path, "ab") as file:
        file.write(b"\0\0\0")
    assert read_aborted(path, cut_off=True) == rows
    with pytest.raises(ValueError, match="whole number of entries"):
        read_aborted(path)
