"""Turn by turn of a cluster's controller: its session, its watch, its ticks, and what becomes of each command."""

import select
import zlib
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from mpbroker.cluster import events
from mpbroker.controller import cluster_process as module
from mpbroker.controller.cluster_process import MARGIN_BYTES, MAX_ROUNDS, TICK_MS, TURN_MS
from mpbroker.controller.command_inbox import Taken
from mpbroker.errors import ErrorCode
from mpbroker.metadata.cluster_records import ControllerRecord
from mpbroker.metadata.commands import (
    MAX_ANSWER_BYTES,
    AllocateProducerIds,
    AlterConfigs,
    ControlAnswer,
    ControlRequest,
    CreateTopics,
    Failed,
    NewTopic,
    TopicResult,
    TopicResults,
    encode_command,
)
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Absent, Batch, Compacted, Event, Put, StoreTimeout
from mpbroker.metadata.topic_record import decode_record
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from mpbroker.shm.process_table import BrokerState
from tests.unit.controller.test_cluster_process import Answers, FailingStore, candidate

KEYS = Keys("c")
HEARTBEAT_MS, WALL_MS = 2000, 1_800_000_000_000


class World:
    """A candidate at a clock of its own; `told`: its lines; `sent`: what its sender and its figures were asked for."""

    def __init__(self, store=None):
        self.now_ms, self.store, self.told, self.sent = 10_000, store or FailingStore(), [], []
        self.answers = Answers()
        process = self.process = candidate(self.store, self.answers)
        process._clock = SimpleNamespace(
            monotonic_ms=lambda: self.now_ms, wall_ms=lambda: WALL_MS, monotonic_ns=lambda: self.now_ms * 1_000_000
        )
        line = lambda event, **fields: self.told.append((event, fields))  # noqa: E731
        process._ctx.log = SimpleNamespace(info=line, warning=line)
        note = lambda name: lambda *words: self.sent.append((name, *words))  # noqa: E731
        process._sender = SimpleNamespace(
            turn=note("turn"), push=note("push"), close=note("close"), wait_ms=lambda now_ms: now_ms,
            register=note("register sender"),
        )  # fmt: skip
        process._figures = SimpleNamespace(show=note("show"))

    def turn(self, ms=0):
        self.now_ms += ms
        self.sent.clear()
        self.process.turn()

    def named(self, event):
        return [fields for name, fields in self.told if name == event]

    def holder(self):
        entry = self.store.get(KEYS.controller)[1]
        return None if entry is None else decode_record(ControllerRecord, entry.value, entry.key)


@pytest.fixture
def world():
    return World()


class Term:
    """A term that answers every event as told, and remembers them."""

    epoch = 1
    metrics = SimpleNamespace(event_queue_time=SimpleNamespace(add=lambda waited_ms: None))

    def __init__(self, *effects):
        self.effects, self.seen = list(effects), []

    def event(self, event, now_ms):
        assert now_ms == WALL_MS
        self.seen.append(event)
        return self.effects.pop(0) if self.effects else []


# ---- the session


def test_its_session_is_renewed_once_in_a_heartbeat(world):
    renewed, renew = [], world.store.session_renew
    world.store.session_renew = lambda session: renewed.append(world.now_ms) or renew(session)
    world.turn()
    for ms in (HEARTBEAT_MS - 1, 1, HEARTBEAT_MS - 1, 500, HEARTBEAT_MS - 1, 1):
        world.turn(ms)
    assert renewed == [12_000, 14_499, 16_499] and world.process._term is not None
    assert next(iter(world.store._sessions.values())).ttl_ms == 9000, "as long as a broker's"


def test_a_session_that_ended_ends_the_term_and_the_next_turn_begins_another(world):
    world.turn()
    first, incarnation = world.process._session, world.holder().incarnation
    world.store.session_close(first)
    world.turn(HEARTBEAT_MS)
    assert world.named("controller_resigned") == [{"reason": "the session has ended", "epoch": 1}]
    assert world.process._term is None and world.holder() is None
    assert ("close",) in world.sent, "nobody is told anything in the old term's name"
    world.turn()
    assert world.process._term.epoch == world.holder().epoch == 2
    assert world.process._session != first and world.holder().incarnation != incarnation
    assert world.named("controller_elected") == [{"epoch": 1, "node": 1}, {"epoch": 2, "node": 1}]


