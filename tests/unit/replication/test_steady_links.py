"""Fetches that are served natively: byte by byte what a link asks that is not, whatever the leader answers, and they
are given back whenever something is not ordinary."""

import fcntl
import random
import select
import time

import pytest

from mpbroker._native import SteadyFetches
from mpbroker.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from mpbroker.shm.layout import ReplicaRole
from tests.unit.replication.scripted_leader import (
    EPOCH,
    FOLLOWER,
    KEYS,
    LEADER,
    A,
    B,
    Follower,
    batch_at,
    receive_frame,
)

SIOCOUTQ, SIOCOUTQNSD = 0x5411, 0x894B
REFUSALS = 15


@pytest.fixture
def both(tmp_path):
    """Served natively, and not."""
    made = []
    for name in ("native", "python"):
        (tmp_path / name).mkdir()
        made.append(Follower(tmp_path / name, name == "native"))
    yield made
    for each in made:
        each.close()


@pytest.fixture
def native(both):
    return both[0]


def same(both):
    native, python = both
    assert native.frames == python.frames
    assert native.ends() == python.ends() and native.log_bytes() == python.log_bytes()
    assert (native.lost, native.said) == (python.lost, python.said)
    assert native.leader.told == python.leader.told


def test_what_is_asked_and_written_is_the_same(both):
    for each in both:
        rng = random.Random(5)
        for number in range(120):
            for key in rng.sample(KEYS, rng.randrange(3)):
                for _ in range(rng.randrange(1, 3)):
                    each.leader.write(key, [rng.randbytes(rng.randrange(200)) for _ in range(rng.randrange(1, 4))])
            if number % 9 == 8:
                key = rng.choice(KEYS)
                each.leader.log_starts[key] = each.leader.told[key]
            if number % 40 == 39:  # as once a second
                each.steady.take_all([each.link], lambda *_: pytest.fail("nothing is wrong with it"))
            each.step()
        each.steady.take_back(each.link)
        for _ in range(3):
            each.step()
        each.steady.take_back(each.link)
    same(both)
    native, python = both
    assert native.steady.answers > 110 and python.steady.answers == 0
    assert [leo for leo, *_ in native.ends()] == [native.leader.ends[key] for key in KEYS]
    assert min(hw for _, hw, *_ in native.ends()) > 20 and max(start for *_, start, _ in native.ends()) > 0
    assert native.passed.count("fetcher.answered") < 10, "crash points are passed natively"


def test_when_its_last_request_was_sent_goes_along(native):
    """What is lent while an answer is waited for comes back with that time: it is overdue no sooner and no later."""
    native.step()
    assert native.steady.has(native.link) and native.link.asked_ms == native.clock.now_ms
    native.steady.take_back(native.link)
    assert native.link.asked_ms == native.clock.now_ms and not native.link.connection.is_idle


def first(answer):
    return answer.responses[0].partitions[0]


def in_first(**fields):
    def change(answer):
        for name, value in fields.items():
            setattr(first(answer), name, value)
        return answer

    return change


def in_all(**fields):
    def change(answer):
        for name, value in fields.items():
            setattr(answer, name, value)
        return answer

    return change


def twice(answer):
    answer.responses[0].partitions.append(first(answer))
    return answer


def of_another(topic, partition):
    def change(answer):
        data = PartitionData(partition_index=partition, log_start_offset=0, aborted_transactions=None, records=b"")
        answer.responses.append(FetchableTopicResponse(topic_id=topic, partitions=[data]))
        return answer

    return change


def framed(change=lambda frame: frame, correlation_id=None):
    """What is sent for the third answer."""
    return lambda answer: bytes(change(bytearray(Follower.framed(answer, correlation_id or 3))))


def longer(frame):
    frame[:4] = (len(frame) - 4 + 1).to_bytes(4, "big")
    return frame + b"\0"


def told_shorter(frame):
    frame[:4] = (len(frame) - 4 - 1).to_bytes(4, "big")
    return frame


def announced(length):
    return lambda frame: length.to_bytes(4, "big", signed=True) + frame[4:]


ODD = {
    "an error of the session": in_all(error_code=70),
    "another error of all": in_all(error_code=5),
    "another session": in_all(session_id=5),
    "no session": in_all(session_id=0),
    "an error of a partition": in_first(error_code=6),
    "a fenced partition": in_first(error_code=74),
    "aborted transactions": in_first(aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=0)]),
    "another leader": in_first(current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=9)),
    "an end point": in_all(node_endpoints=[NodeEndpoint(node_id=4, host="h", port=1)]),
    "a partition twice": twice,
    "a partition that nobody asked for": of_another(A, 2),
    "a topic that nobody asked for": of_another(bytes(16), 0),
    "records that go back": in_first(records=batch_at(0, [b"again"])),
    "records that are none": in_first(records=b"x" * 80),
    "no diverging epoch": in_first(diverging_epoch=EpochEndOffset(epoch=-1, end_offset=-1)),
    "a byte more": framed(longer),
    "a byte behind the end": framed(lambda frame: frame + b"\0"),
    "a byte less": framed(told_shorter),
    "another request's answer": framed(correlation_id=9),
    "a length below nothing": framed(announced(-5)),
    "a length of nothing": framed(announced(0)),
    "a length beyond all": framed(announced(1 << 30)),
}
CUT = batch_at(9, [b"x"])[:30]
ORDINARY = {
    "a throttle time": in_all(throttle_time_ms=9),
    "records that are null": lambda answer: answer if first(answer).records else in_first(records=None)(answer),
    "no aborted transactions": in_first(aborted_transactions=[]),
    "a preferred replica": in_first(preferred_read_replica=2),
    "a batch that is cut off": lambda answer: in_first(records=first(answer).records + batch_at(9, [b"x"])[:30])(
        answer
    ),
}


