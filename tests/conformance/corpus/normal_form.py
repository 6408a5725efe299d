"""Answers in a form that may be compared: plain lists and dictionaries, without defaults and without what must differ.

What a broker chooses becomes a sign that it is right: the address that was asked, a time that is now. Of cluster ids,
producer ids and the words of error messages only stays whether there is one; the order of lists only where Kafka does
not answer in the order of a hash table. Records become one short text per batch.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
from crc32c import crc32c

LEFT_OUT = frozenset({"supported_features", "finalized_features", "finalized_features_epoch", "zk_migration_ready"})
CHOSEN = frozenset({"cluster_id", "producer_id", "error_message", "session_id", "batch_index_error_message",
                    "documentation"})
TIMES = frozenset({"log_append_time_ms"})
NOW_MS = 60_000  # how far a broker's clock may be from ours
#: Whose list Kafka answers in the order of a hash table, another one for other names of topics.
UNORDERED = {
    "ProduceResponse": "responses",
    "TopicProduceResponse": "partition_responses",
    "MetadataResponse": "topics",
    "MetadataResponseTopic": "partitions",
    "CreateTopicsResponse": "topics",
    "DeleteTopicsResponse": "responses",
    "CreatePartitionsResponse": "results",
    "DescribeConfigsResult": "configs",
    "AlterReplicaLogDirTopicResult": "partitions",
}
LONG = 60
DEFAULT = 5  # source of a setting
_HEADER = struct.Struct(">qiibIhiqqqhii")


def normal(value: Any, prefix: str, names: Mapping[bytes, str]) -> Any:
    """The normal form of a decoded answer; `prefix` is taken out of names, topic ids become `names`."""
    if isinstance(value, msgspec.Struct):
        return _struct(value, prefix, names)
    if isinstance(value, list):
        return [normal(each, prefix, names) for each in value]
    if isinstance(value, str):
        text = value.replace(prefix, "")
        return text if len(text) <= LONG else f"{text[:LONG]}… {len(text)} characters"
    if isinstance(value, bytes | memoryview):
        return batches(bytes(value))
    return value


def _struct(message: msgspec.Struct, prefix: str, names: Mapping[bytes, str]) -> dict[str, Any]:
    fields = {}
    for field in msgspec.structs.fields(message):
        value = getattr(message, field.name)
        if field.name in LEFT_OUT or (value == _default(field) and field.name != "records"):
            continue
        if type(message).__name__ == "CreatableTopicResult" and field.name == "configs":
            value = _settings(value)
        if field.name == "topic_id":
            value = f"id of {names[value]}" if value in names else "…"
        if field.name in CHOSEN:
            fields[field.name] = _chosen(value)
        else:
            fields[field.name] = _now(value) if field.name in TIMES else normal(value, prefix, names)
    unordered = UNORDERED.get(type(message).__name__)
    if unordered in fields:
        fields[unordered] = sorted(fields[unordered], key=str)
    return fields


def _settings(rows: list[Any]) -> list[Any]:
    """Those of a new topic: what is default is the same 36 times over, so it becomes a checksum."""
    defaults = [(row.name, row.value, row.read_only, row.is_sensitive) for row in rows if row.config_source == DEFAULT]
    return [row for row in rows if row.config_source != DEFAULT] + [
        f"{len(defaults)} defaults {zlib.crc32(str(defaults).encode()):08x}"]


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def _chosen(value: Any) -> Any:
    """What the broker chose itself: only whether it is there."""
    if isinstance(value, str) and value:
        return "…"
    return "…" if isinstance(value, int) and value > 0 else value


def _now(value_ms: int) -> int | str:
    return "now" if abs(value_ms - time.time() * 1000) < NOW_MS else value_ms


def asked_address(outcome: Any, host: str, port: int) -> Any:
    """A normal form in which the address that was asked stands as that: nobody may name another."""
    if isinstance(outcome, list):
        return [asked_address(each, host, port) for each in outcome]
    if not isinstance(outcome, dict):
        return outcome
    asked = {"host": host, "port": port}
    return {
        name: "asked" if name in asked and value == asked[name] else asked_address(value, host, port)
        for name, value in outcome.items()
    }


def batches(data: bytes) -> list[str]:
    """One line per batch: offset, records, attributes, times, producer, bytes and checksum; the cut-off rest last. The
    checksum leaves out what stands in the line, above all times that are now."""
    lines, position = [], 0
    while len(data) - position >= _HEADER.size:
        (base, length, epoch, magic, crc, attributes, last, first_ms, max_ms, producer, producer_epoch, sequence,
         count) = _HEADER.unpack_from(data, position)
        end = position + 12 + length
        if end > len(data) or magic != 2:
            break
        times = f"{_now(first_ms)}..{_now(max_ms)}"
        words = zlib.crc32(data[position + _HEADER.size:end])
        sound = "" if crc == crc32c(data[position + 21:end]) else " CRC wrong"
        lines.append(f"@{base}+{last} n={count} epoch={epoch} attr={attributes} {times} "
                     f"producer={producer}/{producer_epoch}/{sequence} {12 + length}B {words:08x}{sound}")
        position = end
    return [*lines, f"and {len(data) - position} bytes"] if position < len(data) else lines
