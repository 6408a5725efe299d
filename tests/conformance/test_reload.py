"""What a running broker takes on when its configuration is read again, and what waits for the next start."""

import os
import signal

from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, api_versions


def test_listeners_stay_as_they_are_until_the_next_start_and_processors_come(tmp_path):
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
        assert "changed=num.network.threads,log.retention.ms" in line
        assert "listeners" in line.partition("needs_restart=")[2]
        wait_until(lambda: len(processors()) == 2, "a second processor")
        assert processors()[:1] == before and [each["port"] for each in broker.status()["listeners"]] == [port]
        with RawConnection(port) as connection:
            assert connection.ask(api_versions(1))
