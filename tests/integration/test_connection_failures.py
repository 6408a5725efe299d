"""A defect that shows only for one client's bytes: that client's connection ends, everybody else's goes on.

The defect is put into a real broker from outside: Python imports a `sitecustomize` from the environment, which makes
the reading of large frames raise for one number in them.
"""

import os

from tests.harness.broker import Broker
from tests.harness.raw_client import RawConnection, api_versions
from tests.harness.raw_records import batch, create_by_metadata, produce_request, produced

DEFECT = '''
import sys

class Finder:
    """Waits for the module to be there, then breaks it."""

    def find_spec(self, name, path=None, target=None):
        if name != "mpbroker.network.request_reader":
            return None
        sys.meta_path.remove(self)
        from mpbroker.network.kafka_channel import KafkaChannel
        receive = KafkaChannel.receive_large

        def broken(self):
            if self.beginning(8)[4:] == (666).to_bytes(4, "big"):
                raise RuntimeError("a defect")
            return receive(self)

        KafkaChannel.receive_large = broken
        return None

sys.meta_path.insert(0, Finder())
'''
LARGE = batch([bytes(200_000)])


def processors(broker: Broker) -> list[tuple[int, int]]:
    return [(row["pid"], row["restarts"]) for row in broker.status()["processes"] if row["role"] == "processor"]


def test_one_connection_ends_and_the_processor_goes_on(tmp_path):
    (tmp_path / "defect").mkdir()
    (tmp_path / "defect" / "sitecustomize.py").write_text(DEFECT)
    path = os.pathsep.join(filter(None, (str(tmp_path / "defect"), os.environ.get("PYTHONPATH"))))
    with Broker(tmp_path, overrides={"num.network.threads": 1}, env={"PYTHONPATH": path}) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        before = processors(broker)
        with RawConnection(broker.port()) as healthy, RawConnection(broker.port()) as failing:
            assert healthy.ask(api_versions(1)) is not None
            failing.send(produce_request(666, "t", 0, LARGE, acks=1))
            assert failing.is_closed()
            answer = healthy.ask(produce_request(2, "t", 0, LARGE, acks=1))
            assert answer is not None and answer[0] == 2 and produced(answer[1]).error == 0
        assert processors(broker) == before
        [line] = [line for line in broker.log().splitlines() if " connection_failed " in line]
        assert "exception=RuntimeError" in line and "a defect" in line
        assert broker.status()["counters"]["connections_failed"] == 1
