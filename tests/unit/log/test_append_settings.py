"""A topic's compression level reaches its own codec, and no other's; what is kept of topics is bounded."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.config.topic_config import effective
from mpbroker.log.append_settings import produce_rules
from mpbroker.log.log_manager import LogManager
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
