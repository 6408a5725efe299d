"""Every API that can answer an error does so once; its trace record, and `trace stats`, say that code."""

import json
import subprocess
import sys
from collections import Counter

import msgspec
import pytest

from mpbroker.errors import ErrorCode, error_name
from mpbroker.protocol.api_keys import API_NAMES
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from mpbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from mpbroker.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from mpbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from mpbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from mpbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from mpbroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from mpbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from mpbroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from mpbroker.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mpbroker.protocol.messages.describe_acls import DescribeAclsRequest
from mpbroker.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from mpbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from mpbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from mpbroker.protocol.messages.describe_producers import DescribeProducersRequest
from mpbroker.protocol.messages.describe_producers import TopicRequest as ProducersOfTopic
from mpbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from mpbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mpbroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from mpbroker.protocol.messages.end_txn import EndTxnRequest
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mpbroker.protocol.messages.offset_delete import OffsetDeleteRequest
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from mpbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from mpbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from mpbroker.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from mpbroker.protocol.messages.share_fetch import ShareFetchRequest
from mpbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from mpbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mpbroker.protocol.messages.sync_group import SyncGroupRequest
from mpbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from mpbroker.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from mpbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from mpbroker.protocol.messages_by_key import RESPONSES
from mpbroker.protocol.schema import schema_of
from mpbroker.server.api_table import API_TABLE
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import batch, create_by_metadata
from tests.harness.trace_records import requests_of

KNOWN = "known"
DAMAGED = batch([b"x"])[:-1] + b"!"
ASKED = OffsetFetchRequestTopic("unknown", [0])
COMMITTED = OffsetCommitRequestTopic("unknown", [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)])


def produce(topic, records, acks=1):
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])


def fetch(topic, offset, max_wait_ms=0):
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    topics = [FetchTopic(topic=topic, partitions=[asked])]
    return FetchRequest(replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1000, topics=topics)


def offsets(topic):
    asked = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])


