"""What a member may have next, on the way from what it has to what it is to have. Pure; in the coordinator process.

    STABLE ──new target──► UNREVOKED_PARTITIONS ──it gave them back──► STABLE in the target's epoch, or
                                                      UNRELEASED_PARTITIONS until others gave back theirs

A partition is handed to a member only when nobody else has it, and a member comes to the target's epoch only when it
has given back what it should.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember, MemberState, Owned, Target, pairs

#: Topic id and partition → the member that has it, None: nobody.
OwnerOf = Callable[[bytes, int], str | None]
#: Topic id → partitions that the member says it has; None: it did not say.
Held = Mapping[bytes, Collection[int]] | None


def reconciled(
    member: ConsumerMember,
    target_epoch: int,
    target: Target,
    subscribed: frozenset[bytes],
    owner_of: OwnerOf,
    held: Held,
    subscription_changed: bool,
) -> ConsumerMember:
    """The member as it is from now on; the same one if nothing changes. `subscribed`: ids of the topics it wants."""
    state = member.state
    if state is MemberState.STABLE and member.epoch == target_epoch:
        return _unsubscribed(member, subscribed, held) if subscription_changed else member
    if state is MemberState.UNREVOKED_PARTITIONS and holds(held, member.revoking):
        return _unsubscribed(member, subscribed, held) if subscription_changed else member
    epoch = target_epoch if state is MemberState.UNKNOWN else member.epoch
    return _next(member, epoch, target_epoch, target, subscribed, owner_of, held)


def holds(held: Held, owned: Owned) -> bool:
    """Whether a member may still have one of these; one that does not say what it has may."""
    if held is None:
        return True
    return any(number in owned.get(topic_id, ()) for topic_id, number in pairs(held))


def _unsubscribed(member: ConsumerMember, subscribed: frozenset[bytes], held: Held) -> ConsumerMember:
    """Without a new target: what it does not want any more is to be given back."""
    gone = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in subscribed}
    if not gone:
        return member
    assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in gone}
    revoking = dict(member.revoking)
    for topic_id, epochs in gone.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
    if holds(held, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.at_epoch(member.epoch, state=state, assigned=assigned, revoking=revoking)
    return member.at_epoch(member.epoch, assigned=assigned)


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Target,
    subscribed: frozenset[bytes],
    owner_of: OwnerOf,
    held: Held,
) -> ConsumerMember:
    wanted = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}
    kept: dict[bytes, dict[int, int]] = {}
    excess: dict[bytes, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        for number, since in epochs.items():
            place = kept if number in wanted.get(topic_id, ()) else excess
            place.setdefault(topic_id, {})[number] = since
    if excess and holds(held, excess):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.at_epoch(epoch, state=state, assigned=kept, revoking=excess)
    is_waiting = False
    for topic_id, number in pairs(wanted):
        if number in kept.get(topic_id, ()):
            continue
        if owner_of(topic_id, number) in (None, member.id):
            kept.setdefault(topic_id, {})[number] = target_epoch
        else:
            is_waiting = True
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return member.but(epoch=target_epoch, previous_epoch=member.epoch, state=state, assigned=kept, revoking={})
