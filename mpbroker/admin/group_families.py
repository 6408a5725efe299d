"""Metric families of consumer groups, under the names of kafka_exporter, which dashboards for Kafka know. Pure; used by
the admin process.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from mpbroker.admin.exposition import GAUGE, Family, Sample, labelled
from mpbroker.shm.partition_metrics import PartitionMetrics

_PREFIX: Final = "kafka_consumergroup_"


class GroupLook:
    """What the coordinator said: members of each group, offsets by (group, topic, partition). Not complete if it did
    not say all in time, or there are more groups and offsets than are shown."""

    def __init__(self) -> None:
        self.members: dict[str, int] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.is_complete = False

    def add(self, members: Mapping[str, int], offsets: Mapping[str, Mapping[tuple[str, int], int]]) -> None:
        """Some groups more."""
        self.members.update(members)
        for group, committed in offsets.items():
            self.offsets.update({(group, *where): offset for where, offset in committed.items()})


def group_families(look: GroupLook, names: dict[int, str], partitions: list[PartitionMetrics]) -> Iterator[Family]:
    """All families of groups. `names`: of topic rows. `partitions` are read after the look, so that no lag is too
    small; offsets of topics that are gone are left out."""
    ends = {(names[one.topic_row], one.partition): one.high_watermark for one in partitions if one.topic_row in names}
    rows = sorted((name, offset) for name, offset in look.offsets.items() if name[1:] in ends)
    lags = [_of_partition(name, max(0, ends[name[1:]] - offset)) for name, offset in rows]
    yield Family(_PREFIX + "lag", GAUGE, "Records of the partition that the group has not committed yet.", lags)
    sentence = "Offset the group has committed: the next record it is to read."
    yield Family(_PREFIX + "current_offset", GAUGE, sentence, [_of_partition(*row) for row in rows])
    counts = [labelled(count, consumergroup=group) for group, count in sorted(look.members.items())]
    yield Family(_PREFIX + "members", GAUGE, "Members of the group.", counts)
    sentence = "1: all consumer groups are shown; 0: the coordinator did not say all in time, or there are too many."
    yield Family("mpbroker_consumergroups_complete", GAUGE, sentence, [labelled(int(look.is_complete))])


def _of_partition(name: tuple[str, str, int], value: int) -> Sample:
    group, topic, partition = name
    return labelled(value, consumergroup=group, topic=topic, partition=partition)
