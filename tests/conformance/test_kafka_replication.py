"""Kafka 3.9 and a broker of ours as leader and follower of each other, as it was recorded and, where a Kafka is named,
live: TEST_KAFKA_REPLICA=ID,CLIENT_HOST:PORT,CONTROL_HOST:PORT,LOG_DIR of one with ZooKeeper, a control plane listener
and `inter.broker.listener.name` PLAINTEXT. `RECORD=FILE` beside it records again (kafka_3_9_replication.json)."""

import json
import os
import time
from pathlib import Path

import pytest

from mpbroker._native import LogOptions
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_request_header, decode_response_header, encode_request_frame
from mpbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from mpbroker.record.record_batch import iterate_batches
from mpbroker.replication.leader_link import FETCH_VERSION
from mpbroker.shm.layout import ReplicaRole
from tests.conformance.kafka_replica import Pair, Replica, Tap, record
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.running_cluster import RunningCluster
from tests.unit.replication.test_follower_of_a_leader import FollowerWorld, log_bytes
from tests.unit.server.test_produce_fetch import produce

FETCH, KAFKA, OURS = 1, 1, 0
RECORDED = json.loads(Path(__file__).with_name("kafka_3_9_replication.json").read_text())
OPTIONS = LogOptions()
LIVE = os.environ.get("TEST_KAFKA_REPLICA", "")


def exchanges(recorded):
    """(request's frame, request, answer) of each."""
    for asked, answer in recorded["exchanges"]:
        frame, told = bytes.fromhex(asked), bytes.fromhex(answer)
        header = decode_request_header(frame)
        _, at = decode_response_header(FETCH, header.api_version, told)
        yield (
            frame,
            decode(FetchRequest, header.api_version, frame, header.body_offset),
            decode(FetchResponse, header.api_version, told, at),
        )


def only(message):
    """The one partition that is named, None if there is none."""
    found = [each for topic in getattr(message, "responses", None) or message.topics for each in topic.partitions]
    return found[0] if found else None


@pytest.fixture
def leader(tmp_path):
    (tmp_path / "leader").mkdir()
    broker = InProcessBroker(tmp_path / "leader", replicated=True)
    broker.create_topic("t", topic_id=bytes.fromhex(RECORDED["topic_id"]))
    return broker


def play(leader, recorded):
    """It leads, has the log as it was recorded, and is asked what Kafka asked in that epoch; pairs of answers, recorded
    and ours."""
    epoch, log = recorded["epoch"], memoryview(bytes.fromhex(recorded["log"]))
    isr = [OURS, KAFKA]
    assert leader.log.become(0, ReplicaRole.LEADER, epoch, epoch, isr, isr, OURS, 1, 0) == 0
    for _, batch in iterate_batches(log[leader.log.state(0).position :]):
        answer = leader.call(produce(records=bytes(8) + bytes(batch[8:]), acks=1), 7)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
    assert log_bytes(Path(leader.directory)) == log
    for _, asked, told in exchanges(recorded):
        if only(asked) is None or only(asked).current_leader_epoch != epoch:
            continue  # of the epoch before, whose end it was told
        asked.max_wait_ms = asked.session_id = asked.session_epoch = 0
        asked.replica_state.replica_id, asked.replica_state.replica_epoch = KAFKA, -1
        yield only(told), only(leader.call(asked, FETCH_VERSION))


def test_what_kafka_asks_is_read_and_written_alike():
    for recorded in (*RECORDED["follower"].values(), RECORDED["leader"]):
        for frame, asked, _ in exchanges(recorded):
            header = decode_request_header(frame)
            written = encode_request_frame(asked, header.api_version, header.correlation_id, header.client_id)
            assert written[4:] == frame


def test_kafka_as_a_follower_is_answered_as_it_was(leader):
    """Records by their bytes, and where its log has parted from ours."""
    first = list(play(leader, RECORDED["follower"]["first"]))
    parted = list(play(leader, RECORDED["follower"]["parted"]))
    for told, ours in first + parted:
        assert (told.error_code, told.diverging_epoch) == (ours.error_code, ours.diverging_epoch)
        assert bytes(ours.records or b"").startswith(bytes(told.records or b""))
    assert [bool(told.records) for told, _ in first] == [True, False]
    ends = [told.diverging_epoch for told, _ in parted]
    assert (ends[0].epoch, ends[0].end_offset) == (RECORDED["follower"]["first"]["epoch"], 5)
    state = leader.log.state(0)
    assert state.hw == state.leo == 7, "its position counts"


class AsRecorded:
    """Kafka's answers in their order, to requests that must say what they said."""

    is_idle = True

    def __init__(self, recorded):
        self._left = list(exchanges(recorded))

    def ask(self, message, answer, version):
        _, asked, self._answer = self._left.pop(0)
        assert isinstance(self._answer, answer) and version == FETCH_VERSION
        assert message.topics == asked.topics and message.session_epoch == asked.session_epoch

    def read(self):
        return self._answer

    def close(self):
        pass


def test_kafka_as_a_leader_is_followed(tmp_path, leader):
    """What an old leader of ours wrote alone is cut where Kafka says, and what Kafka has comes instead."""
    (tmp_path / "follower").mkdir()
    recorded, epoch = RECORDED["leader"], RECORDED["leader"]["epoch"]
    follower = FollowerWorld(tmp_path / "follower", leader, bytes.fromhex(RECORDED["topic_id"]))
    follower.follow(epoch - 1)
    before = bytes.fromhex(RECORDED["log_before"])
    assert follower.log.append_follower(0, epoch - 1, 0, before, 7, 0, OPTIONS, 9)[0] == 0
    follower.follow(epoch)
    follower.link.connection = AsRecorded(recorded)
    follower.fetch(len(recorded["exchanges"]))
    assert follower.said == ["replica_truncated"]
    assert log_bytes(tmp_path / "follower") == bytes.fromhex(recorded["log"])
    assert follower.log.state(0).hw == 9


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    node, client, control, log_dir = LIVE.split(",")
    client, control = ((host, int(port)) for host, port in (place.split(":") for place in (client, control)))
    with RunningCluster(tmp_path_factory.mktemp("beside") / "c", brokers=1) as cluster:
        (broker,) = cluster.status()["brokers"]
        places = {one["name"]: (one["host"], one["port"]) for one in broker["listeners"]}
        taps = Tap(client), Tap(places["INTERNAL"])
        kafka = Replica(int(node), client, control, taps[0].address, Path(log_dir))
        directory = cluster.directory / "broker-1"
        ours = Replica(broker["node_id"], places["PLAINTEXT"], places["CONTROL"], taps[1].address, directory)
        yield Pair(ours, kafka), taps


@pytest.mark.slow
@pytest.mark.skipif(not LIVE, reason="TEST_KAFKA_REPLICA names no Kafka with ZooKeeper")
def test_their_logs_are_the_same_bytes_whoever_leads(pair):
    """Plain, compressed and idempotent batches, and logs that have parted, cut by either."""
    pair, taps = pair
    found = record(pair, *taps)
    if "RECORD" in os.environ:
        Path(os.environ["RECORD"]).write_text(json.dumps(found, indent=1) + "\n")
    for leader in (pair.ours, pair.kafka, pair.ours):
        pair.lead(leader)
        for codec in ("none", "lz4", "zstd", "gzip", "snappy"):
            settings = {"compression.type": codec, "linger.ms": 20, "enable.idempotence": codec != "none"}
            values = [b"%d %f %s" % (number, time.monotonic(), os.urandom(50)) for number in range(200)]
            pair.write(leader, values, **settings)
        assert len(pair.same()) > 10_000