def test_a_broker_that_stops_gives_its_session_back_and_opens_no_other(world):
    world.turn()
    world.process._ctx.core.state = BrokerState.DRAINING
    for _ in range(2):
        world.turn()
        assert world.store._sessions == {} and world.process._session is None and world.process._watch is None
    assert world.named("controller_resigned") == [{"reason": "the broker stops", "epoch": 1}]
    assert world.sent == [], "it shows and tells nothing more"


class Watches:
    """How many watches of a store are open."""

    def __init__(self, store):
        self.open, open_watch = 0, store.open_watch

        def counted(*words):
            watch = open_watch(*words)
            close = watch.close
            self.open += 1

            def closed():
                self.open -= 1
                close()

            watch.close = closed
            return watch

        store.open_watch = counted


def test_there_is_one_watch_at_a_time_and_none_of_a_broker_that_stops(world):
    watches = Watches(world.store)
    world.turn()
    assert watches.open == 1, "that of the candidate is closed when the term's begins"
    other = World(world.store)
    other.process._node_id = 2
    other.turn()
    assert watches.open == 2 and other.process._term is None
    for one in (other, world):
        one.process._ctx.core.state = BrokerState.DRAINING
        one.turn()
    assert watches.open == 0, "a candidate's too"


def test_the_orderly_end_closes_everything(world):
    done = []
    process = world.process
    world.turn()
    process._forwarded = SimpleNamespace(close=lambda: done.append("forwarded"))
    process._changes = SimpleNamespace(flush=lambda: None, close=lambda: done.append("changes"))
    world.store.close = lambda: done.append("store")
    process.close()
    assert done == ["forwarded", "changes", "store"] and world.store._sessions == {} and world.holder() is None


# ---- the watch


def test_a_loop_waits_for_the_watch_and_for_connections(world):
    fds = []
    poll = SimpleNamespace(register=lambda fd, events: fds.append((fd, events)))
    world.process._forwarded = SimpleNamespace(register=lambda given: world.sent.append(("register forwarded", given)))
    world.process.register(poll)
    assert fds == [] and world.sent == [("register sender", poll), ("register forwarded", poll)]
    world.process._watch = SimpleNamespace(fileno=lambda: 77)
    world.process.register(poll)
    assert fds == [(77, select.POLLIN)]


@pytest.mark.parametrize(("sender_ms", "wait_ms"), [(TURN_MS + 1, TURN_MS), (TURN_MS - 1, TURN_MS - 1), (0, 0)])
def test_it_waits_no_longer_than_a_turn_nor_than_its_connections_say(world, sender_ms, wait_ms):
    world.now_ms = sender_ms
    assert world.process.wait_ms() == wait_ms


def test_a_candidate_looks_again_when_the_key_goes_and_not_when_it_changes(world):
    other = World(world.store)
    other.process._node_id = 2
    world.turn()
    other.turn()
    tried, elect = [], module.elect
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "elect", lambda *words: tried.append(words[2]) or elect(*words))
        entry = world.store.get(KEYS.controller)[1]
        world.store.txn((), [Put(entry.key, entry.value, entry.session)], tag="")
        other.turn()
        assert tried == [] and not other.process._is_undecided
        world.process.close()
        other.turn()
        assert tried == [2] and other.process._term.epoch == 2
        other.turn()
        assert tried == [2], "it is elected"


