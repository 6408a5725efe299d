"""Rules between settings: each with a case that breaks it and one at its edge."""

import pytest

from mpbroker._native import DEADLINE_REST, DISCIPLINE_DEADLINE, DISCIPLINE_FIFO
from mpbroker.channel.planes import handlers_discipline, listener_discipline
from mpbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("overrides", "key", "why"),
    [
        (["queued.max.request.bytes=100"], "queued.max.request.bytes", "at least socket.request.max.bytes (104857600)"),
        (["socket.request.max.bytes=2000000000"], "socket.request.max.bytes", "at most 267386880"),
        (
            ["socket.request.max.bytes=300000000", "mpbroker.arena.bytes.per.processor=400000000"],
            "socket.request.max.bytes",
            "at most 267386880: one response holds no more",
        ),
        (
            ["num.io.threads=4", "mpbroker.answer.memory.bytes=10485759"],
            "mpbroker.answer.memory.bytes",
            "-1, or at least 10485760: 2097152 for each of 5 processes that answer",
        ),
        (
            ["num.io.threads=4", "mpbroker.answer.memory.bytes=0"],
            "mpbroker.answer.memory.bytes",
            "-1, or at least 10485760",
        ),
        (
            [
                "listeners=PLAINTEXT://h:1,C://h:2",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:PLAINTEXT",
                "control.plane.listener.name=C",
                "mpbroker.control.reserved.handlers=3",
                "num.io.threads=4",
                "mpbroker.answer.memory.bytes=16777215",
            ],
            "mpbroker.answer.memory.bytes",
            "-1, or at least 16777216: 2097152 for each of 8 processes that answer",
        ),
        (
            [
                "group.consumer.min.session.timeout.ms=15000",
                "group.consumer.session.timeout.ms=15000",
                "group.consumer.heartbeat.interval.ms=15000",
            ],
            "group.consumer.heartbeat.interval.ms",
            "less than group.consumer.session.timeout.ms (15000)",
        ),
        (["mpbroker.trace.dashcam.bytes=1"], "mpbroker.trace.dashcam.bytes", "0, or at least 8388608"),
        (["mpbroker.trace.dashcam.bytes=8388607"], "mpbroker.trace.dashcam.bytes", "0, or at least 8388608"),
        (["queued.max.request.bytes=1"], "queued.max.request.bytes", "at least socket.request.max.bytes (104857600)"),
        (["queued.max.request.bytes=104857599"], "queued.max.request.bytes", "at least socket.request.max.bytes"),
        (
            ["mpbroker.arena.bytes.per.processor=104857599"],
            "mpbroker.arena.bytes.per.processor",
            "-1, or at least socket",
        ),
        (["mpbroker.arena.bytes.per.processor=0"], "mpbroker.arena.bytes.per.processor", "(104857600)"),
        (
            ["socket.request.max.bytes=1", "mpbroker.arena.bytes.per.processor=1048575"],
            "mpbroker.arena.bytes.per.processor",
            "(1) and 1048576",
        ),
        (["fetch.max.bytes=267386881"], "fetch.max.bytes", "at most 267386880: one response holds no more"),
        (
            ["mpbroker.entries.per.processor=8193", "num.network.threads=16"],
            "mpbroker.entries.per.processor",
            "at most 8192",
        ),
        (["fetch.max.bytes=2000000000"], "fetch.max.bytes", "at most 267386880"),
        (["max.connections.per.ip=0"], "max.connections.per.ip", "at least 1, unless"),
        (
            ["connection.failed.authentication.delay.ms=600000"],
            "connection.failed.authentication.delay.ms",
            "less than connections.max.idle.ms (600000)",
        ),
        (["log.retention.ms=0"], "log.retention.ms", "-1 (never delete), or at least 1"),
        (["log.retention.minutes=0"], "log.retention.minutes", "-1 (never delete), or at least 1"),
        (["log.retention.hours=0"], "log.retention.hours", "-1 (never delete), or at least 1"),
        (
            ["log.cleaner.min.compaction.lag.ms=9", "log.cleaner.max.compaction.lag.ms=8"],
            "log.cleaner.min.compaction.lag.ms",
            "at most log.cleaner.max.compaction.lag.ms (8)",
        ),
        (["compression.gzip.level=0"], "compression.gzip.level", "-1, or 1 to 9"),
        (["log.message.format.version=4.0"], "log.message.format.version", "a version of Kafka up to 3.9"),
        (["replica.fetch.wait.max.ms=40000"], "replica.fetch.wait.max.ms", "at most replica.socket.timeout.ms (30000)"),
        (
            ["replica.fetch.wait.max.ms=400", "replica.lag.time.max.ms=300"],
            "replica.fetch.wait.max.ms",
            "at most replica.lag.time.max.ms (300)",
        ),
        (
            [
                "listeners=PLAINTEXT://h:1,B://h:2",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
                "num.network.threads=17",
            ],
            "num.network.threads",
            "makes 34 processors over all listeners; 32 are possible",
        ),
        (
            ["mpbroker.entries.per.processor=131072", "num.network.threads=2"],
            "mpbroker.entries.per.processor",
            "at most 65536 with 2 processors",
        ),
        (
            ["listener.name.other.max.connections=1"],
            "listener.name.other.max.connections",
            "there is no listener OTHER; the listeners are PLAINTEXT",
        ),
        (
            [
                "listeners=PLAINTEXT://h:1,B://h:2",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
                "mpbroker.queue.discipline=fair",
                "listener.name.b.mpbroker.queue.discipline=deadline",
            ],
            "mpbroker.queue.discipline",
            "PLAINTEXT has fair, B has deadline; beside fifo and plane, listeners can share one discipline only",
        ),
        (["listener.name.plaintext.max.connections=0"], "listener.name.plaintext.max.connections", "at least 1"),
        (
            [
                "listeners=PLAINTEXT://h:1,C://h:2",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:PLAINTEXT",
                "control.plane.listener.name=C",
                "num.io.threads=63",
            ],
            "num.io.threads",
            "at most 63 together with mpbroker.control.reserved.handlers",
        ),
    ],
)
def test_broken_rules(configure, overrides, key, why):
    with pytest.raises(ConfigError) as caught:
        configure(*overrides)
    assert caught.value.key == key
    assert why in str(caught.value)
    given = [one for one in overrides if one.startswith(f"{key}=") and "there is no" not in why]
    assert all(one in str(caught.value) for one in given), "the value that was given"


