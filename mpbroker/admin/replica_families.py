"""Metric families of replicas, under the names that Kafka's JMX exporter gives them: what dashboards alarm on. Pure;
used by the admin process.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from mpbroker.admin.exposition import COUNTER, GAUGE, Family, labelled
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import ReplicaRole
from mpbroker.shm.partition_metrics import PartitionMetrics

_MANAGER: Final = "kafka_server_replicamanager_"
_FETCHERS: Final = "kafka_server_replicafetchermanager_"


def replica_families(partitions: Sequence[PartitionMetrics]) -> Iterator[Family]:
    """Counts of this broker's replicas. A broker that is alone leads all it has, with no replica that could lag."""
    here = [one for one in partitions if one.role != ReplicaRole.NONE]
    led = [one for one in here if one.role == ReplicaRole.LEADER and one.online]
    under = [one for one in led if one.in_sync < one.replicas]
    for name, value, sentence in (
        ("partitioncount", len(here), "Partitions on this broker."),
        ("leadercount", len(led), "Partitions this broker leads."),
        ("offlinereplicacount", sum(not one.online for one in here), "Partitions whose log directory failed."),
        ("underreplicatedpartitions", len(under), "Partitions it leads with a replica that is not in sync."),
        ("underminisrpartitioncount", sum(one.in_sync < one.min_isr for one in led), "Of those: too few in sync."),
        ("atminisrpartitioncount", sum(one.in_sync == one.min_isr for one in led), "Of those: just enough in sync."),
    ):
        yield Family(_MANAGER + name, GAUGE, sentence, [labelled(value)])


def isr_families(counters: Sequence[int], largest_lag: int) -> Iterator[Family]:
    """In a cluster: changes of in-sync replicas, and what followers here lack. `counters`: sums over all processes."""
    for name, counter, sentence in (
        ("isrshrinks_total", Counter.ISR_SHRINKS, "Replicas that left the in-sync replicas of partitions led here."),
        ("isrexpands_total", Counter.ISR_EXPANDS, "Replicas that joined them."),
        ("failedisrupdates_total", Counter.ISR_UPDATES_FAILED, "Changes of them that the controller refused."),
    ):
        yield Family(_MANAGER + name, COUNTER, sentence, [labelled(counters[counter])])
    for name, counter, sentence in (
        (
            "leaderreplication_byte_total",
            Counter.LEADER_THROTTLED_BYTES,
            "What throttled leaders sent to followers.",
        ),
        ("followerreplication_byte_total", Counter.FOLLOWER_THROTTLED_BYTES, "What throttled followers fetched."),
    ):
        yield Family(f"kafka_server_{name}", COUNTER, sentence, [labelled(counters[counter])])
    sentence = "Records that a follower here lacks of what its leader has committed: the largest of all partitions."
    yield Family(f"{_FETCHERS}maxlag", GAUGE, sentence, [labelled(largest_lag, clientid="Replica")])
