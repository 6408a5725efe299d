"""Requests that the coordinator of transactions refuses before it looks at any transaction."""

import pytest

from mpbroker.coordinator.effects import Answer, GroupRequest
from mpbroker.coordinator.transactions.transaction_coordinator import MAX_ID_BYTES
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mpbroker.protocol.messages.end_txn import EndTxnRequest
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.harness.transaction_world import ID, TransactionWorld

LOADING, NOT_AVAILABLE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
COMMIT = TxnOffsetCommitRequest(
    ID, "g", 1, 0, topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 5)])]
)


@pytest.fixture
def world():
    return TransactionWorld()


@pytest.mark.parametrize("character", ["x", "ü"])
def test_an_id_that_no_record_has_room_for_is_refused(world, character):
    longest = character * (MAX_ID_BYTES // len(character.encode()))
    assert world.init(longest)[0] == ErrorCode.NONE
    written = len(world.log)
    assert world.init(longest + "x")[0] == ErrorCode.INVALID_REQUEST
    assert len(world.log) == written and world.recorded(longest + "x") is None


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_without_an_id_is_none(world, version):
    assert world.end((1000, 0), True, name="", version=version) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "version", "message", "code"),
    [
        (ApiKey.TXN_OFFSET_COMMIT, 0, COMMIT, NOT_AVAILABLE),
        (ApiKey.TXN_OFFSET_COMMIT, 1, COMMIT, NOT_AVAILABLE),
        (ApiKey.TXN_OFFSET_COMMIT, 2, COMMIT, LOADING),
        (ApiKey.END_TXN, 1, EndTxnRequest(ID, 1, 0, True), LOADING),
        (ApiKey.INIT_PRODUCER_ID, 0, InitProducerIdRequest(ID, 1000), LOADING),
        (ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([ID]), LOADING),
    ],
)
def test_while_its_partition_is_loaded_each_hears_so_in_the_words_of_its_version(world, key, version, message, code):
    coordinator = world.coordinator
    coordinator._refuse_loading(GroupRequest(9, key, version, message), world.now(), False)
    [answer] = coordinator._env.take_effects()
    assert isinstance(answer, Answer) and answer.token == 9
    assert codes(answer.message) == {code} and coordinator.counts.loading_refused == 1


def test_who_describes_and_has_waited_hears_of_those_that_can_be_described(world):
    coordinator = world.coordinator
    waited = GroupRequest(9, ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([ID]))
    coordinator._refuse_loading(waited, world.now(), True)
    [answer] = coordinator._env.take_effects()
    assert codes(answer.message) == {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
    ended = GroupRequest(10, ApiKey.END_TXN, 1, EndTxnRequest(ID, 1, 0, True))
    coordinator._refuse_loading(ended, world.now(), True)
    [answer] = coordinator._env.take_effects()
    assert codes(answer.message) == {LOADING} and coordinator.counts.loading_refused == 2


def codes(message):
    """Of all parts of an answer."""
    if hasattr(message, "transaction_states"):
        return {one.error_code for one in message.transaction_states}
    if hasattr(message, "topics"):
        return {one.error_code for topic in message.topics for one in topic.partitions}
    return {message.error_code}
