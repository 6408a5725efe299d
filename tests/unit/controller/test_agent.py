"""The agent's single steps: which controller it believes, what it shows of brokers, whom it asks, how it leaves."""

from collections import deque
from types import SimpleNamespace

import msgspec
import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.controller import agent as module
from mpbroker.controller.agent import ATTEMPTS, Agent
from mpbroker.controller.cluster_view import (
    BrokersChanged,
    ClusterView,
    ControllerChanged,
    SettingsChanged,
    TopicGone,
    TopicPut,
)
from mpbroker.controller.command_inbox import Taken
from mpbroker.controller.controller_store import PRODUCER_ID_BLOCK, StoreChanged
from mpbroker.errors import ErrorCode
from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord
from mpbroker.metadata.commands import (
    AllocateProducerIds,
    ControlRequest,
    CreateTopics,
    Failed,
    ProducerIds,
    decode_answer,
    encode_command,
)
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Compacted, Put
from mpbroker.metadata.topic_record import TopicConfigRecord, TopicRecord, encode_record
from mpbroker.shm.cluster_table import NOBODY, ClusterState
from mpbroker.shm.process_table import BrokerState
from tests.harness.memory_store import MemoryStore
from tests.harness.small_core import small_core

OWN, KEYS = 1, Keys("c")
TOPIC = bytes(range(16))


class World:
    """An agent of parts: `state` is the cluster's in shared memory."""

    def __init__(self, monkeypatch):
        self.state, self.done, self.now_ms = ClusterState(1, NOBODY, NOBODY, NOBODY), [], 5000
        monkeypatch.setattr(module, "cluster_state", lambda _: self.state)
        monkeypatch.setattr(module, "cluster_announce", self.announce)
        made = self.made = Agent.__new__(Agent)
        note = self.done.append
        told = lambda event, *_, **__: note(event)  # noqa: E731
        made._ctx = SimpleNamespace(
            log=SimpleNamespace(info=told, warning=told, exception=told), handed_over=lambda: note("told supervisor")
        )
        made._core = SimpleNamespace(state=BrokerState.RUNNING, crash_point=lambda _: None)
        made._config = SimpleNamespace(
            node_id=OWN, controlled_shutdown_max_retries=3, controlled_shutdown_retry_backoff_ms=70,
            end_points=SimpleNamespace(inter_broker="IN", control=None),
        )  # fmt: skip
        made._keys, made._store = KEYS, MemoryStore()
        made._clock = SimpleNamespace(monotonic_ms=lambda: self.now_ms)
        made._view = SimpleNamespace(controller=None, brokers={})
        made._registered = made._watch = made._channel = made._shutdown = None
        made._handed_over = False
        made._topics = SimpleNamespace(context=SimpleNamespace(by_id={}))

    def announce(self, _core, controller, controller_epoch, broker_epoch):
        self.state = ClusterState(self.state.generation + 1, controller, controller_epoch, broker_epoch)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


@pytest.mark.parametrize(
    ("record", "seen", "known"),
    [
        (None, (3, 7), (NOBODY, 7)),
        ((2, 8), (3, 7), (2, 8)),
        ((2, 7), (3, 7), (2, 7)),
        ((2, 6), (3, 7), (3, 7)),
    ],
    ids=["nobody is elected", "newer", "the same", "older"],
)
def test_the_latest_controller_counts_whoever_told_of_it(world, record, seen, known):
    if record is not None:
        world.made._view.controller = SimpleNamespace(id=record[0], epoch=record[1])
    world.state = ClusterState(1, *seen, 4)
    assert world.made._known_controller() == known


def test_what_is_known_already_is_not_announced_again(world):
    world.state = ClusterState(1, 2, 7, 4)
    world.made._announce(2, 7)
    assert world.state.generation == 1
    world.made._announce(3, 8)
    assert world.state == (2, 3, 8, 4)
    world.made._registered = SimpleNamespace(epoch=9)
    world.made._announce(3, 8)
    assert world.state == (3, 3, 8, 9), "its own epoch is that of its registration"


