"""A topic's settings in the forms an append needs them. Pure; called once per topic and process."""

from __future__ import annotations

from mpbroker._native import LogOptions
from mpbroker.config.topic_config import TopicSettings
from mpbroker.record.compression import CODEC_NAMES
from mpbroker.record.validation import ProduceRules

KEEP_CODEC = "producer"
UNCOMPRESSED = "uncompressed"


def log_options(settings: TopicSettings, largest_batch_bytes: int, from_client: bool = True) -> LogOptions:
    """TopicSettings → the native append options. `largest_batch_bytes`: more could never be sent to a consumer.
    `from_client`: no for batches of the coordinator, whose sequences say nothing."""
    return LogOptions(
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.segment_ms - settings.segment_jitter_ms,
        index_interval_bytes=settings.index_interval_bytes,
        index_max_bytes=settings.segment_index_bytes,
        flush_messages=settings.flush_messages,
        log_append_time=settings.message_timestamp_type == "LogAppendTime",
        max_message_bytes=min(settings.max_message_bytes, largest_batch_bytes),
        compacted="compact" in settings.cleanup_policy,
        timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
        from_client=from_client,
    )


def produce_rules(settings: TopicSettings, largest_batch_bytes: int) -> ProduceRules:
    """TopicSettings → what the check of compressed records needs; `target_codec` None keeps the producer's."""
    return ProduceRules(
        max_message_bytes=min(settings.max_message_bytes, largest_batch_bytes),
        compacted="compact" in settings.cleanup_policy,
        log_append_time=settings.message_timestamp_type == "LogAppendTime",
        timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
        target_codec=_codec(settings.compression_type),
        target_level=_level(settings),
    )


def _level(settings: TopicSettings) -> int | None:
    """What the broker's own compression works at; of snappy and none there are no levels."""
    match settings.compression_type:
        case "gzip":
            return int(settings.compression_gzip_level)
        case "lz4":
            return int(settings.compression_lz4_level)
        case "zstd":
            return int(settings.compression_zstd_level)
    return None


def _codec(name: str) -> int | None:
    if name == KEEP_CODEC:
        return None
    return 0 if name == UNCOMPRESSED else list(CODEC_NAMES).index(name)