def test_what_happened_before_its_watch_began_is_in_its_image(world):
    world.store.txn((), [Put(KEYS.prefix + "before", b"")], tag="")
    world.turn()
    term, seen = world.process._term, []
    term.event = lambda event, now_ms: seen.append(event) or []
    world.store.txn((), [Put(KEYS.prefix + "after", b"")], tag="")
    rev = world.store.revision()
    world.turn()
    stored = [one for one in seen if isinstance(one, events.StoreBatch)]
    assert [(one.rev, [event.key for event in one.events]) for one in stored] == [(rev, [KEYS.prefix + "after"])]
    world.turn()
    assert [one for one in seen if isinstance(one, events.StoreBatch)] == stored, "once"


def test_what_the_store_told_after_the_term_ended_is_not_for_it(world):
    world.turn()
    term = world.process._term = Term([events.Resign("enough")])
    batches = [Batch(5, (Event("a", None),)), Batch(6, (Event("b", None),))]
    world.process._watch = SimpleNamespace(take=lambda: batches, close=lambda: None)
    world.turn()
    assert term.seen == [events.StoreBatch(5, (Event("a", None),))] and world.process._term is None


@pytest.mark.parametrize("elected", [True, False])
def test_a_watch_whose_history_is_gone_ends_a_term(world, elected):
    world.turn()
    if not elected:
        world.process._term = None
    closed = []

    def take():
        raise Compacted(5)

    world.process._watch = SimpleNamespace(take=take, close=lambda: closed.append(1))
    world.turn()
    assert closed == [1] and world.process._watch is None and world.process._term is None
    assert [one["reason"] for one in world.named("controller_resigned")] == ["the store's history is gone"] * elected
    world.turn()
    assert world.process._watch is not None and world.process._term is not None, "it may have missed that the key went"


# ---- the term


def test_a_term_is_reminded_of_the_time_twice_a_second_and_tells_brokers_in_every_turn(world):
    world.turn()
    term = world.process._term = Term()
    ticks = []
    for ms in (0, TICK_MS - 1, 1, 1, TICK_MS - 1):
        world.turn(ms)
        ticks.append(sum(isinstance(one, events.Tick) for one in term.seen))
        assert world.sent == [("turn", term, world.now_ms, WALL_MS), ("show", term, world.now_ms, WALL_MS)]
    assert ticks == [0, 0, 1, 1, 2]


def test_a_tick_that_ends_the_term_is_followed_by_nothing(world):
    world.turn()
    world.process._term = Term([events.Resign("enough")])
    world.turn(TICK_MS)
    assert world.sent == [("close",), ("show", None, world.now_ms, WALL_MS)]


def test_the_settings_of_a_broker_are_those_of_its_next_term(world, monkeypatch):
    made, whole = [], module.ClusterController
    monkeypatch.setattr(module, "ClusterController", lambda **given: made.append(given) or whole(**given))
    world.store.limits = replace(world.store.limits, max_ops=119)
    world.turn()
    config = SimpleNamespace(**vars(world.process._config) | {"num_partitions": 7, "delete_topic_enable": False})
    config.mpbroker_state_change_log_bytes = 1
    world.store.limits = replace(world.store.limits, max_ops=5000)
    world.process.use_config(config)
    assert world.process._changes.most_bytes == 1
    world.process._end_term("again")
    world.turn()
    (first, second) = ((one["config"].num_partitions, one["config"].log_partitions) for one in made)
    assert (first, second) == ((1, False), (7, True))
    assert [one["config"].delete_topic_enable for one in made] == [True, False]
    assert made[1]["config"].inter_broker_listener_name == "INTERNAL"
    assert [one["max_operations"] for one in made] == [119, 120], "what any store takes"
    assert (made[1]["epoch"], made[1]["node_id"]) == (2, 1)


def test_its_lines_and_what_it_tells_come_before_its_first_transactions(world):
    done = []
    term = SimpleNamespace(
        start=lambda now_ms: [events.Txn("t", (), ()), events.Log("INFO", "begun", {"a": 1}), events.Reply(9, None)]
    )
    world.process._carry_out = lambda effects: done.append([type(one).__name__ for one in effects])
    world.process._sender.turn = lambda *words: done.append(words)
    world.process._begin(term)
    assert done == [["Log"], (term, world.now_ms, WALL_MS), ["Txn", "Reply"]]


