"""A change of role as a record: what is packed comes back, and where each value lies."""

import struct

import pytest

from mpbroker.trace import record
from mpbroker.trace.role_change import NO_LEADER, VALUES_OFFSET, RoleChange, unpack


@pytest.mark.parametrize("leader, written", [(2, 2), (0, 0), (None, 0xFFFFFFFF)])
def test_a_change_and_its_record(leader, written):
    change = RoleChange(5_000_000, 0xDEADBEEF, 3, 7, 1, 0, 120, 118, 2, leader)
    data = change.pack(4)
    assert unpack(data) == change and unpack(bytes(16) + data, 16) == change
    assert struct.unpack_from("<6Q", data, VALUES_OFFSET) == (1, 0, 120, 118, 2, written)
    seen = record.unpack(data, 0)
    assert (seen.kind, seen.aux, seen.corr_id, seen.proc_id, seen.topic_hash) == (
        record.ROLE_CHANGE,
        7,
        3,
        4,
        0xDEADBEEF,
    )
    assert NO_LEADER == 0xFFFFFFFF, "as notices have it"


def test_an_epoch_that_nobody_knows_has_room():
    assert unpack(RoleChange(1, 2, 3, -1, 1, 0, 0, 0, 0, None).pack(0)).leader_epoch == 0xFFFFFFFF
