"""A log whose process has no memory for one object: MemoryError, nothing is left behind, and the log goes on."""

import pytest

from mpbroker import _native
from mpbroker._native import NO_REQUEST, LogOptions
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.layout import ReplicaRole
from tests.harness.no_memory import leaves_nothing, refuse_each
from tests.harness.one_thread import one_thread
from tests.harness.small_core import small_core
from tests.unit.log.test_followers_transactions import FOLLOWER, LEADER, Replica
from tests.unit.native.test_rows_that_are_none import LOADED

LATE_MS, LARGE = 1 << 45, 1 << 40  # no whole numbers that Python keeps anyway
OPTIONS = LogOptions(segment_bytes=400, index_interval_bytes=100)
WHOLE = LogOptions(segment_bytes=1 << 30)
BATCH = encode_batch([(b"k", b"v", LATE_MS)])
TOPIC_ID = bytes(range(16))
EPOCH = 1 << 20


@pytest.fixture(scope="module")
def leader(tmp_path_factory):
    """Several segments, open and aborted transactions, epochs, a follower that fetched, deleted records."""
    one = Replica(tmp_path_factory.mktemp("log") / "one", ReplicaRole.LEADER, (LEADER, FOLLOWER))
    log = one.log
    for number in range(8):
        plain = encode_batch([(b"k", bytes(60), LATE_MS + number)])
        assert log.append(0, NO_REQUEST, 0, plain, OPTIONS, LATE_MS).error == 0
    for producer in (LARGE, LARGE + 1, LARGE + 2):
        fields = {"producer_id": producer, "producer_epoch": 500, "base_sequence": 0, "transactional": True}
        assert log.verify(0, producer, 500) == 0
        batch = encode_batch([(b"k", b"v", 5)], **fields)
        assert log.append(0, NO_REQUEST, 0, batch, OPTIONS, LATE_MS).error == 0
    for producer in (LARGE, LARGE + 1):
        assert log.append_marker(0, producer, 500, 700, False, OPTIONS, LATE_MS).error == 0
    assert log.become(0, ReplicaRole.LEADER, EPOCH, 2, [0, 1], (0, 1), 0, 1, LATE_MS, leader=0) == 0
    assert log.follower_fetched(0, 1, LARGE, EPOCH, 13, -1, 0, LATE_MS)[0] == 0
    assert log.set_high_watermark(0, 13) == 0
    assert log.create(1, bytes(16), 0, 1, 0, "t-1", EPOCH, 1) == 0
    yield one
    log.close()


#: What follows the row in a call about the leader's.
READ = {
    "state": (),
    "replica_state": (),
    "epochs": (),
    "scan_epochs": (0,),
    "epochs_written": ([(2, 0)],),
    "segments": (),
    "find": (0, _native.READ_TO_END, 1 << 20),
    "find_time": (LATE_MS + 3,),
    "largest_time": (),
    "producers": (),
    "open_transactions": (),
    "producer_entries": (),
    "is_busy": (),
    "flush": (),
    "retain": (-1, -1, LATE_MS),
    "delete_records": (0, None),
    "verify": (LARGE + 2, 500),
    "guard": (LARGE + 2, 500, -2, None),
    "follower_fetched": (1, LARGE, EPOCH, 13, -1, 0, LATE_MS),
    "close_cached": (),
    "set_flags": (0, 0),
    "expire_producers": (0, 0),
    "isr_answered": (EPOCH, 2, (0, 1), 0),
    "append": (NO_REQUEST, 0, BATCH, WHOLE, LATE_MS),
    "append_marker": (LARGE + 2, 500, 700, True, WHOLE, LATE_MS),
    "refuse": (NO_REQUEST, 0, 1, None),
    "not_synced": (NO_REQUEST, 0, 1),
}


def singletons():
    """What an answer may refer to without having made it."""
    return [None, True, False, (), b"", ""]


@pytest.mark.parametrize("name", READ)
@one_thread
def test_of_a_row(leader, name):
    method, arguments = getattr(leader.log, name), READ[name]
    kind = type(method(0, *arguments))
    leaves_nothing(lambda: refuse_each(lambda: method(0, *arguments)), [leader.log, *arguments, *singletons()])
    assert type(method(0, *arguments)) is kind


WHOLE_LOG = {
    "producer_times": (),
    "unflushed": (False,),
    "starts_asked": (),
    "moves": (),
    "take_isr_proposals": (),
    "followed": (0, 1),
    "sweep_producers": (),
    "close_stale": (),
    "is_replicated": (),
    "log_dir_online": (0,),
    "takes_appends": (0,),
    "repair_slot": (118,),
}


