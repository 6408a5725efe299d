"""What a running broker takes on when its configuration is read again, and what waits for the next start."""

import os
import signal

from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, api_versions


def test_a_listener_and_a_processor_of_the_file_come_and_the_others_stay(tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text("num.network.threads=1\nlog.retention.ms=1000000\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    with Broker(tmp_path, properties=properties, listeners=()) as broker:

        def processors():
            return [row["pid"] for row in broker.status()["processes"] if row["role"] == "processor"]

        before, port = processors(), broker.port()
        properties.write_text(
            "num.network.threads=2\nlog.retention.ms=2000000\n"
            "listeners=PLAINTEXT://127.0.0.1:0,EXTRA://127.0.0.1:0\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT\n"
        )
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: " reloaded " in broker.log(), "the reload")
        line = next(line for line in broker.log().splitlines() if " reloaded " in line)
        assert "changed=listeners,listener.security.protocol.map,num.network.threads,log.retention.ms" in line
        wait_until(lambda: len(processors()) == 4, "a second processor, and two of the second listener")
        assert processors()[:1] == before
        first, extra = broker.status()["listeners"]
        assert first["port"] == port and extra["name"] == "EXTRA"
        for each in (port, extra["port"]):
            with RawConnection(each) as connection:
                assert connection.ask(api_versions(1))
        properties.write_text("listeners=OTHER://127.0.0.1:0\nlistener.security.protocol.map=OTHER:PLAINTEXT\n")
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: " reload_refused " in broker.log(), "the brokers' own listener to be missed")
