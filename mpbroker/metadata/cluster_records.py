"""What the metadata store keeps about brokers, the controller and partitions of a cluster: JSON values with a version
field `v`. Brokers' records are written by their agents, all others by the elected controller. Pure."""

import msgspec

from mpbroker.metadata.topic_record import RECORD_VERSION


class ListenerRecord(msgspec.Struct, frozen=True):
    """A listener of a broker, as others reach it (advertised.listeners)."""

    name: str
    protocol: str
    host: str
    port: int


class BrokerRecord(msgspec.Struct, frozen=True):
    """A broker that lives. `machine`: boot id of its kernel; `directory`: directory.id of its first log directory;
    `incarnation`: one start of it, so that its own process finds its registration again, and another one does not;
    `unclean`: the machine went down under it, so that its logs may lack what it acknowledged; `failed`: log directories
    that it cannot use, by directory.id."""

    id: int
    machine: str
    directory: str
    incarnation: str
    listeners: list[ListenerRecord]
    rack: str | None = None
    unclean: bool = False
    failed: list[str] = []
    v: int = RECORD_VERSION


class ControllerRecord(msgspec.Struct, frozen=True):
    """Who is the controller. `incarnation`: the process that was elected, in no other term the same."""

    id: int
    epoch: int
    incarnation: str
    v: int = RECORD_VERSION


class ControllerEpochRecord(msgspec.Struct, frozen=True):
    """The epoch of the last election; the first controller has 1."""

    epoch: int
    v: int = RECORD_VERSION


class PartitionRecord(msgspec.Struct, frozen=True):
    """State of a partition. `leader` -1: none; `isr`: in the replicas' order; `controller_epoch`: of who wrote it.
    `recovering`: an unclean election made a replica leader that may lack records (KIP-704)."""

    leader: int
    leader_epoch: int
    isr: list[int]
    controller_epoch: int
    recovering: bool = False
    v: int = RECORD_VERSION


def broker_epoch(create_rev: int) -> int:
    """A broker's epoch: the revision that created its registration."""
    return create_rev


def partition_epoch(version: int) -> int:
    """A partition's epoch, 0 at its creation, from the version of its key."""
    return version - 1