@pytest.mark.parametrize("name", WHOLE_LOG)
@one_thread
def test_of_all_rows(leader, name):
    method, arguments = getattr(leader.log, name), WHOLE_LOG[name]
    method(*arguments)  # what is told or closed once is not again
    before = method(*arguments)
    leaves_nothing(lambda: refuse_each(lambda: method(*arguments)), [leader.log, *arguments, *singletons()])
    assert method(*arguments) == before


@one_thread
def test_what_is_asked_for_aborted_transactions(leader):
    error, plan = leader.log.find(0, 0, _native.READ_TO_END, 1 << 20)
    assert error == 0 and len(leader.log.aborted(plan, 0)[1]) == 2
    room = bytearray(plan.length)
    for work in (lambda: leader.log.aborted(plan, 0), lambda: leader.log.read_into(plan, room)):
        assert refuse_each(work) > 0
        leaves_nothing(lambda work=work: refuse_each(work), [leader.log, plan, room, *singletons()])


@one_thread
def test_rows_that_are_told(tmp_path):
    """Lists of rows that are not in a tuple of small numbers alone."""
    follower, leads = Replica(tmp_path / "follows"), Replica(tmp_path / "leads", ReplicaRole.LEADER)
    core = follower.core
    assert leads.log.follower_fetched(0, 1, LARGE, 1, 0, -1, 0, LATE_MS)[0] == 0
    assert follower.log.ask_move(0, TOPIC_ID, 0) == 0
    for work, count in (
        (lambda: follower.log.followed(0, 1), 4),
        (lambda: leads.log.take_isr_proposals(again=True), 5),
        (lambda: leads.log.replica_state(0), 4),
        (lambda: follower.log.state(0), 1),
    ):
        assert refuse_each(work) >= count
        leaves_nothing(lambda work=work: refuse_each(work), [core, follower.log, leads.log, *singletons()])
    assert follower.log.followed(0, 1)[1] and leads.log.take_isr_proposals(again=True)[0]
    follower.log.close(), leads.log.close()


@one_thread
def test_a_log_that_is_opened(tmp_path):
    core = Replica(tmp_path / "one").core
    paths = [str(tmp_path / "a"), bytes(tmp_path / "b")]
    for path in ("a", "b"):
        (tmp_path / path).mkdir()
    leaves_nothing(lambda: refuse_each(lambda: _native.Log(core, paths, 60)), [core, *paths, *singletons()])
    _native.Log(core, paths, 60).close()


@pytest.mark.parametrize("name", LOADED)
@one_thread
def test_what_is_loaded(tmp_path, name):
    one, rows = Replica(tmp_path / "one"), LOADED[name]
    method = getattr(one.log, name)
    leaves_nothing(lambda: refuse_each(lambda: method(0, rows)), [one.log, rows, *rows, *singletons()])
    one.log.close()


@pytest.mark.parametrize("name", ["starts_asked", "moves", "unflushed"])
@one_thread
def test_rows_whose_numbers_python_does_not_keep(tmp_path, name):
    """The list, each number and the list's room are asked for one by one."""
    core, paths = small_core(partitions=400).core, [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()
    log = _native.Log(core, paths, 60)
    for row in range(300, 310):
        assert log.publish(row, TOPIC_ID, 0, row, 0, f"t-{row}", {"leo": 9, "hw": 9}) == 0
        assert log.delete_records(row, 5, TOPIC_ID) == (0, 5) and log.ask_move(row, TOPIC_ID, 1) == 0
    method, arguments = getattr(log, name), (False,) if name == "unflushed" else ()
    assert method(*arguments) == list(range(300, 310))
    assert refuse_each(lambda: method(*arguments)) >= 12
    leaves_nothing(lambda: refuse_each(lambda: method(*arguments)), [log, *singletons()])
    log.close()


@one_thread
def test_times_of_producers_of_either_kind(tmp_path):
    """Those of one batch and those of more stand in a list each."""
    log = _native.Log(small_core().core, [tmp_path], 60)
    assert log.create(0, TOPIC_ID, 0, 0, 0, "t-0", 0, 1) == 0
    rows = [(LARGE + 1, 5, 0, 1, 0, 1, LARGE), (LARGE + 2, 5, 0, 1, 2, 1, LARGE), (LARGE + 2, 5, 2, 3, 4, 1, LARGE + 1)]
    assert log.load_producers(0, rows) == 0
    told = (64, [LARGE], [LARGE + 1])
    assert log.producer_times() == told and refuse_each(log.producer_times) >= 5
    leaves_nothing(lambda: refuse_each(log.producer_times), [log, *singletons()])
    assert log.producer_times() == told
    for method in (log.producers, log.producer_entries):
        before = method(0)
        leaves_nothing(lambda method=method: refuse_each(lambda: method(0)), [log, *singletons()])
        assert method(0) == before
    log.close()