@pytest.mark.parametrize(("epoch", "controller"), [(6, 2), (7, 2), (8, 3)])
def test_a_request_of_a_later_controller_is_believed(world, epoch, controller):
    world.state = ClusterState(1, 2, 7, 4)
    world.made._seen(3, epoch)
    assert world.state.controller == controller


def test_its_own_epoch_is_that_of_its_registration(world):
    world.made._view.brokers = {OWN: SimpleNamespace(epoch=3), 2: SimpleNamespace(epoch=5)}
    assert [world.made._broker_epoch(broker) for broker in (OWN, 2, 9)] == [3, 5, NOBODY]
    world.made._registered = SimpleNamespace(epoch=8)
    assert [world.made._broker_epoch(broker) for broker in (OWN, 2, 9)] == [8, 5, NOBODY]


@pytest.mark.parametrize("has_config", [False, True])
def test_a_topic_that_the_watch_has_not_brought_is_looked_up(world, has_config):
    record = TopicRecord(id=TOPIC.hex(), name="t", replicas=[[OWN]], created_ms=1)
    world.made._view, followed = ClusterView(KEYS), []
    world.made._follow = followed.append
    assert world.made._look_up(TOPIC) is None and followed == []
    puts = [Put(KEYS.topic(TOPIC), encode_record(record))]
    if has_config:
        puts.append(Put(KEYS.topic_config("t"), encode_record(TopicConfigRecord({"retention.ms": "5"}))))
    world.made._store.txn((), puts, tag="t")
    world.made._topics.context.by_id[TOPIC] = "shown"
    assert world.made._look_up(TOPIC) == "shown"
    assert [type(seen) for seen in followed] == [TopicPut] * (1 + has_config)
    assert followed[-1].topic.configs == ({"retention.ms": "5"} if has_config else {})


def test_what_the_store_tells_is_followed(world):
    note = world.done.append
    made, topic = world.made, SimpleNamespace(id=TOPIC)
    made._topics = SimpleNamespace(
        put=lambda one: note(("put", one)), remove=lambda one: note(("remove", one)),
        context=SimpleNamespace(by_id={}),
    )  # fmt: skip
    made._requests = SimpleNamespace(set_moved_aside=lambda shown: note(("aside", shown)))
    made._brokers = SimpleNamespace(store_changed=lambda: note("brokers"))
    made._announce = lambda *who: note(("controller", who))
    made._make_managers = lambda: note("settings")
    made._follow(TopicPut(topic))
    made._topics.context.by_id[TOPIC] = "shown"
    for seen in (TopicPut(topic), TopicGone(TOPIC), BrokersChanged(), ControllerChanged(), SettingsChanged()):
        made._follow(seen)
    assert world.done == [
        ("put", topic), ("put", topic), ("aside", "shown"), ("remove", TOPIC), "brokers",
        ("controller", (NOBODY, NOBODY)), "settings",
    ]  # fmt: skip


def test_a_watch_that_fell_behind_reads_everything_anew(world):
    def take():
        raise Compacted(5)

    world.made._watch = SimpleNamespace(take=take, fileno=lambda: 77)
    world.made._read_store = lambda: world.done.append("read")
    world.made._brokers = SimpleNamespace(forget=lambda: world.done.append("forget"))
    world.made.follow_store()
    assert world.done == ["forget", "read"] and world.made.watch_fd() == 77


def test_reading_anew_begins_the_watch_where_the_first_page_ends(world):
    recovered, closed, opened = [], [], []
    made, store = world.made, world.made._store
    made._topics.recover = recovered.append
    made._watch = SimpleNamespace(close=lambda: closed.append(1))
    revs = iter((50, 40, 60, 70))
    store.scan = lambda prefix: [SimpleNamespace(rev=next(revs), entries=[])]
    store.open_watch = lambda prefix, rev: opened.append((prefix, rev)) or "watch"
    made._read_store()
    assert (opened, closed, made._watch) == ([(KEYS.prefix, 41)], [1], "watch") and len(recovered) == 1


# ---- commands


