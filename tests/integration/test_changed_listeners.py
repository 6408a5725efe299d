"""`listeners` and `advertised.listeners` while the broker works (KIP-226): sockets and processors come and go,
connections of a removed listener are closed, all others notice nothing. Workers that are killed or hang in the middle
change nothing."""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import threading
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mpbroker.client.config_admin import BROKER, Resource, change_configs
from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import KafkaError
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, api_versions
from tests.harness.raw_records import create_by_metadata, fetch_request

pytestmark = pytest.mark.slow
OWN = "PLAINTEXT://127.0.0.1:0"


def wanted(listeners: dict[str, str] | None, advertised: str | None = None) -> dict[str, str | None]:
    """Settings for listeners beside PLAINTEXT, by name; None: those of the file again."""
    names = ["PLAINTEXT", *(listeners or {})]
    addresses = [OWN, *(f"{name}://{address}" for name, address in (listeners or {}).items())]
    settings = {
        "listeners": ",".join(addresses),
        "advertised.listeners": advertised,
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
    }
    return settings if listeners is not None else dict.fromkeys(settings)


def change(broker: Broker, listeners: dict[str, str] | None, advertised: str | None = None) -> None:
    with NetworkClient("127.0.0.1", broker.port()) as client:
        change_configs(client, Resource(BROKER, "0"), wanted(listeners, advertised))


def ports(broker: Broker) -> dict[str, int]:
    return {one["name"]: one["port"] for one in broker.status()["listeners"]}


def serving(broker: Broker) -> list[str]:
    """Listeners of the processors that run."""
    return sorted(str(row["listener"]) for row in broker.status()["processes"] if row["role"] == "processor")


def place_of(broker: Broker, listener: str) -> int:
    """Index of its one processor."""
    (found,) = [row for row in broker.status()["processes"] if row["listener"] == listener]
    return found["index"]


def wait_for(broker: Broker, *names: str) -> dict[str, int]:
    wait_until(lambda: serving(broker) == sorted(names), f"{names} to be served", 10)
    return ports(broker)


def told(port: int) -> tuple[str, int]:
    """The broker's address as Metadata says it on a listener; a new client each time, for it goes where it is sent."""
    shown = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=5).brokers[0]
    return shown.host, shown.port


def is_told(port: int, address: tuple[str, int]) -> bool:
    """A client that is sent to where nobody listens may say that instead."""
    with suppress(KafkaException):
        return told(port) == address
    return False


def answers(port: int) -> bool:
    with RawConnection(port) as connection:
        return connection.ask(api_versions(1)) is not None


