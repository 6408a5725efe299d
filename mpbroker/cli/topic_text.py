"""What `mpbroker topic` shows of a topic. Runs in the command's process."""

from __future__ import annotations

from typing import Any

from mpbroker.client.consumer import EARLIEST, LATEST, offsets_for
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.client.topic_admin import TopicDescription, describe_topic, topic_configs

TOPICS_OWN_SETTING = 1  # DescribeConfigs: DYNAMIC_TOPIC_CONFIG


def partitions(count: int) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{count} partition{'' if count == 1 else 's'}"


def as_dict(topic: TopicDescription) -> dict[str, Any]:
    """For --json."""
    return {"name": topic.name, "internal": topic.internal, "partitions": topic.partitions}


def look_at(client: NetworkClient, name: str) -> dict[str, Any]:
    """A topic with the offsets of its partitions and its own settings. Offsets are None where nobody leads."""
    topic = describe_topic(client, name)
    led = [row["id"] for row in topic.partitions if row["leader"] >= 0]
    with PartitionLeaders(client) as leaders:
        first = offsets_for(leaders, name, led, EARLIEST) if led else {}
        end = offsets_for(leaders, name, led, LATEST) if led else {}
    rows = [{**row, "start": first.get(row["id"]), "end": end.get(row["id"])} for row in topic.partitions]
    configs = {
        key: row["value"]
        for key, row in sorted(topic_configs(client, name).items())
        if row["source"] == TOPICS_OWN_SETTING
    }
    return {"name": topic.name, "internal": topic.internal, "partitions": rows, "configs": configs}


def as_text(found: dict[str, Any]) -> str:
    """The same for people."""
    lines = [f"{found['name']}: {partitions(len(found['partitions']))}"]
    lines += [f"  setting {key}={value}" for key, value in found["configs"].items()]
    for row in found["partitions"]:
        reach = "no leader" if row["end"] is None else f"offsets {row['start']} to {row['end']}"
        lines.append(
            f"  partition {row['id']}: {reach}, leader {row['leader']}, replicas {_ids(row['replicas'])}, "
            f"in sync {_ids(row['isr'])}"
        )
    return "\n".join(lines)


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
