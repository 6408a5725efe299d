"""Numbers that Kafka's protocol fixes, in the modules that have their own names for them; and what a record of ours
says where nothing was found."""

import msgspec
import pytest

from mpbroker.errors import ErrorCode
from mpbroker.server import config_commands, fetch_session, replica_append, replica_read
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.apis import NoResponse
from mpbroker.server.handlers import (
    create_topics,
    delete_topics,
    describe_configs,
    elect_leaders,
    fetch,
    find_coordinator,
    init_producer_id,
    leader_and_isr,
    list_config_resources,
    list_offsets,
    metadata,
    produce,
)
from mpbroker.server.preferred_replica import NOBODY
from mpbroker.server.replica_read import FetchPlan, PartitionRead

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(3, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(10, 13)
NUMBERS = [
    (replica_read, {"CONSUMER": -1, "UNKNOWN_OFFSET": -1, "READ_UNCOMMITTED": 0, "READ_COMMITTED": 1}),
    (replica_read, {"FIRST_WITH_ZSTD": 10, "FIRST_WITH_RACK": 11, "FIRST_WITH_IDS": 13}),
    (replica_append, {"LEGAL_ACKS": (-1, 0, 1), "UNKNOWN": -1, "ABORTABLE_SINCE": 11, "ADDS_PARTITIONS_SINCE": 12}),
    (fetch_session, {"INITIAL_EPOCH": 0, "FINAL_EPOCH": -1, "LARGEST_EPOCH": 2147483647, "FIRST_WITH_SESSIONS": 7}),
    (fetch, {"LEADERS_SINCE": 16}),
    (produce, {"RECORD_ERRORS_SINCE": 8, "IDS_SINCE": 13}),
    (metadata, {"IDS_SINCE": 12, "LISTENERS_SINCE": 6, "OPERATIONS_UNKNOWN": -2147483648}),
    (list_offsets, {"LATEST": -1, "EARLIEST": -2, "LARGEST": -3, "EARLIEST_LOCAL": -4, "LATEST_TIERED": -5}),
    (list_offsets, {"NOT_AVAILABLE_SINCE": 5, "FIRST_VERSION": {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9}}),
    (find_coordinator, {"GROUP": 0, "TRANSACTION": 1, "SHARE": 2, "BATCHED_FROM": 4, "SHARE_FROM": 6}),
    (init_producer_id, {"NO_ID": -1, "NO_EPOCH": -1}),
    (create_topics, {"DESCRIBED_SINCE": 5, "BROKERS_DEFAULT": -1}),
    (delete_topics, {"DISABLED_SINCE": 3, "IDS_SINCE": 6}),
    (elect_leaders, {"PREFERRED": 0, "UNCLEAN": 1}),
    (leader_and_isr, {"BY_TOPIC_FROM": 5, "GROUPED_FROM": 2}),
    (list_config_resources, {"TYPES_SINCE": 1}),
    *[
        (module, {"TOPIC": 2, "BROKER": 4, "BROKER_LOGGER": 8, "CLIENT_METRICS": 16, "GROUP": 32})
        for module in (config_commands, describe_configs)
    ],
]


@pytest.mark.parametrize(("module", "numbers"), NUMBERS, ids=[module.__name__ for module, _ in NUMBERS])
def test_numbers_are_those_of_the_protocol(module, numbers):
    assert {name: getattr(module, name) for name in numbers} == numbers


def test_nobody_is_no_replica():
    assert NOBODY == -1


def test_everybody_may_do_what_can_be_done_with_a_topic_and_with_a_cluster():
    """A bit for each of Kafka's numbers of operations."""
    of_topic = {READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}
    of_cluster = {CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE}
    for operations, wanted in ((metadata.TOPIC_OPERATIONS, of_topic), (metadata.CLUSTER_OPERATIONS, of_cluster)):
        assert {bit for bit in range(32) if operations >> bit & 1} == wanted


def test_a_partition_of_which_nothing_is_said_says_nothing():
    read = PartitionRead(3)
    assert (read.partition, read.ordinal, read.error, read.plan, read.length) == (3, -1, ErrorCode.NONE, None, 0)
    assert (read.high_watermark, read.last_stable_offset, read.log_start, read.leader_epoch) == (-1, -1, -1, -1)
    assert (read.committed_only, read.diverging, read.aborted, read.preferred) == (False, None, [], -1)
    assert read.throttled is False
    plan = FetchPlan([])
    assert (plan.total_bytes, plan.is_urgent, list(plan.reads())) == (0, False, [])
    assert PartitionRead(4).aborted is not read.aborted


def test_reasons_for_no_answer_are_told_apart():
    assert len(NoResponse) == 5


def test_a_row_of_the_table_is_fixed():
    """Every process has it, and processors have been told of it."""
    row = API_TABLE.get(0)
    copy = msgspec.structs.replace(row)
    with pytest.raises(AttributeError):
        copy.versions = (0, 0)
    assert hash(copy) == hash(row)