@pytest.mark.parametrize(("changed", "given"), [(0, 0), (ATTEMPTS - 1, 0), (ATTEMPTS, None)])
def test_producer_ids_that_others_took_are_asked_for_again(world, changed, given):
    left = deque([StoreChanged()] * changed)

    def allocate():
        if left:
            raise left.popleft()
        return 0

    world.made._commands = SimpleNamespace(allocate_producer_ids=allocate)
    answer = decode_answer(world.made.execute(Taken(1, 0, encode_command(AllocateProducerIds()))))
    if given is None:
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    else:
        assert answer == ProducerIds(0, PRODUCER_ID_BLOCK)
    world.made._commands = SimpleNamespace(allocate_producer_ids=lambda: None)
    assert world.made._producer_ids().error_code == -1, "there are none left"


def test_every_command_is_answered(world, monkeypatch):
    made = world.made
    assert decode_answer(made.execute(Taken(1, 0, b"no"))).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert decode_answer(made.execute(Taken(1, 0, encode_command(CreateTopics([]))))) == Failed(
        ErrorCode.NOT_CONTROLLER
    )
    monkeypatch.setattr(module, "held_payload", lambda *_: None)
    answer = decode_answer(made.execute(Taken(1, 0, encode_command(ControlRequest(1, 2)))))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR and world.done == []
    monkeypatch.setattr(module, "held_payload", lambda *_: 1 / 0)
    answer = decode_answer(made.execute(Taken(1, 0, encode_command(ControlRequest(1, 2)))))
    assert answer == Failed(ErrorCode.UNKNOWN_SERVER_ERROR) and world.done == ["controller_command_failed"]
    assert made._execute(msgspec.UNSET) == (ErrorCode.INVALID_REQUEST, [])


# ---- the connection to the controller


class Channel:
    """Remembers what is sent; `answer` comes with the next turn."""

    def __init__(self, host="one", port=11, client_id=""):
        self.address, self.client_id = (host, port), client_id
        self.sent, self.busy, self.answer, self.closed, self.turns = [], False, None, False, 0

    def send(self, request, now_ms):
        self.sent.append((request, now_ms))

    def turn(self, _now_ms):
        self.turns += 1
        return self.answer

    def close(self):
        self.closed = True


@pytest.fixture
def proposing(world, monkeypatch):
    """An agent that knows its controller, broker 2, and has one thing to propose."""
    monkeypatch.setattr(module, "BrokerChannel", Channel)
    made, wanted, world.answered = world.made, deque(["first", "second"]), []
    made._view.controller = SimpleNamespace(id=2, epoch=1)
    record = BrokerRecord(2, "m", "d", "i", [ListenerRecord("IN", "PLAINTEXT", "one", 11)])
    made._view.brokers = {2: SimpleNamespace(epoch=5, record=record)}
    made._registered = SimpleNamespace(epoch=4)
    made._proposals = SimpleNamespace(
        next_request=lambda now_ms: wanted.popleft() if wanted else None,
        answered=lambda response, now_ms: world.answered.append(response) or (0 if response == "fine" else 9),
    )
    return world


def test_what_leaders_want_is_asked_of_the_controller_one_after_the_other(proposing):
    made = proposing.made
    made.propose()
    channel = made._channel
    assert channel.client_id == str(OWN) and channel.sent == [("first", 5000)]
    channel.busy = True
    made.propose()
    assert len(channel.sent) == 1 and made.channels() == [channel]
    channel.answer = SimpleNamespace(response="fine", problem="")
    made.propose()
    assert proposing.answered == ["fine"] and channel.sent[1:] == [("second", 5000)] and proposing.done == []
    channel.answer = SimpleNamespace(response=None, problem="gone")
    made.propose()
    assert proposing.done == ["alter_partition_failed"] and made._channel is channel and len(channel.sent) == 2
    channel.busy, channel.answer, before = False, None, channel.turns
    made.propose()
    assert channel.turns == before + 1, "nothing is asked: the other side may have closed it"


def test_who_is_not_registered_proposes_nothing(proposing):
    proposing.made._registered = None
    proposing.made.propose()
    assert proposing.made._channel.sent == []


