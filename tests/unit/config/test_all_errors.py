"""Everything that is wrong with a configuration is listed at once, a line each, and nothing that is right."""

import pytest

from mpbroker.cli import main as cli
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError, ConfigErrors
from tests.harness.no_settings import without_settings

FILE = """\
num.io.threads=many
log.retention.hour=5
node.id=1
broker.id=2
listeners=PLAINTEXT://:9092,NOWHERE://:9093,PLAINTEXT
log.retention.ms=0
socket.request.max.bytes=big
queued.max.request.bytes=1
process.roles=broker
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "s.properties").write_text(FILE)
    return str(tmp_path / "s.properties")


def sentences(path, overrides=(), environ=()):
    with pytest.raises(ConfigError) as caught:
        load_broker_config(path, overrides=overrides, environ=dict(environ), cores=2)
    return [str(error) for error in caught.value.errors]


def test_file_environment_and_overrides_are_listed_together(path):
    found = sentences(path, ["num.partitions=0", "nope"], {"MPBROKER_NUM_IO_THREAD": "4"})
    assert found == [
        f"{path}, line 2: unknown setting log.retention.hour; did you mean log.retention.hours?",
        "MPBROKER_NUM_IO_THREAD: unknown setting num.io.thread; did you mean num.io.threads?",
        "--override nope: must be KEY=VALUE",
        f"{path}, line 1: num.io.threads=many: must be a whole number from 1 to 63",
        f"{path}, line 7: socket.request.max.bytes=big: must be a whole number, at least 1",
        "num.partitions=0: must be a whole number, at least 1",
        "broker.id=2 and node.id=1 differ; they are one setting",
        "listeners=NOWHERE://:9093: NOWHERE has no security protocol; "
        "add NOWHERE:PLAINTEXT to listener.security.protocol.map",
        "listeners=PLAINTEXT: must be NAME://HOST:PORT (name: letters, digits, '-', '_', '.'; port 0 to 65535; "
        "an IPv6 address in brackets)",
        # queued.max.request.bytes is held against socket.request.max.bytes, of which nothing is known: not a line
        "log.retention.ms=0: must be -1 (never delete), or at least 1",
    ]


def test_rules_that_do_not_look_at_what_is_wrong_are_still_checked(configure):
    with pytest.raises(ConfigErrors) as caught:
        configure("listeners=here", "fetch.max.bytes=2000000000", "compression.gzip.level=0")
    assert [error.key for error in caught.value.errors] == ["listeners", "fetch.max.bytes", "compression.gzip.level"]


def test_every_listener_that_is_wrong_is_listed(configure):
    with pytest.raises(ConfigErrors) as caught:
        configure(
            "listeners=PLAINTEXT://h:1,SSL://h:2,SASL_SSL://h:3",
            "advertised.listeners=PLAINTEXT://0.0.0.0:1,NOWHERE://h:2",
        )
    assert [str(error.value) for error in caught.value.errors] == ["SSL://h:2", "SASL_SSL://h:3", "NOWHERE://h:2"]
    with pytest.raises(ConfigErrors) as caught:
        configure("listeners=X://h:1", "advertised.listeners=PLAINTEXT://0.0.0.0:1")
    assert [error.key for error in caught.value.errors] == ["listeners", "advertised.listeners"]


def test_one_error_is_raised_as_itself(configure):
    with pytest.raises(ConfigError) as caught:
        configure("num.io.threads=0")
    assert type(caught.value) is ConfigError
    assert caught.value.errors == (caught.value,)


def test_the_command_prints_a_line_each_and_exits_with_2(path, capsys, monkeypatch):
    without_settings(monkeypatch)
    assert cli.main(["start", path]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 7
    assert all(line.startswith("mpbroker: ") for line in lines)
