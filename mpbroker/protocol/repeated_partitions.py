"""What a Produce request that names a partition twice means. Pure; request handlers and the coordinator, which must
agree on the numbers of result cells: a cell for each partition that is left, in their order."""

from __future__ import annotations

from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def merge_repeated(message: ProduceRequest) -> None:
    """Kafka reads a request into a map: a topic in pieces is one, of a partition named twice the last counts, and a
    topic without partitions is not answered."""
    if len(message.topic_data) == 1 and len(message.topic_data[0].partition_data) == 1:
        return
    topics: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    for topic in message.topic_data:
        for data in topic.partition_data:
            topics.setdefault((topic.name, topic.topic_id), {})[data.index] = data
    message.topic_data = [
        TopicProduceData(name=name, topic_id=topic_id, partition_data=list(partitions.values()))
        for (name, topic_id), partitions in topics.items()
    ]
