"""A broker that stops asks the controller: so often, with such pauses, and goes on whatever comes of it."""

from types import SimpleNamespace
from typing import ClassVar

import pytest

from mpbroker.client.broker_channel import Outcome
from mpbroker.controller import controlled_shutdown as module
from mpbroker.controller.controlled_shutdown import FOLLOW_MS, ControlledShutdown, follows_the_store
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from mpbroker.shm.layout import PARTITION_ONLINE, ReplicaRole

ATTEMPTS, BACKOFF_MS = 3, 1000
ADDRESS = ("127.0.0.1", 9092)
REMAINING = ControlledShutdownResponse(remaining_partitions=[RemainingPartition(topic_name="t")])


class Channel:
    made: ClassVar[list] = []

    def __init__(self, host, port, client_id, timeout_ms):
        self.address, self.busy, self.sent, self.answer = (host, port), False, [], None
        self.turns, self.closed, self.timeout_ms = 0, 0, timeout_ms
        self.made.append(self)

    def send(self, message, now_ms):
        self.sent.append(message)
        self.busy = True

    def turn(self, now_ms):
        self.turns += 1
        if self.answer is not None:
            self.busy = False
        answer, self.answer = self.answer, None
        return answer

    def close(self):
        self.busy, self.closed = False, self.closed + 1


class Log:
    def __init__(self):
        self.lines = []

    def info(self, event, **fields):
        self.lines.append(event)

    warning = info


@pytest.fixture
def begin(monkeypatch):
    monkeypatch.setattr(module, "BrokerChannel", Channel)
    Channel.made.clear()

    def one(controller=lambda: ADDRESS, follows=lambda: True, backoff_ms=BACKOFF_MS):
        log = Log()
        made = ControlledShutdown(
            node_id=2,
            broker_epoch=lambda: 7,
            controller=controller,
            follows=follows,
            attempts=ATTEMPTS,
            backoff_ms=backoff_ms,
            log=log,
            now_ms=0,
        )
        return made, log

    return one


def answered(shutdown, response, now_ms):
    Channel.made[-1].answer = Outcome(response, "" if response else "closed")
    return shutdown.turn(now_ms)


def test_over_when_nothing_remains_and_the_roles_here_have_followed(begin):
    follows = []
    shutdown, _ = begin(follows=lambda: bool(follows))
    assert not shutdown.turn(0)
    (request,) = Channel.made[0].sent
    assert (request.broker_id, request.broker_epoch) == (2, 7)
    assert not shutdown.turn(1), "no answer yet"
    assert not answered(shutdown, ControlledShutdownResponse(), 2)
    assert not shutdown.turn(3), "still leads something"
    follows.append(1)
    assert shutdown.turn(4)


def test_roles_that_do_not_follow_are_not_waited_for_for_ever(begin):
    shutdown, _ = begin(follows=lambda: False)
    shutdown.turn(0)
    answered(shutdown, ControlledShutdownResponse(), 10)
    assert not shutdown.turn(10 + FOLLOW_MS - 1)
    assert shutdown.turn(10 + FOLLOW_MS)


def test_what_remains_is_asked_for_again_after_the_pause(begin):
    shutdown, log = begin()
    now = 0
    for attempt in range(ATTEMPTS):
        shutdown.turn(now)
        assert len(Channel.made[-1].sent) == attempt + 1
        over = answered(shutdown, REMAINING, now + 1)
        assert over == (attempt == ATTEMPTS - 1)
        before = Channel.made[-1].turns
        shutdown.turn(now + BACKOFF_MS)
        assert Channel.made[-1].turns == before + 1, "the other side may have closed it"
        assert len(Channel.made[-1].sent) == attempt + 1, "not before the pause is over"
        now += 1 + BACKOFF_MS
    assert log.lines == ["leaders_remain"] * ATTEMPTS


def test_a_controller_that_goes_is_looked_for_within_the_attempt(begin):
    now_there = [ADDRESS]
    shutdown, log = begin(controller=lambda: now_there[0])
    shutdown.turn(0)
    now_there[0] = None
    assert not shutdown.turn(1), "its connection is closed with the request in flight"
    now_there[0] = ("127.0.0.1", 9102)
    assert not shutdown.turn(50), "not yet"
    assert not shutdown.turn(101)
    assert [one.address[1] for one in Channel.made] == [9092, 9102]
    assert not answered(shutdown, ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER), 102)
    assert not shutdown.turn(202)
    assert len(Channel.made[-1].sent) == 2
    assert log.lines == []


def test_without_a_controller_it_ends_all_the_same(begin):
    shutdown, log = begin(controller=lambda: None)
    times = [now for now in range(0, 10_000, 100) if shutdown.turn(now)]
    assert times[0] == ATTEMPTS * BACKOFF_MS
    assert log.lines[:ATTEMPTS] == ["controlled_shutdown_failed"] * ATTEMPTS