WRITES = AddPartitionsToTxnTransaction("tx", 1, 0, False, [AddPartitionsToTxnTopic("unknown", [0])])
TO_COMMIT = TxnOffsetCommitRequestTopic("unknown", [TxnOffsetCommitRequestPartition(0, 1)])
ELSEWHERE = AlterReplicaLogDir("/elsewhere", [AlterReplicaLogDirTopic(KNOWN, [0])])
RETAIN = IncrementalAlterableConfig("retention.ms", 0, "1")
#: Requests that end with an error, by API key, and the code: more than one where there is more than one way.
REFUSED = {
    0: [(produce("unknown", batch([b"x"])), 3), (produce(KNOWN, DAMAGED), 2)],
    1: [(fetch("unknown", 0), 3), (fetch(KNOWN, 10**9), 1), (fetch("unknown", 0, 500), 3)],
    2: [(offsets("unknown"), 3)],
    3: [(MetadataRequest(topics=[MetadataRequestTopic(name="not legal")]), 17)],
    8: [(OffsetCommitRequest(group_id="g", topics=[COMMITTED]), 16)],
    9: [(OffsetFetchRequest(group_id="g", topics=[ASKED], groups=[OffsetFetchRequestGroup("g")]), 16)],
    11: [(JoinGroupRequest(group_id=""), 24)],
    12: [(HeartbeatRequest(group_id=""), 24)],
    13: [(LeaveGroupRequest(group_id=""), 24)],
    14: [(SyncGroupRequest(group_id="", protocol_type="consumer", protocol_name="range"), 24)],
    15: [(DescribeGroupsRequest(groups=["g"]), 16)],
    18: [(ApiVersionsRequest(client_software_name="-", client_software_version="1"), 42)],
    19: [(CreateTopicsRequest(topics=[CreatableTopic(name="not legal", num_partitions=1, replication_factor=1)]), 17)],
    20: [(DeleteTopicsRequest(topics=[DeleteTopicState("unknown")], topic_names=["unknown"], timeout_ms=5000), 3)],
    21: [(DeleteRecordsRequest([DeleteRecordsTopic("unknown", [DeleteRecordsPartition()])]), 3)],
    22: [(InitProducerIdRequest(transactional_id=""), 42)],
    24: [(AddPartitionsToTxnRequest([WRITES], "", 0, 0, [AddPartitionsToTxnTopic("unknown", [0])]), 3)],
    25: [(AddOffsetsToTxnRequest("tx", 1, 0, "g"), 16)],
    26: [(EndTxnRequest("tx", 1, 0, True), 16)],
    27: [(WriteTxnMarkersRequest([WritableTxnMarker(1, 0, False, [WritableTxnMarkerTopic("unknown", [0])])]), 3)],
    28: [(TxnOffsetCommitRequest("tx", "g", 1, 0, topics=[TO_COMMIT]), 15)],
    65: [(DescribeTransactionsRequest(["tx"]), 16)],
    61: [(DescribeProducersRequest([ProducersOfTopic("unknown", [0])]), 3)],
    23: [(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("unknown", [OffsetForLeaderPartition()])]), 3)],
    57: [(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("unknown", 1)]), 95)],
    33: [(AlterConfigsRequest(resources=[AlterConfigsResource(2, "unknown")]), 3)],
    34: [(AlterReplicaLogDirsRequest(dirs=[ELSEWHERE]), 57)],
    45: [(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("unknown", [ReassignablePartition()])]), 3)],
    43: [(ElectLeadersRequest(topic_partitions=[TopicPartitions("unknown", [0])]), 3)],
    44: [(IncrementalAlterConfigsRequest(resources=[IncrementalAlterConfigsResource(2, "unknown", [RETAIN])]), 3)],
    75: [(DescribeTopicPartitionsRequest(topics=[TopicRequest("unknown")]), 3)],
    32: [(DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name="unknown")]), 3)],
    42: [(DeleteGroupsRequest(groups_names=["g"]), 16)],
    47: [(OffsetDeleteRequest(group_id="g"), 16)],
    68: [(ConsumerGroupHeartbeatRequest(group_id=""), 42)],
    69: [(ConsumerGroupDescribeRequest(["g"]), 16)],
    76: [(ShareGroupHeartbeatRequest("g"), 35)],
    77: [(ShareGroupDescribeRequest(["g"]), 35)],
    78: [(ShareFetchRequest("g"), 35)],
    79: [(ShareAcknowledgeRequest("g"), 35)],
    37: [(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="unknown", count=9)], timeout_ms=5000), 3)],
    17: [(SaslHandshakeRequest("PLAIN"), 34)],
    36: [(SaslAuthenticateRequest(b"who"), 34)],
    29: [(DescribeAclsRequest(1, None, 3, None, None, 1, 1), 54)],
    30: [(CreateAclsRequest([AclCreation(2, "t", 3, "User:u", "*", 3, 3)]), 54)],
    31: [(DeleteAclsRequest([DeleteAclsFilter(1, None, 3, None, None, 1, 1)]), 54)],
    48: [(DescribeClientQuotasRequest([ComponentData("unknown", 2, None)]), 35)],
    50: [(DescribeUserScramCredentialsRequest([UserName("unknown")]), 91)],
    # the last one: its version 0 asks for a group, which makes the topic that the others must not find
    10: [(FindCoordinatorRequest(key="g", key_type=9, coordinator_keys=["g"]), 42)],
}
#: Versions in which the request above is no error.
WITHOUT_ERROR = {(10, 0), (18, 0), (18, 1), (18, 2)}
#: From these versions on a topic is named by its id: the request above names one that nobody has.
BY_TOPIC_ID = {0: 13, 1: 13}
#: There is none.
NEVER_REFUSED = {16, 35, 46, 60, 66, 74}


def codes_in(value):
    """All error codes of a decoded answer, wherever they are."""
    if isinstance(value, dict):
        own = [code for name, code in value.items() if name.endswith("error_code") and code]
        return own + [code for inner in value.values() for code in codes_in(inner)]
    return [code for inner in value for code in codes_in(inner)] if isinstance(value, list) else []


