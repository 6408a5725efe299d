"""What a coordinator's process asks other brokers: where it goes, what a code means, and that a marker which came while
a question was open makes its answer void."""

from types import SimpleNamespace

import pytest

from mpbroker._native import NO_REQUEST, Log, LogOptions
from mpbroker.coordinator.effects import AskCoordinator, SendMarkers
from mpbroker.coordinator.transactions.elsewhere_verifier import ElsewhereVerifier
from mpbroker.coordinator.transactions.other_brokers import AT_ONCE, OtherBrokers
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import TRANSACTIONS_TOPIC
from mpbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from mpbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.cluster_table import Assignment, Broker, Endpoint
from mpbroker.shm.layout import ReplicaRole
from tests.harness.small_core import small_core

HERE, LISTENER, OPTIONS = 0, "INTERNAL", LogOptions()
TOPICS = {"t": (bytes(range(16)), (0, 1, 2)), TRANSACTIONS_TOPIC: (bytes(16), (3,))}


class Requests:
    """Those that were sent; a test answers them."""

    def __init__(self):
        self.sent = []

    def send(self, address, message, then):
        self.sent.append((address, message, then))


class World:
    """Broker 0; `leaders` by row. Row 0 has a log here."""

    def __init__(self, path):
        self.leaders = {0: HERE, 1: 1, 2: 2, 3: 1}
        self.requests = Requests()
        brokers = {n: Broker(n, 1, [Endpoint(LISTENER, 0, "h", 9000 + n)]) for n in (0, 1, 2)}
        cluster = SimpleNamespace(brokers=brokers, refresh=lambda: None, assignment=self._assignment)
        metadata = SimpleNamespace(topic=self._topic)
        self.others = OtherBrokers(cluster, metadata, LISTENER, HERE, self.requests)
        self.core = small_core(replicated=True).core
        self.core.transactions_ready = 1
        self.log = Log(self.core, [str(path)], 118)
        assert self.log.create(0, TOPICS["t"][0], 0, 0, 0, "t-0", 0, 1) == 0
        assert self.log.become(0, ReplicaRole.LEADER, 1, 1, [HERE], [HERE], HERE, 1, 0) == 0
        self.heard = []
        logs = SimpleNamespace(log=self.log)
        self.verifier = ElsewhereVerifier(
            logs, metadata, self.others, lambda _: 0, lambda number, code: self.heard.append((number, code))
        )

    def _topic(self, name):
        found = TOPICS.get(name)
        return None if found is None else SimpleNamespace(name=name, id=found[0], partitions=found[1])

    def _assignment(self, ordinal, topic_id):
        return Assignment(topic_id, 0, self.leaders[ordinal], 1, 1, 1, [], [], [])

    def write(self):
        who = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
        batch = encode_batch([(b"k", b"v", 1)], transactional=True, **who)
        return self.log.append(0, NO_REQUEST, 0, batch, OPTIONS, 5)

    def ask(self, partition=0):
        asked = AskCoordinator(4, "id", 9, 0, frozenset({("t", partition)}), verify_only=True)
        self.verifier.ask(asked)
        return self.requests.sent[-1] if self.requests.sent else None


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def answer(code):
    rows = [AddPartitionsToTxnPartitionResult(0, code)]
    return AddPartitionsToTxnResponse(
        results_by_transaction=[AddPartitionsToTxnResult("id", [AddPartitionsToTxnTopicResult("t", rows)])]
    )


def test_a_partition_takes_what_the_coordinator_vouches_for(world):
    assert world.write().unverified
    address, message, then = world.ask()
    [asked] = message.transactions
    assert address == ("h", 9001) and asked.verify_only and asked.topics[0].partitions == [0]
    then(answer(0))
    assert world.heard == [(4, ErrorCode.NONE)]
    assert world.write().error == 0


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE, None])
def test_it_takes_nothing_else_and_keeps_no_guard(world, code):
    _, _, then = world.ask()
    then(None if code is None else answer(code))
    assert world.heard == [(4, ErrorCode.NETWORK_EXCEPTION if code is None else code)]
    assert world.write().unverified
    assert world.log.guard(0, 9, 0, -5, None) == (0, -5), "the first one was taken back"


def test_a_marker_meanwhile_makes_the_answer_void(world):
    _, _, then = world.ask()
    assert world.log.append_marker(0, 9, 0, 3, True, OPTIONS, 5).error == 0
    then(answer(0))
    assert world.heard == [(4, ErrorCode.INVALID_TXN_STATE)]
    assert world.write().unverified, "it would begin a transaction that nobody ends"


def test_who_leads_elsewhere_is_not_asked_about(world):
    assert world.ask(1) is None and world.heard == [(4, ErrorCode.NONE)]


def test_markers_go_to_their_leaders_and_are_collected_while_many_are_under_way(world):
    done = []
    for number in range(AT_ONCE + 3):
        markers = SendMarkers(0, 1, number, 0, True, 7, frozenset({("t", 1), ("t", 2)}))
        for one in sorted(markers.partitions):
            world.others.write_marker(markers, one, lambda code, who=(number, one): done.append((who, code)))
        world.others.flush()
    to_first = [(message, then) for address, message, then in world.requests.sent if address == ("h", 9001)]
    assert len(to_first) == AT_ONCE == len(world.requests.sent) // 2
    message, then = to_first[0]
    row = WritableTxnMarkerPartitionResult(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topic = WritableTxnMarkerTopicResult("t", [row])
    then(WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(message.markers[0].producer_id, [topic])]))
    assert done == [((0, ("t", 1)), ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    later = world.requests.sent[-1][1]
    assert [one.producer_id for one in later.markers] == [AT_ONCE, AT_ONCE + 1, AT_ONCE + 2], "the rest, in one"
    to_first[1][1](None)
    assert done[-1] == ((1, ("t", 1)), ErrorCode.NETWORK_EXCEPTION)


def test_a_partition_without_a_leader_is_tried_again(world):
    world.leaders[1] = -1
    heard = []
    markers = SendMarkers(0, 1, 9, 0, True, 7, frozenset({("t", 1)}))
    world.others.write_marker(markers, ("t", 1), heard.append)
    assert heard == [ErrorCode.LEADER_NOT_AVAILABLE] and not world.requests.sent
    assert not world.others.leads_here("t", 1) and world.others.leads_here("t", 0)


@pytest.mark.parametrize("who", [("nobody", 0), ("t", 3), ("t", -1)])
def test_what_is_not_there_has_no_leader(world, who):
    assert world.others.address("t", 1) == ("h", 9001)
    assert world.others.address(*who) is None
