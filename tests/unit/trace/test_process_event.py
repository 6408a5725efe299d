"""Process events survive their way through a record; roles are numbered as the process table numbers them."""

import signal
import struct

import pytest

from mpbroker.shm import process_table
from mpbroker.supervisor.process_types import PROCESS_TYPES
from mpbroker.trace import process_event, record
from mpbroker.trace.process_event import DIED, STARTED, ProcessEvent


def test_a_start_goes_through_a_record():
    one = ProcessEvent(5, STARTED, 48, 3, 0, 4711, 1, None, 0, None)
    data = one.pack(processor=1)
    assert process_event.unpack(data) == one and one.name == "handler 0" and one.exit_text is None
    told = record.unpack(data)
    assert (told.kind, told.handler_id, told.conn_id, told.aux, told.proc_id) == (record.PROCESS_EVENT, 48, 1, 4711, 1)


def test_a_death_says_how():
    one = ProcessEvent(5, DIED, 16, 2, 0, 4711, 1, int(signal.SIGKILL), 1, 2)
    assert process_event.unpack(one.pack(0)) == one
    assert (one.name, one.exit_text) == ("processor 0", "signal 9")
    assert one._replace(wait_status=None).exit_text is None
    assert one._replace(wait_status=3 << 8).exit_text == "exit 3"


def test_roles_and_absences_are_those_of_the_process_table():
    assert {0: "supervisor"} | {row.number: row.role for row in PROCESS_TYPES} == process_event.ROLE_NAMES
    assert (process_table.NEVER_DIED, process_table.NO_LISTENER) == (process_event.NO_STATUS, process_event.NO_LISTENER)


@pytest.mark.parametrize(("status", "listener"), [(9, 2), (0, 0), (None, None)])
def test_where_each_value_lies_and_what_stands_for_none(status, listener):
    """Traces are read by others, and by later versions: docs/trace-format.md."""
    one = ProcessEvent(5, DIED, 16, 2, 3, 4711, 1, status, 8, listener)
    data = one.pack(0)
    words = (2, 2, 3, 0xFFFFFFFF if status is None else status, 8, 255 if listener is None else listener)
    assert struct.unpack_from("<6Q", data, record.layout()["stage"][0]) == words
    assert process_event.unpack(bytes(16) + data, 16) == one
    assert process_event.EVENT_NAMES == {1: "started", 2: "died"}
