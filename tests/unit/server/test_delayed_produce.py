"""Produce requests that are appended and not acknowledged yet, with the records' sync as what they wait for."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.server.request_handler import RequestHandler
from mpbroker.shm.cluster_table import Broker, Endpoint
from mpbroker.shm.layout import ReplicaRole
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, part, produce


@pytest.fixture
def broker(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    broker.handler.context.log_manager.flush_on_commit = True
    return broker


@pytest.fixture
def replicated(tmp_path):
    """A broker of a cluster: 0, which leads a partition that broker 1 follows."""
    broker = InProcessBroker(tmp_path, replicated=True)
    broker.create_topic("t")
    lead(broker, 0, isr=[0, 1])
    return broker


def lead(broker, epoch: int, isr: list[int], min_isr: int = 1) -> None:
    assert broker.log.become(0, ReplicaRole.LEADER, epoch, epoch, [0, 1, 2], isr, 0, min_isr, 0) == 0


def follow(broker, epoch: int) -> None:
    assert broker.log.become(0, ReplicaRole.FOLLOWER, epoch, epoch, [0, 1, 2], [], 0, 1, 0, leader=1) == 0


def fetched(broker, follower: int, epoch: int, offset: int) -> None:
    """A follower asks for what is behind `offset`, and the handler hears of it."""
    answer = broker.log.follower_fetched(0, follower, -1, epoch, offset, -1, 0, 0)
    assert answer[:2] == (0, False)
    broker.core.ring_handler(0)
    broker.step()


def park(broker):
    message = produce(records=batch(b"a", b"b"))
    broker.send(message, 7)
    broker.step()
    assert broker.collect() == []
    return message


def answer(broker, message):
    [(_, _, frame)] = broker.collect()
    return part(broker.decode(message, 7, frame))


def succeed(broker) -> None:
    """The handler dies and is followed by another in its slot, which takes what it had parked."""
    broker.handler = RequestHandler(broker._context())
    broker.handler.context.log_manager.flush_on_commit = True
    broker.handler.port.recover()
    broker.step()  # the bell of the recovery
    broker.step()


@pytest.mark.parametrize("dies", [False, True])
def test_it_is_acknowledged_once_synced_with_the_offset_it_has(broker, dies):
    message = park(broker)
    if dies:
        succeed(broker)
        assert broker.collect() == []
    assert broker.log.flush(0) == (0, 2)
    broker.core.ring_handler(0)
    broker.step()
    found = answer(broker, message)
    assert (found.error_code, found.base_offset) == (0, 0)
    assert broker.log.state(0).leo == 2


def test_one_that_is_not_synced_in_time_is_told_and_counted(broker):
    counted = []
    broker.handler.context.count = lambda name, n=1: counted.append(name)
    message = park(broker)
    broker.clock.advance(message.timeout_ms)
    broker.step()
    assert answer(broker, message).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert counted.count("purgatory_expired") == 1


@pytest.mark.parametrize("acks", [1, -1])
def test_only_acks_all_waits_for_the_high_watermark(broker, acks):
    broker.send(produce(records=batch(b"a"), acks=acks), 7)
    broker.step()
    assert broker.log.flush(0) == (0, 1)
    manager = broker.handler.context.log_manager
    state = manager.state(0)
    behind = SimpleNamespace(
        role=0, leader_since=0, maximal_isr=0, min_isr=0, hw=0, flushed_offset=state.flushed_offset
    )
    manager.state = lambda _: behind
    broker.core.ring_handler(0)
    broker.step()
    assert len(broker.collect()) == (1 if acks == 1 else 0)


def parked(broker, acks: int = -1):
    message = produce(records=batch(b"a", b"b"), acks=acks)
    broker.send(message, 10)
    broker.step()
    assert broker.collect() == []
    return message


def error_of(broker, message) -> int:
    [(_, _, frame)] = broker.collect()
    return part(broker.decode(message, 10, frame)).error_code


@pytest.mark.parametrize("dies", [False, True])
def test_under_another_leader_it_is_no_longer_ours_to_acknowledge(replicated, dies):
    message, counted = parked(replicated), []
    follow(replicated, 1)
    if dies:
        succeed(replicated)
    else:
        replicated.handler.context.count = lambda name, n=1: counted.append((name, n))
        replicated.core.ring_handler(0)
        replicated.step()
    assert error_of(replicated, message) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replicated.log.state(0).leo == 2
    assert dies or counted.count(("produce_partition_errors", 1)) == 1


def test_one_that_leads_again_in_a_later_epoch_does_not_acknowledge_what_it_took_before(replicated):
    message = parked(replicated)
    follow(replicated, 1)
    lead(replicated, 2, isr=[0])
    assert replicated.log.state(0).hw == 2
    replicated.core.ring_handler(0)
    replicated.step()
    assert error_of(replicated, message) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_epoch_that_is_raised_for_the_isr_alone_fails_nobody(replicated):
    """Kafka's controller raises it whenever a follower is lost."""
    message = parked(replicated)
    lead(replicated, 1, isr=[0, 1])
    replicated.core.ring_handler(0)
    replicated.step()
    assert replicated.collect() == []
    fetched(replicated, 1, 1, 2)
    assert error_of(replicated, message) == 0


