"""A partition's role changed at this broker: its form as a record of kind 8. Pure; the tracer writes it, anybody reads.

Beside t0_ns (when the new role was in force, by the agent's clock): topic_hash as in requests, corr_id partition, aux
leader epoch. At the place of the stages six u64: old role, new role, log end, high watermark, controller epoch, leader
(all ones: none).
"""

import struct
from typing import NamedTuple

from mpbroker.trace import record

ROLE_NAMES = {0: "leader", 1: "follower", 2: "none"}
"""As native/shm/layout_replicas.h numbers them."""
NO_LEADER = 0xFFFFFFFF
VALUES = struct.Struct("<6Q")
VALUES_OFFSET = record.layout()["stage"][0]


class RoleChange(NamedTuple):
    """The same role in a new leader epoch is a change, too. `leader`: a broker's id, None: nobody leads."""

    t0_ns: int
    topic_hash: int
    partition: int
    leader_epoch: int
    old_role: int
    new_role: int
    log_end: int
    high_watermark: int
    controller_epoch: int
    leader: int | None

    def pack(self, processor: int) -> bytes:
        """The record, for the segments of a processor's lane."""
        data = bytearray(
            record.TraceRecord(
                t0_ns=self.t0_ns,
                kind=record.ROLE_CHANGE,
                aux=self.leader_epoch & 0xFFFFFFFF,
                topic_hash=self.topic_hash,
                corr_id=self.partition,
                proc_id=processor,
            ).pack()
        )
        leader = NO_LEADER if self.leader is None else self.leader
        values = (self.old_role, self.new_role, self.log_end, self.high_watermark, self.controller_epoch, leader)
        VALUES.pack_into(data, VALUES_OFFSET, *values)
        return bytes(data)


def unpack(data: bytes | memoryview, offset: int = 0) -> RoleChange:
    """The change in a record of kind 8."""
    one = record.unpack(data, offset)
    old, new, log_end, high_watermark, controller_epoch, leader = VALUES.unpack_from(data, offset + VALUES_OFFSET)
    return RoleChange(
        one.t0_ns,
        one.topic_hash,
        one.corr_id,
        one.aux,
        old,
        new,
        log_end,
        high_watermark,
        controller_epoch,
        None if leader == NO_LEADER else leader,
    )