@pytest.mark.parametrize(
    "response", [None, ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER), SimpleNamespace(error_code=0)]
)
def test_what_is_refused_or_lost_is_asked_for_again_a_tenth_of_a_second_later(begin, response):
    shutdown, log = begin()
    shutdown.turn(0)
    assert not answered(shutdown, response, 10)
    [channel] = Channel.made
    assert not shutdown.turn(109) and len(channel.sent) == 1
    assert not shutdown.turn(110) and len(channel.sent) == 2 and channel.closed == 0
    assert log.lines == [], "the attempt is not over"


def test_an_attempt_lasts_as_long_as_the_pause_between_two(begin):
    shutdown, log = begin()
    shutdown.turn(0)
    for now, lines in ((BACKOFF_MS - 1, 0), (BACKOFF_MS, 1), (2 * BACKOFF_MS - 1, 1), (2 * BACKOFF_MS, 2)):
        assert not answered(shutdown, None, now)
        assert len(log.lines) == lines
        shutdown.turn(now + 100)
    assert answered(shutdown, None, 3 * BACKOFF_MS), "the third was the last"


def test_its_connection_is_closed_when_there_is_nothing_more_to_ask_or_another_to_be_asked(begin):
    now_there = [ADDRESS]
    shutdown, _ = begin(controller=lambda: now_there[0], follows=lambda: False)
    shutdown.turn(0)
    now_there[0] = ("127.0.0.1", 9102)
    shutdown.turn(1)
    assert Channel.made[0].closed == 1 and len(Channel.made) == 2
    answered(shutdown, ControlledShutdownResponse(), 2)
    assert Channel.made[1].closed == 1 and shutdown.channel is None
    shutdown.turn(3)
    assert len(Channel.made) == 2


@pytest.mark.parametrize(
    ("backoff_ms", "timeout_ms"), [(10, 1000), (1000, 1000), (1001, 1001), (10**9, module.REQUEST_TIMEOUT_MS)]
)
def test_an_answer_is_waited_for_as_long_as_an_attempt_lasts_within_reason(begin, backoff_ms, timeout_ms):
    shutdown, _ = begin(backoff_ms=backoff_ms)
    shutdown.turn(0)
    assert Channel.made[0].timeout_ms == timeout_ms


LED, NOT_LED = ReplicaRole.LEADER, ReplicaRole.FOLLOWER


@pytest.mark.parametrize(
    "in_store, role, told, follows",
    [
        (7, LED, 7, True),  # it leads still by the store: nothing to follow
        (8, LED, 8, False),
        (8, NOT_LED, 7, False),
        (8, NOT_LED, 8, True),
        (8, NOT_LED, None, True),
    ],
)
@pytest.mark.parametrize("kind", ["usual", "offline", "directory", "absent"])
def test_the_roles_here_have_followed_when_no_log_and_no_client_thinks_otherwise(
    monkeypatch, in_store, role, told, follows, kind
):
    """A log that cannot be used leads nothing, whatever its row says."""
    shown = None if told is None else SimpleNamespace(leader=told)
    monkeypatch.setattr(module, "assignment_read", lambda _core, ordinal: shown if ordinal == 11 else None)
    monkeypatch.setattr(module, "decode_record", lambda _kind, value, _key: SimpleNamespace(leader=value))
    flags = 0 if kind == "offline" else PARTITION_ONLINE
    log = SimpleNamespace(
        state=lambda _ordinal: SimpleNamespace(flags=flags, log_dir=3),
        log_dir_online=lambda log_dir: kind != "directory" and log_dir == 3,
        replica_state=lambda ordinal: SimpleNamespace(role=role if ordinal == 11 else NOT_LED),
    )
    ours = SimpleNamespace(id="i", replicas=[[8], [7, 8]], ordinals=[10, 11])
    others = SimpleNamespace(id="j", replicas=[[8]], ordinals=[12])
    topics = SimpleNamespace(
        context=SimpleNamespace(by_id={"j": others, "i": ours}), has_log=lambda _ordinal: kind != "absent"
    )
    entries = [SimpleNamespace(key=f"p/{number}", value=leader) for number, leader in ((0, 8), (1, in_store), (2, 8))]
    scanned = []
    store = SimpleNamespace(scan=lambda prefix: scanned.append(prefix) or [SimpleNamespace(entries=entries)])
    keys = SimpleNamespace(partitions_of=lambda topic_id: topic_id)
    expected = follows if kind == "usual" else in_store == 7 or told != 7
    assert follows_the_store(store, keys, topics, log, None, 7) is expected
    assert scanned == ["i"], "the other topic has no replica here"
