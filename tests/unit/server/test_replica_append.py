"""One partition of a produce: what is refused before the log sees it, in Kafka's order, and what the log is asked."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.produce import PartitionProduceData
from mpbroker.server import replica_append as module
from mpbroker.server.replica_append import append_partition, name_records, recorded_result, unverified_code

UNKNOWN, ACKS = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUIRED_ACKS
STATE, ABORTABLE = ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE
INTERNAL = ErrorCode.INVALID_TOPIC_EXCEPTION


def appended(error=0, unverified=False):
    return SimpleNamespace(error=error, unverified=unverified, base_offset=7, append_time_ms=55, log_start=2)


class World:
    """`asked`: what the log was asked; `result`: what it says."""

    def __init__(self, result=None):
        self.asked, self.result = [], result or appended()
        log_manager = SimpleNamespace(append=self._append, refuse=self._refuse)
        self.context = SimpleNamespace(asks_coordinator=False, log_manager=log_manager)

    def _append(self, topic, index, request, cell, records, version, acks):
        self.asked.append((topic.name, index, cell, bytes(records), version, acks))
        return self.result

    def _refuse(self, topic, index, request, cell, code):
        self.asked.append(("refuse", index, cell, code))
        return appended(code)

    def append(self, index=0, *, topic="t", code=0, acks=1, client="me", internal=False, version=9):
        found = topic and SimpleNamespace(name=topic, partitions=[40, 41], internal=internal)
        request = SimpleNamespace(client_id=client, api_version=version)
        data = PartitionProduceData(index=index, records=b"a batch and more")
        checked = SimpleNamespace(code=code, batch_bytes=7)
        return append_partition(self.context, request, found, data, checked, 3, acks)


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"topic": None}, UNKNOWN),
        ({"index": -1}, UNKNOWN),
        ({"index": 2}, UNKNOWN),
        ({"index": 2, "code": 87, "acks": 5}, UNKNOWN),
        ({"code": 87, "acks": 5}, 87),
        ({"acks": 2}, ACKS),
        ({"acks": -2, "internal": True}, ACKS),
        ({"internal": True}, INTERNAL),
    ],
)
def test_what_is_refused_before_the_log_sees_it(how, code):
    world = World()
    found = world.append(**how)
    assert world.asked == []
    assert (found.index, found.error_code) == (how.get("index", 0), code)
    assert (found.base_offset, found.log_append_time_ms, found.log_start_offset) == (-1, -1, -1)


@pytest.mark.parametrize(
    "how", [{}, {"index": 1}, {"acks": 0}, {"acks": -1}, {"internal": True, "client": "__admin_client"}]
)
def test_the_log_gets_the_batch_that_was_checked_and_no_more(how):
    world = World()
    found = world.append(**how)
    assert world.asked == [("t", how.get("index", 0), 3, b"a batch", 9, how.get("acks", 1))]
    assert (found.error_code, found.base_offset, found.log_append_time_ms, found.log_start_offset) == (0, 7, 55, 2)


@pytest.mark.parametrize(
    ("asks", "version", "refused"),
    [(True, 9, False), (False, 12, False), (True, 12, False), (False, 11, True), (False, 9, True)],
)
def test_a_transaction_of_which_the_partition_knows_nothing_is_the_coordinators(asks, version, refused):
    world = World(appended(STATE, unverified=True))
    world.context.asks_coordinator = asks
    found = world.append(version=version)
    if not refused:
        assert found is None and len(world.asked) == 1
        return
    code = STATE if version < 11 else ABORTABLE
    assert found.error_code == code and world.asked[1][-1] == code


@pytest.mark.parametrize(
    ("code", "version", "told"), [(STATE, 10, STATE), (STATE, 11, ABORTABLE), (STATE, 12, ABORTABLE), (47, 12, 47)]
)
def test_who_knows_that_a_transaction_can_be_aborted_is_told_so(code, version, told):
    assert unverified_code(code, version) == told


@pytest.mark.parametrize(
    ("filled", "topic", "told"),
    [
        (None, True, None),
        ((0, 40), True, "synced"),
        ((0, 42), True, "filled"),
        ((0, 99), True, "filled"),
        ((0, 40), False, "filled"),
        ((3, 40), True, "filled"),
    ],
)
def test_what_an_earlier_run_came_to_is_synced_if_it_may_still_be(filled, topic, told):
    """Nothing else is told of a topic that was deleted since, or of an error."""
    cell = filled and SimpleNamespace(error=filled[0], ordinal=filled[1], base_offset=1, append_time_ms=5, log_start=0)
    synced = SimpleNamespace(error=56, base_offset=2, append_time_ms=6, log_start=0)
    context = SimpleNamespace(
        port=SimpleNamespace(cell=lambda request, number: cell if number == 3 else "another"),
        log_manager=SimpleNamespace(sync_recorded=lambda *words: synced if words[1] in (40, 99) else None),
    )
    found = recorded_result(context, "request", SimpleNamespace(partitions=[40, 42]) if topic else None, 6, 3)
    if told is None:
        assert found is None
    else:
        expected = {"synced": (56, 2), "filled": (filled[0], 1)}[told]
        assert (found.index, found.error_code, found.base_offset) == (6, *expected)


@pytest.mark.parametrize("rejected", [None, SimpleNamespace(sentence="why", records=[(2, "no key"), (5, "late")])])
def test_records_that_were_refused_are_named(rejected):
    asked = []
    context = SimpleNamespace(
        log_manager=SimpleNamespace(rejected_records=lambda topic, *words: asked.append(words) or rejected)
    )
    data, result = PartitionProduceData(index=4, records=b"a batch and more"), module.refused(4, 87)
    name_records(context, SimpleNamespace(name="t"), data, SimpleNamespace(batch_bytes=7), result)
    assert [(bytes(records), name) for records, name in asked] == [(b"a batch", "t-4")]
    named = [(one.batch_index, one.batch_index_error_message) for one in result.record_errors]
    assert (result.error_message, named) == ((None, []) if rejected is None else ("why", rejected.records))
