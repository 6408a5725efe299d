"""DescribeGroups, ListGroups, DeleteGroups: groups as an administrator sees them. Runs in the coordinator process."""

from __future__ import annotations

from collections.abc import Callable

from mpbroker.coordinator.any_group import AnyGroup, ModernGroup
from mpbroker.coordinator.append_errors import group_append_error
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import State
from mpbroker.coordinator.shard import Shard, keys_of
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from mpbroker.protocol.messages.list_groups import ListedGroup, ListGroupsRequest


def described(shard: Shard, group_id: str) -> DescribedGroup:
    """One group; a protocol, metadata and assignments are shown only while they are settled."""
    group = shard.find(group_id)
    if group is None:
        return DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
    is_stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                group.metadata(member) if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )


def listed(shard: Shard, message: ListGroupsRequest) -> list[ListedGroup]:
    """The groups of a shard that pass the filters, which ignore case; an empty filter takes all."""
    states = {name.lower() for name in message.states_filter}
    types = {name.lower() for name in message.types_filter}
    return [
        ListedGroup(group.id, group.protocol_type or "", group.state_name, group.type)
        for group in shard.groups.values()
        if (not types or group.type in types) and (not states or group.state_name.lower() in states)
    ]


class Deletion:
    """One DeleteGroups: the codes of its groups, which come in shard by shard; then `done` is called."""

    def __init__(self, codes: dict[str, int], done: Callable[[], None]) -> None:
        self.codes = codes
        self._done = done
        self._open = 1  # appends on their way, and this until all of them are begun

    def all_begun(self) -> None:
        """No more shards."""
        self._end_one()

    def _end_one(self) -> None:
        self._open -= 1
        if not self._open:
            self._done()

    def delete(self, shard: Shard, group_ids: list[str], request: GroupRequest, now: Now) -> None:
        """Delete those of these groups, all of this shard, that are empty; one append for all."""
        was_appended = shard.partition in request.appended
        groups = []
        for group_id in group_ids:
            group = shard.any(group_id)
            self.codes[group_id] = _delete_error(group, was_appended)
            if group is not None and self.codes[group_id] == ErrorCode.NONE:
                group.mark_dead(True)
                groups.append(group)
        keys = [key for group in groups for key in keys_of(group)]
        if not keys:
            for group in groups:
                shard.forget(group)
            return

        def then(code: int, later: Now) -> None:
            for group in groups:
                self._settle(shard, group, code)
            self._end_one()

        self._open += 1
        shard.append_tombstones(keys, request.token, now, then)

    def _settle(self, shard: Shard, group: AnyGroup, code: int) -> None:
        if code == ErrorCode.NONE:
            shard.forget(group)
        else:
            group.mark_dead(False)
            self.codes[group.id] = group_append_error(code)


def _delete_error(group: AnyGroup | None, was_appended: bool) -> int:
    if group is None or group.is_dead:
        return ErrorCode.NONE if was_appended else ErrorCode.GROUP_ID_NOT_FOUND
    is_leaving = isinstance(group, ModernGroup) and group.is_recording  # it may be nobody leaves after all
    return ErrorCode.NONE if group.is_empty and not is_leaving else ErrorCode.NON_EMPTY_GROUP
