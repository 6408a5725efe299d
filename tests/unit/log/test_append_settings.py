"""A topic's compression level reaches its own codec, and no other's; what is kept of topics is bounded."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.config.topic_config import effective
from mpbroker.log import append_settings
from mpbroker.log.append_settings import log_options, produce_rules
from mpbroker.log.log_manager import LogManager
from mpbroker.record.compression import CODEC_NAMES
from mpbroker.record.validation import ProduceRules
from tests.unit.log.log_world import LogWorld

LEVELS = {"compression.gzip.level": "2", "compression.lz4.level": "3", "compression.zstd.level": "-4"}


@pytest.mark.parametrize(
    ("codec", "default", "own"),
    [("gzip", -1, 2), ("lz4", 9, 3), ("zstd", 3, -4), ("snappy", None, None), ("producer", None, None)],
)
def test_the_level_is_the_codecs_own(codec, default, own):
    config = load_broker_config(environ={}, cores=2)
    topic = {"compression.type": codec}
    assert produce_rules(effective(topic, config), 1000).target_level == default
    assert produce_rules(effective({**topic, **LEVELS}, config), 1000).target_level == own


def test_the_brokers_level_is_its_topics(tmp_path):
    config = load_broker_config(overrides=["compression.gzip.level=9"], environ={}, cores=2)
    assert produce_rules(effective({"compression.type": "gzip"}, config), 1000).target_level == 9


def test_settings_of_topics_that_are_gone_do_not_pile_up(tmp_path):
    world = LogWorld(tmp_path)
    partition = world.create()
    manager = LogManager(world.log, world.clock, False)
    for number in range(3 * 4096):
        manager.options_of(SimpleNamespace(id=number.to_bytes(16, "big"), partitions=[0], settings=partition.settings))
    assert len(manager._settings) <= 2 * 4096 + 1


TOPIC = {
    "segment.bytes": "1000",
    "segment.ms": "700",
    "segment.jitter.ms": "200",
    "index.interval.bytes": "30",
    "segment.index.bytes": "44",
    "flush.messages": "5",
    "max.message.bytes": "600",
    "message.timestamp.before.max.ms": "7",
    "message.timestamp.after.max.ms": "8",
}


@pytest.mark.parametrize(
    ("more", "largest", "most", "compacted", "log_append_time"),
    [
        ({}, 1000, 600, False, False),
        ({}, 599, 599, False, False),
        ({"cleanup.policy": "compact"}, 600, 600, True, False),
        ({"cleanup.policy": "compact,delete"}, 601, 600, True, False),
        ({"message.timestamp.type": "LogAppendTime"}, 1000, 600, False, True),
    ],
)
@pytest.mark.parametrize("from_client", [True, False])
def test_what_an_append_is_told_of_its_topic(monkeypatch, more, largest, most, compacted, log_append_time, from_client):
    monkeypatch.setattr(append_settings, "LogOptions", dict)
    settings = effective({**TOPIC, **more}, load_broker_config(environ={}, cores=2))
    assert log_options(settings, largest, from_client) == {
        "segment_bytes": 1000,
        "segment_ms": 500,
        "index_interval_bytes": 30,
        "index_max_bytes": 44,
        "flush_messages": 5,
        "log_append_time": log_append_time,
        "max_message_bytes": most,
        "compacted": compacted,
        "timestamp_before_max_ms": 7,
        "timestamp_after_max_ms": 8,
        "from_client": from_client,
    }
    assert log_options(settings, largest)["from_client"] is True
    assert produce_rules(settings, largest) == ProduceRules(
        max_message_bytes=most,
        compacted=compacted,
        log_append_time=log_append_time,
        timestamp_before_max_ms=7,
        timestamp_after_max_ms=8,
        target_codec=None,
        target_level=None,
    )


@pytest.mark.parametrize(
    ("name", "codec"), [("producer", None), ("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
)
def test_what_stored_batches_are_compressed_with(name, codec):
    settings = effective({"compression.type": name}, load_broker_config(environ={}, cores=2))
    assert produce_rules(settings, 1000).target_codec == codec
    assert codec is None or codec < len(CODEC_NAMES)