@pytest.mark.parametrize(
    "overrides",
    [
        ["queued.max.request.bytes=104857600"],
        ["queued.max.request.bytes=-1"],
        ["queued.max.request.bytes=0"],
        ["max.connections.per.ip=0", "max.connections.per.ip.overrides=h:1"],
        ["log.retention.hours=-1"],
        ["log.retention.ms=1"],
        ["compression.gzip.level=9"],
        ["num.io.threads=63"],
        ["num.network.threads=32"],
        ["mpbroker.entries.per.processor=131072"],
        ["replica.fetch.wait.max.ms=30000"],
        ["listener.name.plaintext.max.connections=1"],
        ["socket.request.max.bytes=267386880", "fetch.max.bytes=267386880"],
        ["socket.request.max.bytes=267386880", "mpbroker.arena.bytes.per.processor=267386880"],
        ["socket.request.max.bytes=1", "mpbroker.arena.bytes.per.processor=1048576"],
        ["num.io.threads=4", "mpbroker.answer.memory.bytes=10485760"],
        ["mpbroker.answer.memory.bytes=-1"],
        ["mpbroker.trace.dashcam.bytes=0"],
        ["mpbroker.trace.dashcam.bytes=8388608"],
        ["log.cleaner.min.compaction.lag.ms=9", "log.cleaner.max.compaction.lag.ms=9"],
        ["connection.failed.authentication.delay.ms=599999"],
        [
            "group.consumer.min.session.timeout.ms=15000",
            "group.consumer.session.timeout.ms=15000",
            "group.consumer.heartbeat.interval.ms=14999",
        ],
        ["mpbroker.entries.per.processor=8192", "num.network.threads=32"],
        ["mpbroker.entries.per.processor=8193", "num.network.threads=15"],
        ["listener.name.plaintext.mpbroker.queue.discipline=deadline"],
    ],
)
def test_edges_that_are_allowed(configure, overrides):
    config = configure(*overrides)
    for override in overrides:
        name, _, text = override.partition("=")
        assert str(config.value(name)) == text


def test_one_listener_may_keep_to_the_order_of_arrival(configure):
    config = configure(
        "listeners=PLAINTEXT://h:1,B://h:2",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
        "mpbroker.queue.discipline=deadline",
        "listener.name.b.mpbroker.queue.discipline=fifo",
    )
    assert config.handlers_discipline == "deadline"
    assert listener_discipline(config, "PLAINTEXT") == handlers_discipline(config) == DISCIPLINE_DEADLINE
    assert listener_discipline(config, "B") == DEADLINE_REST  # class 0, with a deadline that grows older as others' do
    fifo = configure()
    assert listener_discipline(fifo, "PLAINTEXT") == handlers_discipline(fifo) == DISCIPLINE_FIFO
