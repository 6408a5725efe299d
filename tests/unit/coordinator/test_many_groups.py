"""Requests for several groups: of each partition that is not here, or not read yet, the code says so."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.coordinator.many_groups import list_groups
from mpbroker.errors import ErrorCode
from mpbroker.metadata.coordinator_partitions import partition_of
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from mpbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from mpbroker.protocol.messages.list_groups import ListGroupsRequest
from mpbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.harness.group_calls import Calls
from tests.harness.group_world import GROUP

PARTITIONS = GroupSettings().partitions
LOADING, NOT_HERE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
ELSEWHERE = next(name for name in "abcdef" if partition_of(name, PARTITIONS) != partition_of(GROUP, PARTITIONS))


@pytest.fixture
def calls():
    """With a group that has an offset."""
    calls = Calls()
    assert calls.commit_codes(5) == [0]
    return calls


def deleted(calls, *names):
    return [(one.group_id, one.error_code) for one in calls.ask(DeleteGroupsRequest(list(names)), 2).answer.results]


def test_a_group_that_is_elsewhere_is_not_deleted_here(calls):
    assert deleted(calls, ELSEWHERE, GROUP, ELSEWHERE) == [(ELSEWHERE, NOT_HERE), (GROUP, 0)]
    assert deleted(calls, GROUP) == [(GROUP, ErrorCode.GROUP_ID_NOT_FOUND)]


def test_groups_elsewhere_are_neither_described_nor_are_their_offsets_told(calls):
    answer = calls.ask(DescribeGroupsRequest([ELSEWHERE, GROUP]), 5).answer
    assert [(one.group_id, one.error_code) for one in answer.groups] == [(ELSEWHERE, NOT_HERE), (GROUP, 0)]
    asked = [OffsetFetchRequestGroup(name, topics=None) for name in (ELSEWHERE, GROUP)]
    answer = calls.ask(OffsetFetchRequest(groups=asked), 8).answer
    rows = [(one.group_id, one.error_code, len(one.topics or ())) for one in answer.groups]
    assert rows == [(ELSEWHERE, NOT_HERE, 0), (GROUP, 0, 1)]


def test_while_a_partition_is_read_the_list_says_that_it_is_not_whole(calls):
    answer = calls.ask(ListGroupsRequest(), 4).answer
    assert (answer.error_code, [one.group_id for one in answer.groups]) == (0, [GROUP])
    heard = []
    env = SimpleNamespace(answer=lambda token, message: heard.append((token, message)))
    shards = {**calls.world.coordinator._shards, 99: SimpleNamespace(is_loading=True)}
    list_groups(env, shards, GroupRequest(7, ApiKey.LIST_GROUPS, 4, None), ListGroupsRequest(), Now(1, 1))
    [(token, answer)] = heard
    assert (token, answer.error_code, [one.group_id for one in answer.groups]) == (7, LOADING, [GROUP])