def test_acks_all_waits_for_every_replica_in_sync(replicated):
    lead(replicated, 1, isr=[0, 1, 2])
    message = parked(replicated)
    fetched(replicated, 1, 1, 2)
    fetched(replicated, 2, 1, 0)
    assert replicated.collect() == [] and replicated.log.state(0).hw == 0
    fetched(replicated, 2, 1, 2)
    assert error_of(replicated, message) == 0 and replicated.log.state(0).hw == 2


@pytest.mark.parametrize("is_deposed", [False, True])
def test_a_handler_that_takes_over_what_another_had_parked_waits_for_the_replicas_too(replicated, is_deposed):
    """One that knows the topic serves natively; a request that was parked killed nobody, and is like a new one."""
    message = parked(replicated)
    replicated.handler = RequestHandler(replicated._context())
    for _ in range(2):
        replicated.send(produce(records=batch(b"c"), acks=1), 10)
        replicated.step()
        replicated.step()
        assert len(replicated.collect()) == 1
    native = replicated.handler.context.native_topics.native
    assert native.served == 1
    replicated.handler.port.recover()
    replicated.step()
    replicated.step()
    assert replicated.collect() == [] and native.served == 1
    if is_deposed:
        follow(replicated, 1)
        replicated.core.ring_handler(0)
        replicated.step()
        assert error_of(replicated, message) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        return
    fetched(replicated, 1, 0, 1)
    assert replicated.collect() == []
    fetched(replicated, 1, 0, 2)
    assert error_of(replicated, message) == 0


def test_acks_1_does_not_wait_for_replicas(replicated):
    replicated.send(produce(records=batch(b"a")), 7)
    replicated.step()
    assert len(replicated.collect()) == 1


@pytest.mark.parametrize(("acks", "error"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS), (1, 0)])
def test_with_too_few_replicas_acks_all_appends_nothing(replicated, acks, error):
    lead(replicated, 1, isr=[0], min_isr=2)
    replicated.send(message := produce(records=batch(b"a"), acks=acks), 10)
    replicated.step()
    assert error_of(replicated, message) == error
    state = replicated.log.state(0)
    assert state.leo == (0 if error else 1) and state.hw == 0  # it stands still below min.insync.replicas (KIP-966)


def test_with_too_few_replicas_at_its_end_it_is_told_so(replicated):
    lead(replicated, 1, isr=[0, 1], min_isr=1)
    message = parked(replicated)
    assert replicated.log.follower_fetched(0, 1, -1, 1, 2, -1, 0, 0)[0] == 0
    lead(replicated, 2, isr=[0], min_isr=2)
    replicated.core.ring_handler(0)
    replicated.step()
    assert error_of(replicated, message) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.parametrize(("version", "leader"), [(9, None), (10, (1, 1)), (12, (1, 1))])
def test_who_leads_now_is_told_from_version_10_on(replicated, version, leader):
    replicated.handler.context.cluster.brokers = {
        1: Broker(1, 5, [Endpoint("INTERNAL", 0, "inside", 1), Endpoint("PLAINTEXT", 0, "other.example", 19093)]),
        2: Broker(2, 6, []),
    }
    message = produce(records=batch(b"a"), acks=-1)
    replicated.send(message, version)
    replicated.step()
    follow(replicated, 1)
    replicated.core.ring_handler(0)
    replicated.step()
    [(_, _, frame)] = replicated.collect()
    response = replicated.decode(message, version, frame)
    found = part(response)
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    told = found.current_leader
    assert (told and (told.leader_id, told.leader_epoch)) == leader
    endpoints = [(one.node_id, one.host, one.port) for one in response.node_endpoints]
    assert endpoints == ([(1, "other.example", 19093)] if leader else [])


@pytest.mark.parametrize(
    ("epoch", "role", "code"), [(4, "LEADER", 74), (5, "FOLLOWER", 74), (5, "LEADER", 0), (6, "FOLLOWER", 0)]
)
def test_a_role_of_an_older_epoch_or_another_one_in_the_same_epoch_is_fenced(replicated, epoch, role, code):
    lead(replicated, 5, isr=[0, 1])
    wanted, leader = getattr(ReplicaRole, role), 0 if role == "LEADER" else 1
    isr = [0, 1] if role == "LEADER" else []
    found = replicated.log.become(0, wanted, epoch, epoch, [0, 1, 2], isr, 0, 1, 0, leader=leader)
    assert found == code
    assert replicated.log.replica_state(0).role == (wanted if code == 0 else ReplicaRole.LEADER)
