"""Sessions as they are stored: every field comes back, what a new one begins with, what has no room."""

import pytest

from mpbroker._native import LAYOUT
from mpbroker.channel.fetch_session_table import (
    ANSWERED,
    BY_ID,
    NAME_BYTES,
    PRIVILEGED,
    SESSION_UNKNOWN,
    FetchSessionTable,
    SessionPartition,
    SessionRow,
    rows_of,
)
from mpbroker.protocol.types import ZERO_UUID
from mpbroker.shm.layout import SLOT_HANDLERS
from tests.harness.small_core import small_core

ID = bytes(range(16))


@pytest.fixture
def table():
    return FetchSessionTable(small_core().core, SLOT_HANDLERS)


def partition(number, topic="t", topic_id=ZERO_UUID):
    return SessionPartition(topic, topic_id, number, *(10 * number + field for field in range(2, 9)))


@pytest.mark.parametrize(
    ("by_id", "privileged", "flags"),
    [(False, False, 0), (True, False, BY_ID), (False, True, PRIVILEGED), (True, True, BY_ID | PRIVILEGED)],
)
def test_a_new_session_awaits_the_first_epoch_and_has_every_field_as_it_was_given(table, by_id, privileged, flags):
    partitions = [partition(3), partition(1, "u", ID), partition(4), partition(2, "", ID)]
    session_id = table.make(5, by_id, privileged, partitions)
    assert session_id > 0 and table.hold(session_id) == 0
    assert table.row() == SessionRow(1, by_id, False, 0, flags, partitions)
    table.release()


@pytest.mark.parametrize("is_answered", [True, False])
def test_what_is_put_is_what_the_next_request_finds(table, is_answered):
    session_id = table.make(5, True, False, [partition(3)])
    for before in (True, False):
        assert table.hold(session_id) == 0
        flags = BY_ID | (ANSWERED if before else 0)
        assert table.put(SessionRow(7, True, is_answered, 2**33, flags, [partition(1), partition(2)]))
        assert table.hold(session_id) == 0
        flags = BY_ID | (ANSWERED if is_answered else 0)
        assert table.row() == SessionRow(7, True, is_answered, 2**33, flags, [partition(1), partition(2)])
        table.release()


@pytest.mark.parametrize(("length", "fits"), [(NAME_BYTES - 1, True), (NAME_BYTES, True), (NAME_BYTES + 1, False)])
def test_no_name_is_longer_than_a_topics(table, length, fits):
    partitions = [partition(1), partition(2, "n" * length)]
    assert (rows_of(partitions) is not None) is fits
    session_id = table.make(5, False, False, partitions)
    assert bool(session_id) is fits
    if fits:
        assert table.hold(session_id) == 0 and table.row().partitions == partitions
        table.release()


def test_a_session_that_takes_in_a_name_too_long_is_no_more(table):
    session_id = table.make(5, False, False, [partition(1)])
    assert table.hold(session_id) == 0
    assert table.put(table.row()._replace(partitions=[partition(1, "n" * (NAME_BYTES + 1))])) is False
    assert table.hold(session_id) == SESSION_UNKNOWN


def test_one_topic_stands_once_however_many_partitions_it_has():
    topics, count, rows = rows_of([partition(1), partition(2), partition(3, "u"), partition(4, "t", ID), partition(5)])
    assert (topics, count) == (3, 5)
    assert len(rows) == 3 * LAYOUT["session_topic"] + 5 * LAYOUT["session_partition"]


@pytest.mark.parametrize(("topic_id", "key"), [(ZERO_UUID, ("t", 6)), (ID, (ID, 6))])
def test_a_partition_goes_by_its_topics_id_where_there_is_one(topic_id, key):
    made = SessionPartition("t", topic_id, 6, 0, 0, 0, 0, 0)
    assert (made.key, made.high_watermark, made.log_start) == (key, -1, -1)
