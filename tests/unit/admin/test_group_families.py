"""Lag of groups from what the coordinator said and where partitions end."""

from mpbroker.admin.group_families import GroupLook, group_families
from mpbroker.shm.partition_metrics import PartitionMetrics


def _partition(row: int, number: int, end: int) -> PartitionMetrics:
    return PartitionMetrics(row, number, True, 0, end + 5, end, 0, 1, 0, 0, 0)


def _found(look: GroupLook) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    families = group_families(look, {3: "t", 4: "u"}, [_partition(3, 0, 10), _partition(3, 1, 7), _partition(4, 0, 1)])
    return {
        family.name: [(tuple(text for _, text in sample.labels), sample.value) for sample in family.samples]
        for family in families
    }


def test_lag_is_up_to_what_consumers_may_read() -> None:
    look = GroupLook()
    look.add({"b": 2, "a": 0}, {"b": {("t", 1): 7, ("t", 0): 4}, "a": {("u", 0): 0}})
    found = _found(look)
    assert found["kafka_consumergroup_lag"] == [(("a", "u", "0"), 1), (("b", "t", "0"), 6), (("b", "t", "1"), 0)]
    assert [value for _, value in found["kafka_consumergroup_current_offset"]] == [0, 4, 7]
    assert found["kafka_consumergroup_members"] == [(("a",), 0), (("b",), 2)]
    assert found["mpbroker_consumergroups_complete"] == [((), 0)]


def test_a_topic_that_is_gone_has_none_and_one_made_anew_no_negative_one() -> None:
    look = GroupLook()
    look.is_complete = True
    look.add({"g": 1}, {"g": {("gone", 0): 3, ("t", 5): 3, ("u", 0): 90}})
    found = _found(look)
    assert found["kafka_consumergroup_lag"] == [(("g", "u", "0"), 0)]
    assert found["kafka_consumergroup_current_offset"] == [(("g", "u", "0"), 90)]
    assert found["mpbroker_consumergroups_complete"] == [((), 1)]
