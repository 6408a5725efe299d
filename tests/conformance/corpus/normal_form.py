"""Answers in a form that may be compared: plain lists and dictionaries, without defaults and without what must differ.

Left out: throttle times, addresses, cluster ids, ids and times the broker chose, the words of error messages (whether
there is a message stays), and the order of topics where Kafka answers in the order of a hash table. Records become
one short text per batch.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgspec

LEFT_OUT = frozenset({"throttle_time_ms", "cluster_id", "supported_features", "finalized_features",
                      "finalized_features_epoch", "zk_migration_ready"})
CHOSEN = frozenset({"port", "host", "log_append_time_ms", "producer_id", "error_message", "rack"})
UNORDERED = frozenset({"ProduceResponse", "MetadataResponse", "CreateTopicsResponse", "DeleteTopicsResponse",
                       "CreatePartitionsResponse", "ListOffsetsResponse", "DescribeConfigsResponse",
                       "MetadataResponseTopic", "DescribeConfigsResult", "TopicProduceResponse",
                       "ListOffsetsTopicResponse"})
LONG = 60
LOG_APPEND_TIME = 0x08
_HEADER = struct.Struct(">qiibIhiqqqhii")


def normal(value: Any, prefix: str) -> Any:
    """The normal form of a decoded answer; `prefix` is taken out of names."""
    if isinstance(value, msgspec.Struct):
        return _struct(value, prefix)
    if isinstance(value, list):
        return [normal(each, prefix) for each in value]
    if isinstance(value, str):
        text = value.replace(prefix, "")
        return text if len(text) <= LONG else f"{text[:LONG]}… {len(text)} characters"
    if isinstance(value, bytes | memoryview):
        return batches(bytes(value))
    return value


def _struct(message: msgspec.Struct, prefix: str) -> dict[str, Any]:
    fields = {}
    for field in msgspec.structs.fields(message):
        value = getattr(message, field.name)
        if field.name in LEFT_OUT or (value == _default(field) and field.name != "records"):
            continue
        fields[field.name] = _chosen(value) if field.name in CHOSEN else normal(value, prefix)
    if type(message).__name__ in UNORDERED:
        fields = {name: sorted(value, key=str) if isinstance(value, list) else value for name, value in fields.items()}
    return fields


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def _chosen(value: Any) -> Any:
    """What the broker chose itself: only whether it is there."""
    if isinstance(value, str) and value:
        return "…"
    return "…" if isinstance(value, int) and value > 0 else value


def batches(data: bytes) -> list[str]:
    """One line per batch: offset, records, attributes, times, producer, bytes and checksum; the cut-off rest last."""
    lines, position = [], 0
    while len(data) - position >= _HEADER.size:
        (base, length, epoch, magic, _crc, attributes, last, first_ms, max_ms, producer, producer_epoch, sequence,
         count) = _HEADER.unpack_from(data, position)
        end = position + 12 + length
        if end > len(data) or magic != 2:
            break
        times = "stamped" if attributes & LOG_APPEND_TIME else f"{first_ms}..{max_ms}"
        words = 0 if attributes & LOG_APPEND_TIME else zlib.crc32(data[position + 21:end])
        lines.append(f"@{base}+{last} n={count} epoch={epoch} attr={attributes} {times} "
                     f"producer={producer}/{producer_epoch}/{sequence} {12 + length}B {words:08x}")
        position = end
    return [*lines, f"and {len(data) - position} bytes"] if position < len(data) else lines