def test_without_a_controller_there_is_no_connection_and_to_another_a_new_one(proposing):
    made = proposing.made
    controller, made._view.controller = made._view.controller, None
    assert made._to_controller() is None and made.channels() == []
    made._view.controller = SimpleNamespace(id=3, epoch=1)
    assert made._to_controller() is None, "it lives no more"
    made._view.controller = controller
    first = made._to_controller()
    assert made._to_controller() is first
    record = BrokerRecord(2, "m", "d", "i", [ListenerRecord("IN", "PLAINTEXT", "two", 12)])
    made._view.brokers[2] = SimpleNamespace(epoch=6, record=record)
    second = made._to_controller()
    assert second.address == ("two", 12) and first.closed and not second.closed


# ---- the end


def test_what_is_led_is_handed_over_once_before_the_broker_stops(world, monkeypatch):
    begun = []

    class Shutdown:
        channel = "leaving"

        def __init__(self, **named):
            begun.append(named)
            self.left = 1

        def turn(self, _now_ms):
            self.left -= 1
            return self.left < 0

    monkeypatch.setattr(module, "ControlledShutdown", Shutdown)
    made = world.made
    made.hand_over()
    assert not begun and made.channels() == []
    made._core.state = BrokerState.HANDING_OVER
    made.hand_over()
    assert world.done == [] and made.channels() == ["leaving"]
    for _ in range(2):
        made.hand_over()
        assert world.done == ["handed_over", "told supervisor"]
    [named] = begun
    assert (named["node_id"], named["attempts"], named["backoff_ms"], named["now_ms"]) == (OWN, 3, 70, 5000)


def test_at_the_end_the_session_and_everything_else_is_closed(world):
    made, closed = world.made, world.done
    made._store = SimpleNamespace(
        close=lambda: closed.append("store"), session_close=lambda session: closed.append(session)
    )
    made.close()
    assert closed == ["store"]
    made._channel = SimpleNamespace(close=lambda: closed.append("channel"))
    made._watch = SimpleNamespace(close=lambda: closed.append("watch"))
    made._registered = SimpleNamespace(session="session")
    made.close()
    assert closed[1:] == ["channel", "watch", "session", "store"]


def test_settings_that_were_read_again_hold_from_now_on(world):
    world.made.use_config("settings")
    assert world.made._config == "settings"


def test_roles_that_end_with_the_session_are_told_and_fetchers_rung(world):
    made, told = world.made, []
    made._log = SimpleNamespace(stop=lambda ordinal: 0 if ordinal == 4 else 42)
    made._roles = SimpleNamespace(role_of=lambda ordinal: "leader", changed=lambda *words: told.append(words))
    world.state = ClusterState(1, 2, 7, 4)
    topic = SimpleNamespace(name="t", ordinals=[4, 5])
    assert [made._end_role(topic, partition) for partition in (0, 1)] == [0, 42]
    assert told == [("t", 0, 4, "leader", 7)]
    rung = []
    made._core.ring_service = rung.append
    made._ring_fetchers()
    assert len(rung) == module.MAX_FETCHERS and rung[0] == module.SLOT_FETCHERS


def test_a_start_knows_everything_before_it_registers(world):
    made = world.made
    for name in ("_read_store", "_make_managers", "tell_changes", "_register"):
        setattr(made, name, lambda name=name: world.done.append(name))
    made._known_controller = lambda: (2, 9)
    made.recover()
    assert world.done == ["_read_store", "_make_managers", "tell_changes", "_register"]
    assert world.state.controller_epoch == 9


def test_an_agent_that_is_made_has_taken_nothing_over_yet():
    core, counted = small_core().core, []
    ctx = SimpleNamespace(
        core=core, config=load_broker_config(overrides=["node.id=4"], environ={}, cores=2), cluster_id="c",
        log=None, process_row=SimpleNamespace(count=counted.append), trace_notices_fd=-1,
    )  # fmt: skip
    store = MemoryStore()
    made = Agent(ctx, store, SimpleNamespace(replica_state=None), SimpleNamespace(), True)
    assert (made._registered, made._watch, made._channel, made._shutdown, made._told) == (None,) * 5
    assert made._handed_over is False and made._renewed_ms == 0 and made._unclean is True and made._failed == []
    assert [made._producer_ids().first_id for _ in range(2)] == [0, PRODUCER_ID_BLOCK]
    assert store.get(KEYS.producer_id_block)[1] is not None and counted == []
