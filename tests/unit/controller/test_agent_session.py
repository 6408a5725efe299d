"""An agent with a store and shared memory of its own: what it registers, when it renews its session, what it shows of
the store before anybody asks, and how it begins again."""

import zlib
from array import array
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.controller import agent as module
from mpbroker.controller.agent import AGAIN_MS, Agent, LostRegistration
from mpbroker.controller.command_inbox import Taken
from mpbroker.controller.own_record import machine
from mpbroker.errors import ErrorCode
from mpbroker.metadata.cluster_records import BrokerRecord, ControllerRecord, ListenerRecord
from mpbroker.metadata.commands import (
    AlterConfigs,
    ConfigChange,
    ConfigChanges,
    ControlAnswer,
    ControlRequest,
    FeatureUpdate,
    UpdateFeatures,
    decode_answer,
    encode_command,
)
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Delete, Put
from mpbroker.metadata.topic_record import TopicConfigRecord, TopicRecord, decode_record, encode_record
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from mpbroker.protocol.messages.stop_replica import StopReplicaRequest
from mpbroker.protocol.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataRequest
from mpbroker.shm.cluster_table import GONE, NOBODY, Broker, brokers_shown, cluster_announce, cluster_state
from mpbroker.shm.layout import ReplicaRole
from mpbroker.shm.process_context import BoundListener
from mpbroker.shm.process_table import BrokerState
from tests.harness.memory_store import MemoryStore
from tests.harness.small_core import small_core
from tests.unit.log.log_world import Events

OWN, KEYS, TOPIC = 4, Keys("c"), bytes(range(16))
SETTINGS = ["node.id=4", "broker.session.timeout.ms=9000", "broker.heartbeat.interval.ms=2000", "num.io.threads=2"]
LISTENER = BoundListener(0, "PLAINTEXT", "PLAINTEXT", "h", 1, "a", 9, False)


class Topics:
    """What the agent has done with the rows of topics. `here`: rows with a log."""

    def __init__(self, **_given):
        self.recovered, self.announced, self.moves_noted, self.here = [], [], 0, set()
        self.context = SimpleNamespace(by_id={}, by_name={})

    def recover(self, topics):
        self.recovered.append([(topic.name, topic.configs) for topic in topics])

    def note_moves(self):
        self.moves_noted += 1

    def has_log(self, ordinal):
        return ordinal in self.here

    def announce(self, topic):
        self.announced.append(topic.name)