def test_effects_are_carried_out_in_their_order_and_lead_to_further_ones(world):
    world.turn()
    world.sent.clear()
    key, process = KEYS.prefix + "k", world.process
    kept = []
    process._changes = SimpleNamespace(add=lambda *line: kept.append(line), flush=lambda: kept.append("flush"))
    process._asked[5] = None
    term = process._term = Term([events.Read("tag", (key, "nothing"))], [events.Reply(5, TopicResults([]))])
    world.told.clear()
    process._carry_out([
        events.Log("DEBUG", "partition", {"b": 2}),
        events.Txn("tag", (Absent(key),), (Put(key, b"value"),)),
        events.Log("INFO", "whole", {"a": 1}),
    ])  # fmt: skip
    assert world.sent == [("push",)], "what is to be told goes before the store is waited for"
    done, read = term.seen
    assert (done.tag, done.outcome.rev, read.tag) == ("tag", world.store.revision(), "tag")
    assert read.entries == {key: world.store.get(key)[1], "nothing": None} and read.entries[key].value == b"value"
    assert world.answers.given == [(5, TopicResults([]), 7)]
    assert kept == [("DEBUG", "partition", {"b": 2}), ("INFO", "whole", {"a": 1}), "flush"]
    assert world.told == [("whole", {"a": 1})], "a line for each partition is for its file alone"


def test_what_a_term_that_is_over_wanted_of_the_store_is_left(world):
    world.process._term = None
    before = world.store.revision()
    world.process._carry_out_in_order([events.Txn("t", (), (Put("k", b""),)), events.Read("t", ("k",))])
    assert world.store.revision() == before and world.sent == []


def test_effects_without_an_end_end_the_term(world, monkeypatch):
    """Each transaction that leads to another is one step."""
    assert MAX_ROUNDS == 100_000
    monkeypatch.setattr(module, "MAX_ROUNDS", 4)
    world.turn()
    term = world.process._term = Term(*[[events.Read("t", ())]] * 9)
    world.process._carry_out([events.Read("t", ())])
    assert len(term.seen) == 4 and world.named("controller_resigned")[-1]["reason"] == "more than 4 steps for one event"
    world.turn()
    term = world.process._term = Term(*[[events.Read("t", ())]] * 2)
    world.process._carry_out([events.Read("t", ())])
    assert len(term.seen) == 3 and world.process._term is term


def test_a_store_that_does_not_answer_ends_the_term_and_the_broker_does_not_wait_to_resign(world):
    world.turn()
    process = world.process
    process._asked.update({3: None, 4: 2})
    world.store.failing = {"txn": 2}
    process._carry_out([events.Txn("t", (), (Put("k", b""),))])
    assert world.named("controller_resigned") == [{"reason": "the store does not answer: txn", "epoch": 1}]
    assert [(number, answer) for number, answer, _ in world.answers.given] == [
        (3, Failed(ErrorCode.NOT_CONTROLLER)), (4, Failed(ErrorCode.NOT_CONTROLLER)),
    ]  # fmt: skip
    assert process._asked == {} and process._elected is None and process._watch is None
    assert world.holder() is not None, "it goes with the session"


def test_the_end_of_no_term_is_nothing(world):
    world.process._end_term("why not")
    assert world.told == [] and world.sent == []


# ---- commands


def control(monkeypatch, version=2):
    frame = encode_request_frame(AlterPartitionRequest(broker_id=3, broker_epoch=77), version, 5, "a client")
    held = []
    monkeypatch.setattr(module, "held_payload", lambda *words: held.append(words[1:]) or frame[4:])
    return held


