"""The shared arguments and how they add up with file and environment."""

import argparse

import pytest

from mpbroker.cli import config_arguments, parsers, start
from mpbroker.errors import ConfigError
from tests.harness.no_settings import without_settings


@pytest.fixture
def build(monkeypatch):
    """build("word", …) → BrokerConfig, without this machine's environment."""
    without_settings(monkeypatch)

    def parse(*words):
        parser = argparse.ArgumentParser()
        config_arguments.define(parser)
        return config_arguments.build(parser.parse_args(words))

    return parse


def connections(config):
    return [end_point.connection_string for end_point in config.end_points.all]


def test_nothing_given(build):
    config = build()
    assert connections(config) == ["PLAINTEXT://127.0.0.1:9092"]
    assert config.data_dir.endswith("/mpbroker-data")


def test_each_argument(build, tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(
        "log.dirs=/file\nnum.io.threads=3\nnum.partitions=4\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\n"
        "listeners=A://h:1\n"
    )
    config = build(
        str(path),
        "--data-dir",
        "/data",
        "--listener",
        "A://h:0",
        "--listener",
        "B://[::1]:0",
        "--override",
        "num.io.threads=5",
    )
    assert (config.data_dir, config.num_io_threads, config.num_partitions) == ("/data", 5, 4)
    assert connections(config) == ["A://h:0", "B://[::1]:0"]


def test_an_override_is_the_last_word(build):
    assert build("--data-dir", "/a", "--override", "log.dirs=/a").data_dir == "/a"
    with pytest.raises(ConfigError, match="log.dirs and --data-dir are the same setting; give only one"):
        build("--data-dir", "/a", "--override", "log.dirs=/b")


def test_an_override_may_hold_equal_signs(build):
    config = build("--override", "max.connections.per.ip.overrides=h:1", "--override", "broker.rack=a=b")
    assert config.broker_rack == "a=b"


@pytest.mark.parametrize(
    "words",
    [
        "",
        "file",
        "file --data-dir d --listener A://h:1 --ready-file r --listener=B://h:2 --admin= --override a=b=c --override=d",
        "--override k= file --data-dir=d",
    ],
)
def test_a_plain_command_line_is_read_as_argparse_reads_it(words):
    parser = parsers.parser_for("start", start)
    assert vars(start.plain(words.split())) == vars(parser.read(words.split()))


@pytest.mark.parametrize(
    "words", ["--help", "two files", "--data-dir", "--data-dir --admin", "--listeners=x", "--", "-x", "--override -1"]
)
def test_any_other_is_left_to_argparse(words):
    assert start.plain(words.split()) is None