class World:
    """An agent over small tables. `offline`: log directories that failed; `busy`: rows whose roles do not end."""

    def __init__(self):
        self.now_ms, self.store, self.events, self.published = 50_000, MemoryStore(), Events(), []
        self.offline, self.busy, self.stopped, self.proposed, self.beats = set(), set(), [], [], 0
        self.core = small_core(replicated=True).core
        self.core.state = BrokerState.RUNNING
        self.ctx = SimpleNamespace(
            core=self.core, config=load_broker_config(overrides=SETTINGS, environ={}, cores=2), cluster_id="c",
            log=self.events, process_row=SimpleNamespace(count=lambda *_: None, beat=self.beat), trace_notices_fd=-1,
            publish_settings=self.published.append, listeners=(LISTENER,), directory_ids=["d0", "", "d2"], boot_id=0x77,
        )  # fmt: skip
        self.agent = self.made(unclean=False)

    def made(self, unclean):
        log = SimpleNamespace(
            replica_state=lambda ordinal: None, log_dir_online=lambda number: number not in self.offline,
            stop=self.stop, take_isr_proposals=self.proposals,
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(module, "SystemClock", lambda: SimpleNamespace(monotonic_ms=lambda: self.now_ms))
            patched.setattr(module, "ClusterTopics", Topics)
            agent = Agent(self.ctx, self.store, log, SimpleNamespace(), unclean)
        self.topics = agent._topics
        return agent

    def beat(self):
        self.beats += 1

    def stop(self, ordinal):
        self.stopped.append(ordinal)
        return ErrorCode.REQUEST_TIMED_OUT if ordinal in self.busy else ErrorCode.NONE

    def proposals(self, lag_ms, now_ms, again):
        """Partition 3 of the topic is to have brokers 4 and 2 in sync."""
        self.proposed.append((lag_ms, now_ms))
        return [(9, 6, 7, (OWN, 2))], False

    def put(self, key, record):
        self.store.txn((), [Put(key, encode_record(record))], tag="")

    def registered(self):
        """(epoch, record) in the store."""
        entry = self.store.get(KEYS.broker(OWN))[1]
        return entry.create_rev, decode_record(BrokerRecord, entry.value, entry.key)


@pytest.fixture
def world():
    return World()


# ---- the registration


def test_a_broker_that_starts_is_known_and_knows_itself(world):
    world.agent.recover()
    epoch, record = world.registered()
    assert record == BrokerRecord(
        OWN, machine(), "d0", f"{0x77:016x}", [ListenerRecord("PLAINTEXT", "PLAINTEXT", "a", 9)]
    )
    assert cluster_state(world.core)[1:] == (NOBODY, 0, epoch)
    assert world.events.named("broker_registered") == [{"broker_epoch": epoch, "resumed": False}]
    assert len(world.published) == 1 and world.topics.moves_noted == 1


def test_an_unclean_start_is_registered_as_one(world):
    world.agent = world.made(unclean=True)
    world.agent.recover()
    assert world.registered()[1].unclean is True


def test_an_id_that_another_broker_has_ends_the_start(world):
    world.put(KEYS.broker(OWN), BrokerRecord(OWN, "m", "other", "i", [ListenerRecord("X", "PLAINTEXT", "far", 5)]))
    with pytest.raises(LostRegistration, match=r"another broker has node.id 4 in this cluster: X://far:5"):
        world.agent.recover()
    assert world.agent._registered is None and not world.events.named("broker_registered")


def test_what_a_broker_says_of_itself_is_said_again_when_it_is_something_else(world):
    agent = world.agent
    agent.tell_changes()
    assert world.store.get(KEYS.broker(OWN))[1] is None, "not before its start is through"
    agent.recover()
    epoch, _ = world.registered()
    before = world.store.revision()
    agent.tell_changes()
    assert world.store.revision() == before and world.topics.moves_noted == 3
    world.offline = {1, 2}
    agent.tell_changes()
    assert world.registered()[0] == epoch and world.registered()[1].failed == ["#1", "d2"]
    world.ctx.listeners = (LISTENER._replace(advertised_port=10),)
    agent.tell_changes()
    assert world.registered()[0] == epoch and world.registered()[1].listeners[0].port == 10
    before = world.store.revision()
    agent.tell_changes()
    assert world.store.revision() == before, "said once"
    assert [one["resumed"] for one in world.events.named("broker_registered")] == [False, True, True]


def test_the_controller_that_the_store_names_is_known_after_a_start(world):
    world.put(KEYS.controller, ControllerRecord(2, 7, "i"))
    world.agent.recover()
    assert cluster_state(world.core)[1:] == (2, 7, world.registered()[0])


# ---- the session


def test_the_session_is_renewed_once_in_a_heartbeat(world):
    agent, renewed = world.agent, []
    agent.recover()
    renew, world.store.session_renew = world.store.session_renew, lambda one: renewed.append(world.now_ms) or renew(one)
    begun = world.now_ms
    for now_ms in (begun, begun + 1999, begun + 2000, begun + 3999, begun + 4500, begun + 6499, begun + 6500):
        world.now_ms = now_ms
        agent.keep_alive()
    assert renewed == [begun + 2000, begun + 4500, begun + 6500] and world.beats == 3
    assert not world.events.named("broker_session_lost") and world.stopped == []


def test_a_registration_that_is_said_again_is_a_renewal_too(world):
    world.agent.recover()
    world.now_ms += 1500
    world.offline = {0}
    world.agent.tell_changes()
    world.store.session_renew = lambda session: pytest.fail("not yet")
    world.now_ms += 1999
    world.agent.keep_alive()


@pytest.fixture
def lost(world):
    """Its session has ended; a topic is here with one of its two partitions, and one of offsets."""
    world.agent.recover()
    names = {b"t": ("t", [4, 5]), b"o": ("__consumer_offsets", [7])}
    world.topics.context.by_id = {
        key: SimpleNamespace(name=name, ordinals=ordinals) for key, (name, ordinals) in names.items()
    }
    world.topics.here = {4, 7}
    world.first = world.registered()[0]
    world.store.session_close(world.agent._registered.session)
    world.now_ms += 2000
    return world


def test_a_session_that_ended_is_followed_by_another_with_a_higher_epoch(lost):
    lost.agent.keep_alive()
    epoch, _ = lost.registered()
    assert lost.stopped == [4, 7], "what is here"
    assert lost.topics.announced == ["__consumer_offsets"], "groups are coordinated by it no more"
    assert epoch > lost.first and lost.agent._registered.epoch == epoch == cluster_state(lost.core).broker_epoch
    assert lost.events.named("broker_session_lost") == [{"broker_epoch": lost.first}]
    lost.now_ms += 1999
    lost.agent.keep_alive()
    assert lost.beats == 1, "the next is due after a heartbeat again"


def test_a_role_that_does_not_end_keeps_the_broker_away_and_is_tried_after_a_short_pause(lost):
    lost.busy = {7}
    lost.agent.keep_alive()
    assert lost.store.get(KEYS.broker(OWN))[1] is None and lost.agent._registered is None
    assert lost.topics.announced == ["__consumer_offsets"]
    lost.busy.clear()
    lost.now_ms += AGAIN_MS - 1
    lost.agent.keep_alive()
    assert lost.stopped == [4, 7]
    lost.now_ms += 1
    lost.agent.keep_alive()
    assert lost.stopped == [4, 7, 4, 7] and lost.registered()[0] > lost.first


def test_a_role_that_ended_is_traced_with_the_role_it_was(lost):
    told = []
    role_of, changed = lambda ordinal: ReplicaRole.LEADER, lambda *one: told.append(one)
    lost.agent._roles = SimpleNamespace(role_of=role_of, changed=changed)
    cluster_announce(lost.core, 2, 9, lost.first)
    lost.busy = {7}
    lost.agent.keep_alive()
    assert told == [("t", 0, 4, ReplicaRole.LEADER, 9)]


# ---- the store


def test_a_start_has_every_topic_with_its_settings(world):
    for number in range(3):
        topic_id = bytes([number]) * 16
        world.put(KEYS.topic(topic_id), TopicRecord(topic_id.hex(), f"t{number}", [[OWN]], 1))
    world.put(KEYS.topic_config("t1"), TopicConfigRecord({"retention.ms": "5"}))
    world.agent.recover()
    assert sorted(world.topics.recovered[0]) == [("t0", {}), ("t1", {"retention.ms": "5"}), ("t2", {})]


def test_what_the_store_tells_after_the_start_is_followed(world):
    done, agent = [], world.agent
    agent.recover()
    world.topics.put = lambda topic: done.append(("put", topic.name, topic.configs))
    world.topics.remove = lambda topic_id: done.append(("remove", topic_id))
    record = BrokerRecord(2, "m", "d", "i", [ListenerRecord("IN", "PLAINTEXT", "one", 11)])
    world.put(KEYS.topic(TOPIC), TopicRecord(TOPIC.hex(), "t", [[OWN]], 1))
    world.put(KEYS.topic_config("t"), TopicConfigRecord({"retention.ms": "5"}))
    world.put(KEYS.broker(2), record)
    world.put(KEYS.controller, ControllerRecord(2, 7, "i"))
    world.put(KEYS.broker_configs + "4", TopicConfigRecord({}))
    world.store.txn((), [Delete(KEYS.topic(TOPIC))], tag="")
    agent._make_managers = lambda: done.append("settings")
    agent.follow_store()
    assert done == [("put", "t", {}), ("put", "t", {"retention.ms": "5"}), "settings", ("remove", TOPIC)]
    assert cluster_state(world.core)[1:3] == (2, 7) and agent._broker_epoch(2) > 0
    assert agent._controller_address() is None, "it has no listener of ours"
    agent.follow_store()
    assert len(done) == 4, "each once"


def test_a_broker_that_the_store_lost_is_shown_as_gone_for_as_long_as_a_session(world):
    agent = world.agent
    agent.recover()
    record = BrokerRecord(2, "m", "d", "i", [])
    world.put(KEYS.broker(2), record)
    agent.follow_store()
    agent._brokers.show([Broker(2, NOBODY, [])])
    assert brokers_shown(world.core)[2].epoch == agent._broker_epoch(2)
    world.store.txn((), [Delete(KEYS.broker(2))], tag="")
    agent.follow_store()
    assert brokers_shown(world.core)[2].epoch == GONE
    world.now_ms += 8999
    agent.follow_store()
    assert 2 in brokers_shown(world.core)
    world.now_ms += 1
    agent.follow_store()
    assert 2 not in brokers_shown(world.core)


def test_as_many_request_handlers_as_memory_was_laid_out_for(world):
    """Memory has two, of which none is a group coordinator's."""
    world.agent.recover()
    assert world.core.coordinator < 0 and world.agent._settings._room == (1, 2)
    ctx = world.agent._ctx
    world.agent._core = ctx.core = SimpleNamespace(
        processor_count=3, handler_count=8, coordinator=0, crash_point=None, features=None
    )
    rooms = []
    world.agent._ctx = SimpleNamespace(core=ctx.core, publish_settings=None, config=ctx.config, log=None)
    with pytest.MonkeyPatch.context() as patched:
        made = SimpleNamespace(announce=lambda: None)
        patched.setattr(module, "BrokerSettings", lambda **named: rooms.append(named["room"]) or made)
        patched.setattr(module, "FeatureManager", lambda **named: None)
        world.agent._make_managers()
    assert rooms == [(3, 7)], "one of the handlers is its"


# ---- requests of the controller


@pytest.mark.parametrize(
    ("request_", "version", "done"),
    [
        (LeaderAndIsrRequest(controller_id=2, controller_epoch=9), 7, (0, [11, -1, 300])),
        (StopReplicaRequest(controller_id=2, controller_epoch=9), 4, (7, [])),
        (UpdateMetadataRequest(controller_id=2, controller_epoch=9), 8, 11),
    ],
    ids=["LeaderAndIsr", "StopReplica", "UpdateMetadata"],
)
def test_a_request_of_the_controller_is_carried_out_and_its_codes_handed_back(
    world, monkeypatch, request_, version, done
):
    asked = []

    def carry_out(request):
        asked.append((type(request), request.controller_id, request.controller_epoch))
        return done

    world.agent._requests = SimpleNamespace(leader_and_isr=carry_out, stop_replica=carry_out, update_metadata=carry_out)
    held = []
    frame = encode_request_frame(request_, version, 5, "a client")
    monkeypatch.setattr(module, "held_payload", lambda *words: held.append(words[1:]) or frame[4:])
    answer = decode_answer(world.agent.execute(Taken(1, 0, encode_command(ControlRequest(33, 44)))))
    assert held == [(33, 44)] and asked == [(type(request_), 2, 9)]
    code, codes = done if isinstance(done, tuple) else (done, [])
    assert isinstance(answer, ControlAnswer) and answer.error_code == code
    assert array("h", zlib.decompress(answer.codes)).tolist() == codes


def test_the_broker_that_leaves_asks_in_its_own_name_until_others_lead(world, monkeypatch):
    named, followed = {}, []

    class Shutdown:
        channel = None

        def __init__(self, **given):
            named.update(given)

        def turn(self, _now_ms):
            return False

    monkeypatch.setattr(module, "ControlledShutdown", Shutdown)
    monkeypatch.setattr(module, "follows_the_store", lambda *given: followed.append(given) or True)
    agent = world.agent
    agent.recover()
    record = BrokerRecord(2, "m", "d", "i", [ListenerRecord("PLAINTEXT", "PLAINTEXT", "one", 11)])
    world.put(KEYS.broker(2), record)
    world.put(KEYS.controller, ControllerRecord(2, 7, "i"))
    agent.follow_store()
    world.core.state = BrokerState.HANDING_OVER
    agent.hand_over()
    assert not agent._handed_over and not world.events.named("handed_over")
    assert (named["broker_epoch"](), named["controller"]()) == (world.registered()[0], ("one", 11))
    assert named["follows"]() and followed == [(world.store, agent._keys, agent._topics, agent._log, world.core, OWN)]
    first = agent._shutdown
    agent.hand_over()
    assert agent._shutdown is first, "it goes on with what it has begun"


# ---- what an agent is made of


def test_roles_that_changed_are_told_to_the_tracer(world):
    told = []
    world.agent._roles = SimpleNamespace(tell=lambda: told.append(1))
    world.agent.tell_roles()
    assert told == [1]


def execute(world, monkeypatch, request_, version):
    frame = encode_request_frame(request_, version, 5, "a client")
    monkeypatch.setattr(module, "held_payload", lambda *words: frame[4:])
    answer = decode_answer(world.agent.execute(Taken(1, 0, encode_command(ControlRequest(1, 1)))))
    return answer.error_code, array("h", zlib.decompress(answer.codes)).tolist()


def test_brokers_that_a_controller_names_are_shown_and_the_controller_known(world, monkeypatch):
    world.agent.recover()
    request = UpdateMetadataRequest(controller_id=2, controller_epoch=9, live_brokers=[UpdateMetadataBroker(7)])
    assert execute(world, monkeypatch, request, 8) == (0, [])
    assert list(brokers_shown(world.core)) == [7]
    assert cluster_state(world.core)[1:] == (2, 9, world.registered()[0])
    request.controller_epoch = 8
    assert execute(world, monkeypatch, request, 8)[0] == ErrorCode.STALE_CONTROLLER_EPOCH


def test_a_role_for_a_topic_that_the_watch_has_not_brought_is_taken_from_the_store(world, monkeypatch):
    agent, roles = world.agent, []
    agent.recover()
    shown = SimpleNamespace(
        id=TOPIC, name="t", replicas=[[2], [OWN, 2]], ordinals=[4, 5], configs={"min.insync.replicas": "2"}
    )
    world.topics.put = lambda topic: world.topics.context.by_id.update({topic.id: shown})
    world.topics.can_create, world.topics.may_be_offline, world.topics.announce_made = True, False, lambda: None
    world.topics.create = lambda topic, partition: world.topics.here.add(5) or 0
    agent._log.become = lambda *given: roles.append(given) or 0
    world.put(KEYS.topic(TOPIC), TopicRecord(TOPIC.hex(), "t", [[2], [OWN, 2]], 1))
    state = LeaderAndIsrPartitionState(
        partition_index=1, leader=OWN, leader_epoch=6, isr=[OWN, 2], partition_epoch=8, replicas=[OWN, 2], is_new=True
    )
    topics = [LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC, partition_states=[state])]
    request = LeaderAndIsrRequest(
        controller_id=2, controller_epoch=9, broker_epoch=world.registered()[0], topic_states=topics
    )
    assert execute(world, monkeypatch, request, 7) == (0, [0])
    assert roles == [(5, int(ReplicaRole.LEADER), 6, 8, (OWN, 2), (OWN, 2), OWN, 2, world.now_ms, OWN)]


