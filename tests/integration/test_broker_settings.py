"""Settings of the broker that clients change while it runs (KIP-226): every process takes them over within a second, no
connection breaks, and the next start finds them."""

import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mpbroker.client.config_admin import BROKER, Resource, change_configs
from mpbroker.client.network_client import NetworkClient
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, api_versions
from tests.integration.test_changed_settings import FEW_S, OpenConnection, admin_of, create

pytestmark = pytest.mark.slow
ONE = "0"
WITHIN_S = 1.0
SOME_TIME_S = 0.3
EVERY_HANDLER = 20  # requests that no handler will have missed


def change_all(broker: Broker, **settings: str | None) -> None:
    """Of every broker; None: deleted. librdkafka sends no resource without a name."""
    with NetworkClient("127.0.0.1", broker.port()) as client:
        change_all_by(client, **settings)


def change_all_by(client: NetworkClient, **settings: str | None) -> None:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    change_configs(client, Resource(BROKER, ""), named)


def change(admin: AdminClient, broker: str, **settings: str | None) -> None:
    """None: deleted."""
    entries = [
        ConfigEntry(
            name.replace("_", "."),
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(FEW_S)


def setting(admin: AdminClient, broker: str, name: str) -> tuple[str, int]:
    resource = ConfigResource(ResourceType.BROKER, broker)
    found = admin.describe_configs([resource])[resource].result(FEW_S)[name]
    return found.value, found.source


def waited_s(condition: Callable[[], bool], what: str) -> float:
    """How long it took. A machine that pauses makes one change late; all are only if the broker is slow."""
    begun = time.monotonic()
    wait_until(condition, what, FEW_S)
    return time.monotonic() - begun


def until_all_say(code: int, connection: OpenConnection, size: int) -> float:
    """How long after a change a batch of this size last got another answer. A handler without a core is silent for a
    while and still has its say: that was the last one if enough follow for every handler, and for some time."""
    begun = last = time.monotonic()
    alike = 0
    while alike < EVERY_HANDLER or time.monotonic() - last < SOME_TIME_S:
        if connection.send(size) == code:
            alike += 1
        else:
            alike, last = 0, time.monotonic()
            assert last - begun < FEW_S, f"no code {code} of every handler"
    return last - begun


def test_both_layers_on_an_open_connection(tmp_path):
    large = KafkaError.MSG_SIZE_TOO_LARGE
    with Broker(tmp_path, overrides={"message.max.bytes": 10_000}) as broker:
        create(broker, "t")
        admin, connection = admin_of(broker), OpenConnection(broker, "t")
        assert {connection.send(5000) for _ in range(20)} == {0}
        change_all(broker, message_max_bytes="2000")
        assert setting(admin, ONE, "message.max.bytes") == ("2000", 3), "shown at once"
        took_s = [until_all_say(large, connection, 5000)]
        change(admin, ONE, message_max_bytes="20000")
        assert setting(admin, ONE, "message.max.bytes") == ("20000", 2)
        took_s.append(until_all_say(0, connection, 15_000))
        change(admin, ONE, message_max_bytes=None)
        change_all(broker, message_max_bytes=None)
        took_s.append(until_all_say(large, connection, 15_000))
        assert sorted(took_s)[1] < WITHIN_S, took_s
        assert setting(admin, ONE, "message.max.bytes") == ("10000", 4)
        assert connection.lost == []


def test_a_new_start_finds_them_whoever_died_before(tmp_path):
    with Broker(tmp_path) as broker:
        create(broker, "t")
        admin = admin_of(broker)
        change(admin, ONE, message_max_bytes="2000")
        broker.wait_restarted("controller", 0, broker.kill("controller"))
        change(admin, ONE, log_retention_ms="5000")
        for role in ("handler", "coordinator"):
            broker.wait_restarted(role, 0, broker.kill(role))
        until_all_say(KafkaError.MSG_SIZE_TOO_LARGE, OpenConnection(broker, "t"), 5000)
    with Broker(tmp_path, overrides={"message.max.bytes": 10_000}) as broker:
        admin = admin_of(broker)
        assert setting(admin, ONE, "message.max.bytes") == ("2000", 2), "what was changed wins over what was given"
        assert setting(admin, ONE, "log.retention.ms") == ("5000", 2)
        assert OpenConnection(broker, "t").send(5000) == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_setting_that_does_not_go_with_the_file_is_left_out(tmp_path):
    with Broker(tmp_path) as broker:
        change(admin_of(broker), ONE, log_cleaner_min_compaction_lag_ms="100", message_max_bytes="2000")
    with Broker(tmp_path, overrides={"log.cleaner.max.compaction.lag.ms": 50}) as broker:
        assert "ERROR supervisor dynamic_setting_left_out settings=log.cleaner.min.compaction.lag.ms" in broker.log()
        create(broker, "t")
        assert OpenConnection(broker, "t").send(5000) == KafkaError.MSG_SIZE_TOO_LARGE
        with pytest.raises(KafkaException, match="max.compaction.lag"):
            change(admin_of(broker), ONE, log_cleaner_max_compaction_lag_ms="60")


def test_limits_of_connections_hold_for_new_ones_only(tmp_path):
    with Broker(tmp_path) as broker, RawConnection(broker.port()) as old:
        assert old.ask(api_versions(1))
        by = NetworkClient("127.0.0.1", broker.port())  # old, too: a new one could change nothing

        def refused() -> bool:
            with RawConnection(broker.port()) as new:
                try:
                    return new.ask(api_versions(1)) is None
                except ConnectionResetError:
                    return True

        def soon_refused() -> bool:
            change_all_by(by, max_connections_per_ip=None)
            wait_until(lambda: not refused(), "one that is not refused", FEW_S)
            change_all_by(by, max_connections_per_ip="1")
            return waited_s(refused, "a refused connection") < WITHIN_S

        assert any(soon_refused() for _ in range(3))
        assert old.ask(api_versions(2))
        by.close()


def test_from_the_command_line(tmp_path):
    def at(*words: str) -> str:
        command = [sys.executable, "-m", "mpbroker", "config", *words, "--bootstrap", broker.bootstrap]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    with Broker(tmp_path) as broker:
        assert at("set", "broker:default", "log.retention.ms=7000") == "log.retention.ms=7000\n"
        assert at("set", "broker:0", "log.retention.ms=5000") == "log.retention.ms=5000\n"
        assert at("get", "broker:default") == "log.retention.ms=7000\n"
        assert at("unset", "broker:0", "log.retention.ms") == "log.retention.ms=7000\n"
