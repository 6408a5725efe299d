"""Requests that the coordinator of transactions refuses before it looks at any transaction."""

import pytest

from mpbroker.coordinator.effects import Answer, GroupRequest, TakeProducerIds
from mpbroker.coordinator.transactions.transaction import EXHAUSTED_EPOCH, Transaction
from mpbroker.coordinator.transactions.transaction_coordinator import MAX_ID_BYTES
from mpbroker.coordinator.transactions.transaction_records import transaction_key, transaction_value
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


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (-1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (1, ErrorCode.NONE),
        (900_000, ErrorCode.NONE),
        (900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_a_transaction_may_take_some_time_and_not_more_than_the_settings_say(world, timeout_ms, code):
    assert world.init(timeout_ms=timeout_ms)[0] == code
    assert (world.recorded() is not None) is (code == ErrorCode.NONE)


class TestWithoutProducerIds:
    """Nobody has any for a while: `ids` gives them, or says that there are none."""

    @pytest.fixture
    def waiting(self, world, monkeypatch):
        world.kept, do = [], world._do
        keep = lambda effect: world.kept.append(effect) or [] if isinstance(effect, TakeProducerIds) else do(effect)  # noqa: E731
        monkeypatch.setattr(world, "_do", keep)
        return world

    def ids(self, world, count):
        world.carry_out(world.coordinator.add_producer_ids(500, count, world.now()))

    def init(self, world, name=ID):
        return world.send(InitProducerIdRequest(name, 1000), 4)

    def test_a_new_id_waits_for_one(self, waiting):
        heard = self.init(waiting)
        assert heard == [] and len(waiting.kept) == 1
        self.ids(waiting, 5)
        [answer] = heard
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 500, 0)

    def test_there_are_none(self, waiting):
        heard = self.init(waiting)
        self.ids(waiting, 0)
        assert heard[0].error_code == NOT_AVAILABLE and waiting.recorded() is None

    def test_another_request_made_the_id_meanwhile(self, waiting):
        first, second = self.init(waiting), self.init(waiting)
        self.ids(waiting, 5)
        found = [(one.error_code, one.producer_id, one.producer_epoch) for (one,) in (first, second)]
        assert found == [(0, 500, 0), (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)], "its record is on its way"

    def test_the_partition_went_meanwhile(self, waiting):
        heard = self.init(waiting)
        waiting.carry_out(waiting.coordinator.close(0, 0, waiting.now()))
        if not heard:
            self.ids(waiting, 5)
        assert [one.error_code for one in heard] == [ErrorCode.NOT_COORDINATOR]

    @pytest.mark.parametrize(("count", "code"), [(5, 0), (0, NOT_AVAILABLE)])
    def test_an_id_whose_epochs_are_used_up_is_moving_until_there_is_one(self, waiting, count, code):
        found = Transaction(ID, 77, EXHAUSTED_EPOCH, 1000, last_update_ms=1)
        waiting.log.append((transaction_key(ID), transaction_value(found, 0)))
        waiting.start()
        heard = self.init(waiting)
        assert heard == [] and self.init(waiting)[0].error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        self.ids(waiting, count)
        [answer] = heard
        assert (answer.error_code, answer.producer_id) == (code, 500 if count else -1)
        again = [one.error_code for one in self.init(waiting)]
        assert again == ([0] if count else []), "it waits for one again, and is not moving for ever"


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