def test_what_leaders_want_is_proposed_in_the_brokers_own_name(world, monkeypatch):
    sent, agent = [], world.agent
    agent.recover()
    world.put(KEYS.broker(2), BrokerRecord(2, "m", "d", "i", [ListenerRecord("PLAINTEXT", "PLAINTEXT", "one", 11)]))
    world.put(KEYS.controller, ControllerRecord(2, 7, "i"))
    agent.follow_store()
    world.topics.who = lambda ordinal: SimpleNamespace(topic_id=TOPIC, partition=3)
    channel = SimpleNamespace(send=lambda request, now_ms: sent.append((request, now_ms)))
    monkeypatch.setattr(module, "BrokerChannel", lambda *address, client_id: channel)
    agent.propose()
    [(request, now_ms)] = sent
    assert (request.broker_id, request.broker_epoch, now_ms) == (OWN, world.registered()[0], world.now_ms)
    [topic] = request.topics
    [partition] = topic.partitions
    assert (topic.topic_id, partition.partition_index, partition.leader_epoch) == (TOPIC, 3, 6)
    assert partition.partition_epoch == 7 and [one.broker_id for one in partition.new_isr_with_epochs] == [OWN, 2]
    assert world.proposed == [(30_000, world.now_ms)], "replica.lag.time.max.ms"


def test_settings_of_a_broker_are_kept_in_the_store_and_published(world):
    world.agent.recover()
    change = ConfigChanges(4, str(OWN), [ConfigChange("log.segment.bytes", 0, "2000")])
    [result] = decode_answer(world.agent.execute(Taken(1, 0, encode_command(AlterConfigs([change]))))).results
    assert result.error_code == 0 and world.published[-1].broker == {"log.segment.bytes": "2000"}
    world.agent.follow_store()
    assert world.published[-1].broker == {"log.segment.bytes": "2000"} and len(world.published) == 3
    update = encode_command(UpdateFeatures([FeatureUpdate("x", 1, 1)]))
    assert [one.name for one in decode_answer(world.agent.execute(Taken(1, 0, update))).results] == ["x"]
