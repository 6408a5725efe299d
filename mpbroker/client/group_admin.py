"""Consumer groups through the protocol: list, describe, offsets, delete. Any process; any broker.

Each function asks the broker it is given once; `ask_coordinator` finds the one that answers for a group, and waits
until it can.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import NamedTuple, TypeAlias, TypeVar

from mpbroker.client.group_assignment import assigned_partitions
from mpbroker.client.network_client import ConnectionLost, NetworkClient
from mpbroker.client.retries import MORE_PAUSES, PAUSES, pauses
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)
from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from mpbroker.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from mpbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
)

EMPTY, DEAD = "Empty", "Dead"
CLASSIC, CONSUMER = "classic", "consumer"
MAX_COMMITS = 1000
"""Offsets in one OffsetCommit: they become one batch of the coordinator's log."""
_NOT_READY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_SEVERAL_GROUPS = 8  # the version from which OffsetFetch asks for several

Partition: TypeAlias = tuple[str, int]
T = TypeVar("T")


class GroupListing(NamedTuple):
    """One group of a list; state and type (`classic`, `consumer`) are empty where the broker is too old to tell."""

    name: str
    state: str
    protocol_type: str
    type: str = ""


class GroupMember(NamedTuple):
    """One member; `host` as the broker saw it, without the slash that Java puts before it."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[Partition]


class GroupDescription(NamedTuple):
    """One group; `protocol` is the assignor that its members voted for, empty while they have none. `type`: `consumer`
    for the next-generation protocol (KIP-848); such a group has an epoch, and the one its targets are for."""

    name: str
    state: str
    protocol_type: str
    protocol: str
    members: list[GroupMember]
    type: str = CLASSIC
    epoch: int | None = None
    target_epoch: int | None = None


def when_ready(ask: Callable[[], T], tries: int = PAUSES) -> T:
    """What `ask` returns, tried for some seconds while a coordinator starts, moves or reads its groups."""
    for pause_s in pauses(tries):
        try:
            return ask()
        except KafkaError as error:
            if error.code not in _NOT_READY:
                raise
        time.sleep(pause_s)
    return ask()


def ask_coordinator(client: NetworkClient, name: str, ask: Callable[[NetworkClient], T], key_type: int = 0) -> T:
    """What `ask` returns when it is given a connection to the coordinator, which is looked for again when it has moved,
    and while nobody answers at its address."""

    def find_and_ask() -> T:
        with at_coordinator(client, name, key_type) as coordinator:
            return ask(coordinator)

    return when_ready(find_and_ask, PAUSES if len(brokers_of(client)) <= 1 else PAUSES + MORE_PAUSES)


@contextlib.contextmanager
def at_coordinator(client: NetworkClient, name: str, key_type: int = 0) -> Iterator[NetworkClient]:
    """A connection to the coordinator of a group, or (key type 1) of a transactional id: `client` itself where there is
    one broker. KafkaError while there is none."""
    found = _find_coordinator(client, name, key_type)
    if len(brokers_of(client)) <= 1:
        yield client
        return
    try:
        connected = NetworkClient(found.host, found.port, client.client_id, client.timeout_ms)
    except ConnectionLost as lost:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(lost), name) from lost
    with connected as coordinator:
        yield coordinator


def _find_coordinator(client: NetworkClient, name: str, key_type: int) -> FindCoordinatorResponse:
    """Its address; the first that asks makes the broker create the topic of groups, which takes a moment."""
    found = client.call(FindCoordinatorRequest(key=name, key_type=key_type), FindCoordinatorResponse, 3)
    if found.error_code:
        raise KafkaError(found.error_code, found.error_message or "", name)
    return found


def brokers_of(client: NetworkClient) -> list[MetadataResponseBroker]:
    """All brokers of the cluster."""
    return client.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), MetadataResponse, 8).brokers


def ask_every_broker(client: NetworkClient, ask: Callable[[NetworkClient], list[T]]) -> list[T]:
    """What all brokers of the cluster answer, together: each knows what it coordinates. KafkaError (15) while one that
    is named does not take a connection."""
    brokers = brokers_of(client)
    if len(brokers) <= 1:
        return ask(client)
    found: list[T] = []
    for broker in brokers:
        try:
            connected = NetworkClient(broker.host, broker.port, client.client_id, client.timeout_ms)
        except ConnectionLost as lost:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(lost)) from lost
        with connected as one:
            found += ask(one)
    return found


def list_groups(client: NetworkClient) -> list[GroupListing]:
    """The groups that this broker coordinates, by name; KafkaError while it loads some of them."""
    answer = client.call(ListGroupsRequest(), ListGroupsResponse, 5)
    if answer.error_code:
        raise KafkaError(answer.error_code)
    return sorted(
        GroupListing(one.group_id, one.group_state, one.protocol_type, one.group_type) for one in answer.groups
    )


def describe_groups(client: NetworkClient, groups: Iterable[str]) -> list[GroupDescription]:
    """These groups in their order, of either protocol; one that does not exist is Dead. KafkaError for the first that
    has an error."""
    answer = client.call(DescribeGroupsRequest(groups=list(groups)), DescribeGroupsResponse, 5)
    for group in answer.groups:
        if group.error_code:
            raise KafkaError(group.error_code, about=group.group_id)
    found = {group.group_id: _description(group) for group in answer.groups}
    found |= _of_next_generation(client, [name for name, group in found.items() if group.state == DEAD])
    return [found[group.group_id] for group in answer.groups]


def _of_next_generation(client: NetworkClient, names: list[str]) -> dict[str, GroupDescription]:
    """Those of these groups that the other request knows, which older brokers do not have."""
    try:
        rows = (
            client.call(ConsumerGroupDescribeRequest(names), ConsumerGroupDescribeResponse, 1).groups if names else []
        )
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        rows = []
    found = {}
    for group in rows:
        if group.error_code == ErrorCode.NONE:
            found[group.group_id] = _next_generation_description(group)
        elif group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise KafkaError(group.error_code, about=group.group_id)
    return found


def _next_generation_description(group: ConsumerGroupDescribeResponseGroup) -> GroupDescription:
    members = [
        GroupMember(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host.removeprefix("/"),
            sorted(
                (row.topic_name, number)
                for row in (one.assignment.topic_partitions if one.assignment is not None else ())
                for number in row.partitions
            ),
        )
        for one in group.members
    ]
    return GroupDescription(
        group.group_id,
        group.group_state,
        CONSUMER,
        group.assignor_name,
        sorted(members, key=lambda one: one.id),
        CONSUMER,
        group.group_epoch,
        group.assignment_epoch,
    )


def _description(group: DescribedGroup) -> GroupDescription:
    members = [
        GroupMember(
            one.member_id,
            one.group_instance_id,
            one.client_id,
            one.client_host.removeprefix("/"),
            assigned_partitions(one.member_assignment),
        )
        for one in group.members
    ]
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, sorted(members, key=lambda m: m.id)
    )


def existing_group(client: NetworkClient, group: str) -> GroupDescription:
    """One group of this coordinator; KafkaError GROUP_ID_NOT_FOUND if there is none of that name."""
    [found] = describe_groups(client, [group])
    if found.state == DEAD:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, about=group)
    return found


def committed_offsets(client: NetworkClient, groups: Iterable[str]) -> dict[str, dict[Partition, int]]:
    """Group → partition → next offset to read, of all that these groups have committed. KafkaError."""
    names = list(groups)
    if client.version_for(OffsetFetchRequest, _SEVERAL_GROUPS) < _SEVERAL_GROUPS:
        return {name: _committed_of_one(client, name) for name in names}
    asked = [OffsetFetchRequestGroup(name, topics=None) for name in names]
    answer = client.call(OffsetFetchRequest(groups=asked), OffsetFetchResponse, _SEVERAL_GROUPS)
    for group in answer.groups:
        if group.error_code:
            raise KafkaError(group.error_code, about=group.group_id)
    return {group.group_id: _offsets(group.topics) for group in answer.groups}


def _committed_of_one(client: NetworkClient, group: str) -> dict[Partition, int]:
    """The same from a broker of before Kafka 3.0."""
    answer = client.call(OffsetFetchRequest(group_id=group, topics=None), OffsetFetchResponse, 7)
    if answer.error_code:
        raise KafkaError(answer.error_code, about=group)
    return _offsets(answer.topics)


def _offsets(topics: list[OffsetFetchResponseTopic]) -> dict[Partition, int]:
    rows = ((topic.name, row) for topic in topics for row in topic.partitions)
    return {(name, row.partition_index): row.committed_offset for name, row in rows if row.committed_offset >= 0}


def commit_offsets(client: NetworkClient, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commits for a group without members, MAX_COMMITS at a time. KafkaError for the first partition that has an
    error; what stood in earlier requests is committed then."""
    rows = iter(sorted(offsets.items()))
    while some := list(islice(rows, MAX_COMMITS)):
        request = OffsetCommitRequest(group_id=group, topics=list(_commits(some)))
        answer = client.call(request, OffsetCommitResponse, 8)
        for topic in answer.topics:
            for row in topic.partitions:
                if row.error_code:
                    raise KafkaError(row.error_code, about=f"{group}: {topic.name}-{row.partition_index}")


def _commits(offsets: list[tuple[Partition, int]]) -> Iterator[OffsetCommitRequestTopic]:
    for topic, rows in groupby(offsets, key=lambda row: row[0][0]):
        partitions = [OffsetCommitRequestPartition(number, offset) for (_, number), offset in rows]
        yield OffsetCommitRequestTopic(topic, partitions)


def delete_group(client: NetworkClient, group: str) -> None:
    """Deletes an empty group with its offsets; KafkaError."""
    [result] = client.call(DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse, 2).results
    if result.error_code:
        raise KafkaError(result.error_code, about=group)