def play(each, oddity):
    for number in range(10):
        for key in KEYS:
            each.leader.write(key, [b"%d" % number])
        if each.link.connection is None:
            each.connect()
        if number == 5:  # as once a second: a fenced partition waits for it
            each.steady.take_all([each.link], lambda *_: pytest.fail("nothing is wrong with it"))
            each.link.fetch.follow(each.rows())
        each.step(oddity if number == 2 else lambda answer: answer)
    each.steady.take_back(each.link)


@pytest.mark.parametrize("name", [*ODD, *ORDINARY])
def test_an_odd_answer_comes_to_the_same(both, name):
    for each in both:
        play(each, {**ODD, **ORDINARY}[name])
    same(both)
    native, _ = both
    assert [leo for leo, *_ in native.ends()] == [10, 10, 10], "they found their way back"
    # not the first, which makes the session, nor the one that was under way when it was taken back
    assert 0 < native.steady.answers < 8 if name in ODD else native.steady.answers == 8


def test_a_cut_log_and_a_fenced_row_are_pythons(native):
    """An append that fails ends it: nothing is asked before the row was looked at."""
    for key in KEYS:
        native.leader.write(key, [b"1"])
    native.step()
    assert native.steady.has(native.link)
    role = ReplicaRole.FOLLOWER
    assert native.log.become(1, role, EPOCH + 1, 2, [0, 1], [], FOLLOWER, 1, 0, leader=LEADER) == 0
    for key in KEYS:
        native.leader.write(key, [b"2"])
    native.step()
    assert not native.steady.has(native.link)
    assert [leo for leo, *_ in native.ends()] == [2, 1, 2], "the others' records are written"
    assert native.link.fetch.lag() == 1
    native.link.fetch.follow(native.rows())
    native.step()
    native.step()
    assert [leo for leo, *_ in native.ends()] == [2, 2, 2]


@pytest.mark.parametrize("taken_back_at", [None, 0, 14, 49])
def test_an_answer_in_pieces(native, taken_back_at):
    """Also one that is taken back when some bytes of it, or of its length, have come."""
    native.step()
    for number in range(4):
        native.leader.write(KEYS[0], [b"%d" % number * 30])
        native.steady.take_back(native.link)
        correlation_id = native.link.connection.correlation_id
        native.steady.lend(native.link)
        assert native.steady.has(native.link)

        def in_pieces(answer, correlation_id=correlation_id):
            frame = Follower.framed(answer, correlation_id)
            pieces = [frame[:3], *(frame[at : at + 7] for at in range(3, len(frame), 7))]
            for at, piece in enumerate(pieces[:-1]):
                native.far.sendall(piece)
                assert select.select([native.link.connection], [], [], 5)[0]
                native.turn()
                if taken_back_at is not None and at == taken_back_at // 7:
                    native.steady.take_back(native.link)
            return pieces[-1]

        native.step(in_pieces)
        assert native.ends()[0][0] == number + 1
    native.steady.take_back(native.link)
    assert native.steady.answers == (4 if taken_back_at is None else 0)


def test_a_leader_that_is_gone(native):
    native.step()
    assert native.steady.has(native.link)
    native.far.close()
    native.turn(1)
    assert native.lost == ["it closed the connection"] and not native.steady.has(native.link)


def test_a_socket_that_takes_no_more(native):
    """A leader that does not read: the rest of a request is Python's to send, and nothing of it is lost or doubled."""
    native.step()
    native.steady.take_back(native.link)
    asked = receive_frame(native.far)
    filled = fill(native.link.connection._socket)
    native.steady.lend(native.link)
    native.leader.write(KEYS[0], [b"x"])
    correlation_id = native.link.connection.correlation_id
    native.far.sendall(Follower.framed(native.leader.answer_to(asked), correlation_id))
    native.turn(1)
    assert native.ends()[0][0] == 1, "it was answered"
    assert not native.steady.has(native.link) and native.link.wants_to_write
    while filled:
        filled -= len(native.far.recv(min(filled, 1 << 16)))
        native.link.write()
    assert not native.link.wants_to_write
    asked = receive_frame(native.far)
    assert int.from_bytes(asked[4:8], "big") == correlation_id + 1
    assert native.leader.answer_to(asked).session_id == native.leader.session_id and native.leader.told[KEYS[0]] == 1


