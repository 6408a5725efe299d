"""Which topics the native paths are taught, what they may do with each, and when they forget them all."""

from types import SimpleNamespace

import pytest

from mpbroker.config.limits import LARGEST_ANSWER_BYTES
from mpbroker.server.native_topics import NativeTopics


class World:
    """`did`: what the native side was told, in order."""

    def __init__(self, *, flush_on_commit=False, replicated=False, codec=None):
        self.did, note = [], lambda *words: self.did.append(words)
        self.native = SimpleNamespace(reset=lambda number: note("reset", number))
        self.native.add = lambda *words: note("add", *words)
        self.fetch = SimpleNamespace(parks=False, serves_followers=None, max_bytes=0)
        self.metadata = SimpleNamespace(generation=0)
        self.replicated = replicated
        log_manager = SimpleNamespace(
            flush_on_commit=flush_on_commit, serve_natively=lambda port: self.native,
            fetch_natively=lambda port, native: self.fetch, log=SimpleNamespace(is_replicated=lambda: self.replicated),
            options_of=lambda topic: (f"options of {topic.name}", SimpleNamespace(target_codec=codec)),
        )  # fmt: skip
        self.topics = NativeTopics(log_manager, "port", self.metadata)

    def learnt(self, *topics):
        self.did.clear()
        for topic in topics:
            self.topics.learn(topic)
        return [words[1] for words in self.did if words[0] == "add"]


def topic(name="t", internal=False, compression="producer", throttled=()):
    settings = SimpleNamespace(compression_type=compression, leader_replication_throttled_replicas=throttled)
    return SimpleNamespace(name=name, id=name * 16, partitions=[4, 5], internal=internal, settings=settings)


def test_a_topic_is_learnt_once_in_each_generation():
    """The first one counts from 0, so what was never told is not 0."""
    world = World()
    assert world.topics.native is world.native and world.topics.fetch is world.fetch and world.fetch.parks
    assert world.learnt(topic(), topic("u"), topic()) == ["t", "u"] and world.did[0] == ("reset", 0)
    assert world.learnt(topic()) == [] and world.did == []
    world.metadata.generation = 1
    assert world.learnt(topic(), topic()) == ["t"] and world.did[0] == ("reset", 1)
    assert len(world.did) == 2


def test_what_is_forgotten_is_learnt_again_in_the_same_generation():
    world = World()
    world.learnt(topic())
    world.did.clear()
    world.topics.forget()
    [(_, generation)] = world.did
    assert generation > 2**63, "no generation of the metadata"
    assert world.learnt(topic()) == ["t"] and world.did[0] == ("reset", 0)


@pytest.mark.parametrize(("wanted", "most"), [(1000, 1000), (LARGEST_ANSWER_BYTES + 1, LARGEST_ANSWER_BYTES)])
def test_new_settings_bound_answers_and_make_it_forget(wanted, most):
    world = World()
    world.learnt(topic())
    world.topics.use_config(SimpleNamespace(fetch_max_bytes=wanted))
    assert world.fetch.max_bytes == most and world.learnt(topic()) == ["t"]


@pytest.mark.parametrize(
    ("how", "of_topic", "produces", "is_zstd"),
    [
        ({}, {}, True, False),
        ({"flush_on_commit": True}, {}, False, False),
        ({"codec": 4}, {}, False, False),
        ({}, {"internal": True}, False, False),
        ({}, {"compression": "zstd"}, True, True),
    ],
    ids=["plain", "a sync to wait for", "recompressed", "internal", "zstd"],
)
def test_what_the_native_path_may_do_with_a_topic(how, of_topic, produces, is_zstd):
    world, one = World(**how), topic(**of_topic)
    world.learnt(one)
    assert world.did[1:] == [("add", "t", "t" * 16, [4, 5], "options of t", produces, is_zstd)]


def test_followers_are_served_natively_where_nobody_is_throttled():
    world = World()
    world.learnt(topic())
    assert world.fetch.serves_followers is False, "there are none"
    world = World(replicated=True)
    world.learnt(topic())
    assert world.fetch.serves_followers is True
    world.learnt(topic("u", throttled=("0:1",)), topic("v"))
    assert world.fetch.serves_followers is False
    world.metadata.generation = 1
    world.learnt(topic())
    assert world.fetch.serves_followers is True, "it may have changed"
