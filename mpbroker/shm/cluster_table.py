"""What this broker was told of its cluster, in the core segment (native/shm/cluster.h); a door to the C core.

`assignments` has a row for each row of `partitions`: who leads and holds that partition. `brokers` has those that live.
The controller process alone writes (`*_write`, `cluster_announce`); any process may read. A broker that is alone has no
rows in either, and nobody asks.
"""

from itertools import takewhile
from typing import Final, NamedTuple

import msgspec

from mpbroker import _native
from mpbroker.shm.core import Core
from mpbroker.shm.layout import BROKER_BYTES

NOBODY: Final = -1
"""Broker id: none."""
GONE: Final = -2
"""In the place of a broker's epoch: it lives no more, and is shown for a while yet."""
NO_TOPIC: Final = bytes(16)

broker_rows = _native.broker_rows
cluster_announce = _native.cluster_announce
held_payload = _native.held_payload


class Assignment(NamedTuple):
    """Who leads and holds a partition. `offline`: replicas on brokers that do not live."""

    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class Endpoint(msgspec.Struct, frozen=True, array_like=True):
    """Where a broker is reached on one listener."""

    listener: str
    protocol: int
    host: str
    port: int


class Broker(msgspec.Struct, frozen=True):
    """A broker. `epoch`: of its registration; GONE: it does not live any more."""

    id: int
    epoch: int
    endpoints: list[Endpoint]
    rack: str | None = None

    def on(self, listener: str) -> Endpoint | None:
        """Its address on the listener of that name."""
        return next((each for each in self.endpoints if each.listener == listener), None)


class ClusterState(NamedTuple):
    """`generation` counts changes of the others and of `brokers`; -1 elsewhere: not known."""

    generation: int
    controller: int
    controller_epoch: int
    broker_epoch: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[list[Endpoint], str | None])


def cluster_state(core: Core) -> ClusterState:
    """The controller, and this broker's own epoch."""
    return ClusterState._make(_native.cluster_state(core))


def assignment_read(core: Core, ordinal: int) -> Assignment | None:
    """Of the partition of a row; None: nobody has said yet."""
    found = _native.assignment_read(core, ordinal)
    return None if found is None else Assignment._make(found)


def assignment_write(core: Core, ordinal: int, assignment: Assignment) -> None:
    """Show it in its row."""
    _native.assignment_write(core, ordinal, *assignment)


def assignment_clear(core: Core, ordinal: int) -> None:
    """Nothing is known of that row's partition any more."""
    _native.assignment_write(core, ordinal, NO_TOPIC, 0, NOBODY, 0, 0, 0, (), (), ())


def fits(broker: Broker) -> bool:
    """Whether a row has room for its endpoints."""
    return len(_encoder.encode((broker.endpoints, broker.rack))) <= BROKER_BYTES


def brokers_shown(core: Core) -> dict[int, Broker]:
    """All that live, and those that are gone since not long ago, by id."""
    found: dict[int, Broker] = {}
    for row in range(broker_rows(core)):
        read = _native.broker_read(core, row)
        if read is None:  # whoever looks at a row for the first time gives it pages: half a MiB for all of them
            break
        endpoints, rack = _decoder.decode(read[2])
        found[read[0]] = Broker(read[0], read[1], endpoints, rack)
    return dict(sorted(found.items()))


def brokers_read(core: Core) -> dict[int, Broker]:
    """All that live, by id."""
    return {id: broker for id, broker in brokers_shown(core).items() if broker.epoch != GONE}


def brokers_write(core: Core, brokers: list[Broker]) -> None:
    """Show these and no others; a row that shows its broker already is left alone. IndexError: too many.

    Rows are shown without a gap, whenever this process is killed: readers stop at the first that shows nobody.
    """
    shown = list(takewhile(lambda row: _native.broker_read(core, row) is not None, range(broker_rows(core))))
    for row, each in enumerate(brokers):
        after = (each.id, each.epoch, _encoder.encode((each.endpoints, each.rack)))
        if row >= len(shown) or _native.broker_read(core, row) != after:
            _native.broker_write(core, row, *after)
    for row in reversed(shown[len(brokers) :]):
        _native.broker_write(core, row, NOBODY, NOBODY, b"")