def fill(near):
    """How many bytes it took until it takes not even one more, also once the kernel has moved on what it holds: what
    was sent has arrived, and for longer than TCP waits with a small segment nothing else is sent."""
    filled, refused = 0, 0
    while refused < REFUSALS:
        try:
            filled += near.send(bytes(1 << 16 if not refused else 1))
            refused = 0
        except BlockingIOError:
            refused += _held(near, SIOCOUTQ) == _held(near, SIOCOUTQNSD)
            time.sleep(0.02)
    return filled


def _held(near, what):
    """Bytes that the kernel has not seen acknowledged, or has not sent."""
    return int.from_bytes(fcntl.ioctl(near, what, bytes(4)), "little")


def test_what_is_not_lent(native, monkeypatch):
    """Before a session is there; with a partition that is throttled, that waits for its turn, or without settings; with
    a question besides; more partitions than are served; an answer under way."""
    native.ask()
    assert not native.steady.has(native.link), "no session yet"
    native.step()
    native.steady.take_back(native.link)

    def is_lent():
        native.steady.lend(native.link)
        found = native.steady.has(native.link)
        native.steady.take_back(native.link)
        return found

    assert is_lent()
    native.throttled.add(2)
    assert not is_lent()
    native.throttled.clear()
    each = native.link.fetch._partitions[B, 0]
    for name, value in (("is_waiting", True), ("is_failed", True), ("pause_ms", 20)):
        before = getattr(each, name)
        setattr(each, name, value)
        assert not is_lent(), name
        setattr(each, name, before)
    told = native.link.fetch._told.pop((B, 0))
    assert not is_lent(), "it does not know this one"
    native.link.fetch._told[B, 0] = told
    native.link._questions.append(None)
    assert not is_lent()
    native.link._questions.clear()
    monkeypatch.setattr("mpbroker.replication.steady_links.STEADY_PARTITIONS", 2)
    assert not is_lent()
    monkeypatch.setattr("mpbroker.replication.steady_links.STEADY_PARTITIONS", 3)
    native.steady._options = {0: native.options(0), 1: native.options(1)}.get
    assert not is_lent()
    native.steady._options = native.options
    assert is_lent()


def test_session_epochs_begin_again_at_1(both):
    """2^31 − 1 is followed by 1, as a session's epoch 0 would make a new one."""
    for each in both:
        each.step()
        each.steady.take_back(each.link)
        each.link.fetch._session_epoch = 2**31 - 2
        if each.natively:
            each.steady.lend(each.link)
        for number in range(4):
            each.leader.write(KEYS[1], [b"%d" % number])
            each.step()
        each.steady.take_back(each.link)
    same(both)
    assert both[0].link.fetch._session_epoch == 3 and both[0].steady.answers == 4


def test_room_for_so_many(native):
    """One more is not begun; each is found by its own descriptor, and none that was taken back."""
    native.step()
    native.steady.take_back(native.link)
    fetches = SteadyFetches(native.log, native._epoll.fileno())
    about = ("c", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    assert [fetches.begin(fd, *about, []) for fd in range(1000, 1065)] == [True] * 64 + [False]
    assert fetches.take_back(1063) == (1, 3, True, 10, 0, b"", b"", [])
    with pytest.raises(KeyError):
        fetches.take_back(1063)
    assert fetches.begin(2000, *about, []) and not fetches.begin(2001, *about, [])
    with pytest.raises(KeyError):
        fetches.take_back(2001)


def test_impossible_arguments(native):
    fetches = SteadyFetches(native.log, native._epoll.fileno())
    about = ("c", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    good = (A, 0, 0, 1, 2, 3, 4, 5, native.options(0))
    for bad in ((A[:15], *good[1:]), (A, 0, 1 << 30, *good[3:])):
        with pytest.raises((ValueError, IndexError)):
            fetches.begin(1000, *about, [bad])
    with pytest.raises(ValueError):
        fetches.begin(1000, "c" * 65, *about[1:], [])
    with pytest.raises(ValueError):
        fetches.begin(1000, *about, [good] * 257)
    with pytest.raises(KeyError):
        fetches.take_back(1000)
    assert fetches.begin(1000, *about, [good] * 256)
    with pytest.raises(TypeError):
        SteadyFetches(None, 1)


def test_what_the_leader_has_committed_is_known_after_it_was_served_natively(native):
    """A lag is told by it."""
    native.step()
    for number in range(2):
        native.leader.write(KEYS[0], [b"%d" % number])
        native.step()
    native.leader.write(KEYS[0], [b"last"])
    native.step(in_first(high_watermark=9))
    native.steady.take_back(native.link)
    assert native.steady.answers == 3
    assert native.link.fetch._partitions[KEYS[0]].leader_hw == 9 and native.link.fetch.largest_lag() == 9 - 3