@pytest.mark.parametrize("version", [2, 3])
def test_a_brokers_request_is_answered_in_its_version(world, monkeypatch, version):
    held = control(monkeypatch, version)
    world.turn()
    seen = world.process._term = Term()
    world.process.command(Taken(6, 0, encode_command(ControlRequest(33, 44)), 0))
    assert held == [(33, 44)] and world.process._asked == {6: version}
    (asked,) = seen.seen
    assert (asked.id, asked.command.broker_id, asked.command.broker_epoch) == (6, 3, 77)
    world.process._reply(6, AlterPartitionResponse(error_code=77))
    [(number, answer, generation)] = world.answers.given
    assert (number, generation, answer.error_code, answer.codes) == (6, 7, 0, b"")
    body = zlib.decompress(answer.body)
    assert decode(AlterPartitionResponse, version, body).error_code == 77
    world.process._reply(6, AlterPartitionResponse())
    assert len(world.answers.given) == 1, "each is answered once"


def test_an_answer_that_has_no_room_is_an_error(world, monkeypatch):
    message, most = AlterPartitionResponse(), MAX_ANSWER_BYTES - MARGIN_BYTES
    for number, size in ((1, most), (2, most + 1)):
        monkeypatch.setattr(module, "zlib", SimpleNamespace(compress=lambda body, level, size=size: bytes(size)))
        world.process._asked[number] = 2
        world.process._reply(number, message)
    (_, first, _), (_, second, _) = world.answers.given
    assert first == ControlAnswer(0, body=bytes(most)) and second == ControlAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_request_that_is_not_held_any_more_is_an_error(world, monkeypatch):
    monkeypatch.setattr(module, "held_payload", lambda *_: None)
    world.process.command(Taken(6, 0, encode_command(ControlRequest(33, 44))))
    assert world.answers.given == [(6, ControlAnswer(ErrorCode.UNKNOWN_SERVER_ERROR), 7)]


def test_a_candidate_refuses_in_the_form_that_was_asked_in_and_forwards_what_its_broker_wants(world, monkeypatch):
    control(monkeypatch)
    added = []
    world.process._forwarded = SimpleNamespace(add=lambda number, command: added.append((number, command)))
    own, strange = CreateTopics([NewTopic("t", 1)], forward=True), CreateTopics([NewTopic("t", 1)])
    for number, command in enumerate((ControlRequest(1, 2), AllocateProducerIds(), own, strange, AlterConfigs([]))):
        world.process.command(Taken(number, 0, encode_command(command)))
    assert added == [(2, own), (4, AlterConfigs([]))]
    assert world.answers.given == [
        (0, ControlAnswer(ErrorCode.NOT_CONTROLLER), 7),
        (1, Failed(ErrorCode.NOT_CONTROLLER), 7),
        (3, Failed(ErrorCode.NOT_CONTROLLER), 7),
    ]


def test_what_another_controller_answered_is_handed_on(world):
    answered = TopicResults([TopicResult("t", 36)])
    world.process._forwarded = SimpleNamespace(turn=lambda now_ms: [(now_ms, answered), (2, Failed(41))])
    world.turn()
    assert world.answers.given == [(10_000, answered, 7), (2, Failed(41), 7)]


def test_the_elected_forwards_nothing(world):
    world.turn()
    world.process._forwarded = SimpleNamespace(add=lambda *_: pytest.fail("it is for itself"))
    world.process.command(Taken(4, 0, encode_command(CreateTopics([NewTopic("t", 1, 1)], forward=True))))
    assert [number for number, *_ in world.answers.given] == [4]


def test_as_long_as_no_session_is_to_be_had_nobody_is_elected(world):
    world.process._watch = world.store.open_watch(KEYS.controller, 1)
    world.process._try()
    assert world.holder() is None and world.process._is_undecided
    world.store.failing = {"session_open": 1}
    with pytest.raises(StoreTimeout):
        world.turn()
    world.turn()
    assert world.holder() is not None


def test_an_election_that_was_answered_by_nobody_is_known_as_ones_own(world):
    """The same incarnation strives until it is elected, or knows who is."""
    world.store.failing = {"scan": 1}
    with pytest.raises(StoreTimeout):
        world.turn()
    first = world.holder()
    assert first.incarnation == world.process._incarnation and len(first.incarnation) == 16
    world.turn()
    assert world.holder() == first and world.process._term.epoch == 1