class Steady(threading.Thread):
    """A connection that asks and asks, and is never to be closed."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.connection, self.asked, self.stopping, self.failure = RawConnection(port), 0, False, ""
        self.start()

    def run(self) -> None:
        try:
            for number in itertools.count():
                if self.stopping:
                    return
                if self.connection.ask(api_versions(number)) is None:
                    self.failure = "closed"
                    return
                self.asked += 1
        except OSError as error:
            self.failure = repr(error)

    def finish(self) -> None:
        self.stopping = True
        self.join(10)
        assert (self.failure, self.asked > 0, self.is_alive()) == ("", True, False)


def test_a_listener_comes_is_told_otherwise_goes_and_outlives_a_start(tmp_path):
    broker = Broker(tmp_path, overrides={"num.network.threads": 1})
    with broker:
        steady = Steady(broker.port())
        change(broker, {"EXTRA": "127.0.0.1:0"})
        extra = wait_for(broker, "PLAINTEXT", "EXTRA")["EXTRA"]
        assert told(extra) == ("127.0.0.1", extra), "told on the listener that was asked"
        change(broker, {"EXTRA": "127.0.0.1:1"}, f"{OWN},EXTRA://localhost:7777")
        wait_until(lambda: is_told(extra, ("localhost", 7777)), "the new address in Metadata")
        assert ports(broker)["EXTRA"] == extra, "one that is there stays at its address, as in Kafka"
        create_by_metadata("127.0.0.1", broker.port(), "t")
        polling, quiet = RawConnection(extra, timeout_s=5), RawConnection(extra, timeout_s=5)
        polling.send(fetch_request(1, "t", 0, 0, max_wait_ms=1500))
        assert quiet.ask(api_versions(1))
        change(broker, {"OTHER": "127.0.0.1:0"})
        assert polling.receive() is None and quiet.receive() is None, "closed with their listener"
        other = wait_for(broker, "PLAINTEXT", "OTHER")["OTHER"]
        assert answers(other) and steady.asked > 0
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", extra), 1):
            pass
        with NetworkClient("127.0.0.1", broker.port()) as client, pytest.raises(KafkaError, match="inter-broker"):
            change_configs(client, Resource(BROKER, "0"), {"listeners": "OTHER://127.0.0.1:0"})
        steady.finish()
    with broker:
        assert answers(wait_for(broker, "PLAINTEXT", "OTHER")["OTHER"])
        change(broker, None)
        wait_for(broker, "PLAINTEXT")


def test_an_address_in_use_is_tried_again_and_does_not_keep_a_broker_from_starting(tmp_path):
    broker = Broker(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with broker:
            change(broker, {"TAKEN": f"127.0.0.1:{port}", "FREE": "127.0.0.1:0"})
            wait_for(broker, "PLAINTEXT", "FREE")
            line = f"cannot listen on TAKEN://127.0.0.1:{port}: port {port} is in use"
            wait_until(lambda: line in broker.log(), "a line about it")
        broker.start()
        assert "dynamic_setting_left_out" in broker.log() and answers(broker.port())
        wait_for(broker, "PLAINTEXT", "FREE")
    assert wait_for(broker, "PLAINTEXT", "FREE", "TAKEN")["TAKEN"] == port and answers(port)
    assert broker.log().count("listener_not_opened") == 2, "said once a start"
    broker.stop()


def test_an_acceptor_that_hangs_keeps_no_removed_listener_open(tmp_path):
    """It still has the socket: clients are refused all the same, a listener that comes waits for it alone, and nobody
    gets the place of a processor to which it could still pass what it accepted."""
    with Broker(tmp_path, overrides={"num.network.threads": 1}) as broker:
        change(broker, {"EXTRA": "127.0.0.1:0"})
        extra = wait_for(broker, "PLAINTEXT", "EXTRA")["EXTRA"]
        acceptor, place = broker.row("acceptor")["pid"], place_of(broker, "EXTRA")
        with NetworkClient("127.0.0.1", broker.port()) as client:
            assert answers(extra)
            os.kill(acceptor, signal.SIGSTOP)
            change_configs(client, Resource(BROKER, "0"), wanted({"OTHER": "127.0.0.1:0"}))
            other = wait_for(broker, "PLAINTEXT", "OTHER")["OTHER"]
            with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", extra), 1):
                pass
            change_configs(client, Resource(BROKER, "0"), wanted(dict.fromkeys(("OTHER", "THIRD"), "127.0.0.1:0")))
            third = wait_for(broker, "PLAINTEXT", "OTHER", "THIRD")["THIRD"]
            assert place not in (place_of(broker, "OTHER"), place_of(broker, "THIRD"))
            with RawConnection(other) as waiting, RawConnection(third) as too:
                waiting.send(api_versions(1))
                too.send(api_versions(1))
                os.kill(acceptor, signal.SIGCONT)
                assert waiting.receive() is not None and too.receive() is not None
        assert answers(broker.port()) and "accept_failed" not in broker.log()


def test_workers_killed_while_listeners_come_and_go(tmp_path):
    """More names than there are places, so that the places of removed ones are used again."""
    dice = random.Random(7)
    with Broker(tmp_path, overrides={"num.network.threads": 1, "num.io.threads": 2}) as broker:
        steady = Steady(broker.port())
        for turn in range(60 if os.environ.get("LONG") else 8):
            names = [f"L{turn}", f"M{turn}"]
            change(broker, dict.fromkeys(names, "127.0.0.1:0"))
            if turn % 3 == 2:
                found = wait_for(broker, "PLAINTEXT", *names)
                idle = RawConnection(found[names[0]], timeout_s=5)
                idle.ask(api_versions(1))
            own = broker.row("processor")["index"]
            for row in broker.status()["processes"]:
                is_new = row["role"] == "processor" and row["index"] != own
                if (
                    (is_new or row["role"] in ("acceptor", "controller", "handler"))
                    and row["pid"]
                    and dice.random() < 0.3
                ):
                    with suppress(ProcessLookupError):  # one of a listener that is being removed went meanwhile
                        os.kill(row["pid"], signal.SIGKILL)
        change(broker, {"LAST": "127.0.0.1:0"})
        assert answers(wait_for(broker, "PLAINTEXT", "LAST")["LAST"])
        steady.finish()
