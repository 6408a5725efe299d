"""Metric families of topics and partitions, under the names that Kafka's JMX exporter gives them. Pure; used by the
admin process.
"""

from collections.abc import Iterator
from typing import Final

from mpbroker.admin.exposition import COUNTER, GAUGE, Family, labelled
from mpbroker.admin.replica_families import replica_families
from mpbroker.shm.layout import ReplicaRole
from mpbroker.shm.partition_metrics import PartitionMetrics

_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_MOVED: Final = (
    ("messagesin", "records_in", "Records appended since the broker started; without a topic: all of them."),
    ("bytesin", "bytes_in", "Bytes of record batches appended since the broker started."),
    ("bytesout", "bytes_read", "Bytes of record batches read for clients since the broker started."),
)
_LOGS: Final = (
    ("size", "log_bytes", "Bytes of the partition's segments."),
    ("logstartoffset", "log_start", "First offset of the partition."),
    ("logendoffset", "log_end", "Offset of the partition's next record."),
    ("numlogsegments", "segments", "Segments of the partition."),
)


def topic_families(
    names: dict[int, str], partitions: list[PartitionMetrics], in_cluster: bool = False
) -> Iterator[Family]:
    """All families of topics. `names`: of topic rows; a partition whose topic is just being deleted is left out, and
    in a cluster those that have no replica here."""
    known = [one for one in partitions if one.topic_row in names and one.role != ReplicaRole.NONE]
    for what, field, sentence in _MOVED:
        yield _moved(f"{_TOPICS}{what}_total", field, sentence, names, known)
    for what, field, sentence in _LOGS:
        samples = [
            labelled(getattr(one, field), topic=names[one.topic_row], partition=one.partition)
            for one in sorted(known, key=lambda one: (names[one.topic_row], one.partition))
        ]
        yield Family(f"kafka_log_log_{what}", GAUGE, sentence, samples)
    yield from replica_families(known)
    if not in_cluster:
        yield from _of_one_broker(names, known)
    yield from _transactions(names, known)


def _transactions(names: dict[int, str], partitions: list[PartitionMetrics]) -> Iterator[Family]:
    """Of partitions that have one: most never have."""
    those = [one for one in partitions if one.open_transactions or one.last_stable < one.high_watermark]
    for what, sentence in (
        ("ongoing", "Transactions that are open in the partition."),
        ("last_stable_offset_lag", "Records that readers of committed records do not get yet."),
    ):
        samples = [
            labelled(
                one.open_transactions if what == "ongoing" else one.high_watermark - one.last_stable,
                topic=names[one.topic_row],
                partition=one.partition,
            )
            for one in those
        ]
        yield Family(f"mpbroker_transactions_{what}", GAUGE, sentence, samples)


def oldest_transaction(started_ms: int | None, now_ms: int) -> Family:
    """The age of the transaction that is open for longest. 0: there is none."""
    age_s = 0.0 if started_ms is None else max(0, now_ms - started_ms) / 1000
    sentence = "Age of the oldest transaction that is open in a partition; 0: there is none."
    return Family("mpbroker_transactions_oldest_seconds", GAUGE, sentence, [labelled(age_s)])


def _moved(name: str, field: str, sentence: str, names: dict[int, str], partitions: list[PartitionMetrics]) -> Family:
    """By topic, and the sum without a label, as Kafka has both."""
    sums = dict.fromkeys(sorted(names.values()), 0)
    for one in partitions:
        sums[names[one.topic_row]] += getattr(one, field)
    by_topic = [labelled(count, topic=topic) for topic, count in sums.items()]
    return Family(name, COUNTER, sentence, [labelled(sum(sums.values())), *by_topic])


def _of_one_broker(names: dict[int, str], partitions: list[PartitionMetrics]) -> Iterator[Family]:
    """What the controller of a cluster would say: a broker that is alone leads every partition it holds."""
    offline = sum(not one.online for one in partitions)
    for name, value, sentence in (
        ("activecontrollercount", 1, "1 where the controller runs."),
        ("offlinepartitionscount", offline, "Partitions without a leader."),
        ("globaltopiccount", len(names), "Topics."),
        ("globalpartitioncount", len(partitions), "Partitions."),
    ):
        yield Family(f"kafka_controller_kafkacontroller_{name}", GAUGE, sentence, [labelled(value)])