class Asker:
    """One connection; remembers which code each correlation id was answered with."""

    def __init__(self, port):
        self._port = port
        self._connection = RawConnection(port)
        self._number = 1000  # others begin at 1
        self.codes = {}

    def ask(self, message, version):
        """Send a request; the first error code of its answer, 0 for none."""
        self._number += 1
        key = schema_of(type(message)).key
        answer = self._connection.ask(encode_request_frame(message, version, self._number, "asker"))
        assert answer is not None, (API_NAMES[key], version)
        payload = answer[0].to_bytes(4, "big") + answer[1]
        _, offset = decode_response_header(key, version, payload)
        found = codes_in(msgspec.to_builtins(decode(RESPONSES[key], version, payload, offset)))
        self.codes[self._number] = found[0] if found else 0
        return self.codes[self._number]

    def ask_in_vain(self, message, version):
        """Send a request that closes the connection; its correlation id."""
        self._number += 1
        self._connection.send(encode_request_frame(message, version, self._number, "asker"))
        assert self._connection.is_closed()
        self._connection.close()
        self._connection = RawConnection(self._port)
        return self._number

    def close(self):
        self._connection.close()


def versions_of(key):
    lowest, highest = API_TABLE.versions()[key]
    api = API_TABLE.get(key)
    return range(max(lowest, api.served_from if api else 0), highest + 1)


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path) as broker:
        yield broker


def test_every_api_of_the_table_has_a_refused_request():
    assert set(REFUSED) | NEVER_REFUSED == set(API_TABLE.versions()), (
        "a new API needs its row here: a request that ends with an error"
    )


def test_the_code_of_every_api_and_version_is_in_its_trace_record(broker):
    create_by_metadata("127.0.0.1", broker.port(), KNOWN)
    asker = Asker(broker.port())
    wait_until(lambda: asker.ask(produce(KNOWN, batch([b"first"])), 7) == 0, "the topic")
    for key, requests in REFUSED.items():
        for version in versions_of(key):
            for message, code in requests:
                wanted = 0 if (key, version) in WITHOUT_ERROR else code
                if version >= BY_TOPIC_ID.get(key, 99):
                    wanted = ErrorCode.UNKNOWN_TOPIC_ID
                assert asker.ask(message, version) == wanted, (API_NAMES[key], version)
    closed = {
        asker.ask_in_vain(produce("unknown", batch([b"x"]), acks=0), 7): 3,
        asker.ask_in_vain(produce(KNOWN, DAMAGED, acks=0), 7): 2,
    }
    asker.close()
    stats = _stats(broker, "--json")
    table = _stats(broker)
    broker.stop()
    requests = requests_of(broker)
    traced = {one.corr_id: one for one in requests if one.corr_id in asker.codes | closed}
    assert {number: one.error for number, one in traced.items()} == asker.codes | closed
    by_api = {}
    for one in requests:
        by_api.setdefault(API_NAMES[one.api_key], Counter()).update([one.error] if one.error else [])
    for api in json.loads(stats)["apis"]:
        counted = {error["code"]: error["count"] for error in api["errors_by_code"]}
        assert counted == by_api.get(api["api"], {}), api["api"]
        for code in counted:
            assert any(
                line.split()[:3] == [api["api"], error_name(code), f"({code})"] for line in table.splitlines()
            ), (api["api"], code)


def _stats(broker, *more):
    """What `trace stats` prints once the tracer has drained all that was finished."""
    command = [sys.executable, "-m", "mpbroker", "trace", "stats", "--data-dir", str(broker.data_dir), *more]
    wait_until(lambda: broker.status()["counters"]["requests_finished"] <= len(requests_of(broker)), "the tracer")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_request_whose_connection_is_closed_says_why(broker):
    connection = RawConnection(broker.port())
    connection.send(b"\0\0\0\x0c" + b"\0\x03\0\x01" + b"\0\0\0\x07" + b"\xff\xff" + b"\0\0")  # Metadata: cut off
    assert connection.is_closed()
    connection.close()
    broker.stop()
    (found,) = [one for one in requests_of(broker) if one.corr_id == 7 and one.api_key == 3]
    assert found.error == 42
