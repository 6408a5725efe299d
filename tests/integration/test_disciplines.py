"""Queueing disciplines of a real broker: which of the waiting requests a handler serves first, and changes under load,
which lose nothing and double nothing. Order is read off offsets: all requests append to one partition."""

import itertools
import signal
import threading
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from mpbroker.shm.page_view import open_page
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import (
    RawFetcher,
    RawProducer,
    batch,
    create_by_metadata,
    produce_request,
    produced,
    records_in,
)
from tests.integration.test_broker_settings import change
from tests.integration.test_changed_settings import FEW_S, admin_of

pytestmark = pytest.mark.slow
NAME = "mpbroker.queue.discipline"
ONE_EACH = {"num.network.threads": 1, "num.io.threads": 1, "log.flush.interval.ms": 60_000}
OWN, SHORT, LONG = b"raw", 100, 400_000


def waiting(broker: Broker) -> dict[str, int]:
    """Requests in the rings of the data plane, by ring."""
    page = open_page(str(broker.data_dir))
    try:
        return {ring.name: ring.depth for ring in page.rings() if ring.name.startswith("data")}
    finally:
        page.close()


def is_stopped(pid: int) -> bool:
    """Whether a signal has taken effect: the system shows the state behind the name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class Queue:
    """Lets requests wait for the one handler, which is stopped meanwhile, and says in which order it served them."""

    def __init__(self, broker: Broker, size: int) -> None:
        self._broker = broker
        self._connections = [RawConnection(broker.port()) for _ in range(size)]
        self.deepest: dict[str, int] = {}

    def served(self, requests: list[tuple[bytes, int]]) -> list[int]:
        """Each is a client's name of three letters and a size; their indexes as they were served. Requests
        of one size may arrive in any order, those of the next size after them."""
        pid = self._broker.kill("handler", 0, signal.SIGSTOP)
        wait_until(lambda: is_stopped(pid), "the handler to stand still: else it takes one more")
        for sent, (connection, (client, size)) in enumerate(zip(self._connections, requests, strict=False)):
            if sent and size != requests[sent - 1][1]:
                self._wait_for(sent)
            frame = produce_request(1, "t", 0, batch([b"x" * size]))
            connection.send(frame.replace(b"\0\3" + OWN, b"\0\3" + client, 1))
        self._wait_for(len(requests))
        self.deepest = waiting(self._broker)
        self._broker.kill("handler", 0, signal.SIGCONT)
        offsets = []
        for connection, _ in zip(self._connections, requests, strict=False):
            answer = connection.receive()
            assert answer is not None
            offsets.append(produced(answer[1]).base_offset)
        return sorted(range(len(requests)), key=offsets.__getitem__)

    def _wait_for(self, count: int) -> None:
        """An admin client may have asked something by itself beside them."""
        wait_until(lambda: sum(waiting(self._broker).values()) >= count, f"{count} wait")

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def is_fair(order: list[int]) -> bool:
    """Of the greedy client's requests, 12 are served before the next one, and 10 of clients that did not meet it in a
    class."""
    greedy = [place for place, index in enumerate(order) if index < 20]
    return greedy[12] - 12 >= 10


def check_the_order(broker: Broker) -> None:
    queue = Queue(broker, 40)
    greedy = [(b"grd", LONG)] * 20 + [(b"%03d" % i, SHORT) for i in range(20)]
    assert set(queue.served(greedy)[:20]) == set(range(20))  # an admin client's own request would count as one of them
    admin = admin_of(broker)
    assert queue.deepest["data"] >= 40 and not any(depth for ring, depth in queue.deepest.items() if ring != "data")
    change(admin, "0", mpbroker_queue_discipline="fair")
    wait_until(lambda: queue.served([(OWN, SHORT)]) and not queue.deepest["data"], "fair in the processor", FEW_S)
    wait_until(lambda: is_fair(queue.served(greedy)), "fair in the handler", FEW_S)
    assert sum(depth > 0 for depth in queue.deepest.values()) >= 3
    change(admin, "0", mpbroker_queue_discipline="shortest")
    mixed = [(OWN, LONG)] * 10 + [(OWN, SHORT)] * 10
    wait_until(lambda: sum(queue.served(mixed)[:10]) >= 130, "what is short first", FEW_S)
    with pytest.raises(KafkaException) as refused:
        change(admin, "0", mpbroker_queue_discipline="lifo")
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST == 42
    change(admin, "0", mpbroker_queue_discipline=None)
    wait_until(lambda: set(queue.served(mixed)[:10]) == set(range(10)), "by arrival again", FEW_S)
    queue.close()


def check_switches_under_load(broker: Broker) -> None:
    fetcher = RawFetcher("127.0.0.1", broker.port(), "u")
    acknowledged: list[bytes] = []
    done = threading.Event()

    def load(who: int) -> None:
        producer = RawProducer("127.0.0.1", broker.port(), "u")
        for n in itertools.count():
            if done.is_set():
                return
            answer = producer.produce(0, [value := b"%d-%d" % (who, n)])
            assert answer is not None and answer.error == 0
            acknowledged.append(value)

    loads = [threading.Thread(target=load, args=(who,)) for who in range(4)]
    for each in loads:
        each.start()
    admin = admin_of(broker)
    for discipline in ("deadline", "priority", "shortest", "plane", "fair", "fifo"):
        change(admin, "0", mpbroker_queue_discipline=discipline)
        before = len(acknowledged)
        wait_until(lambda: len(acknowledged) > before + 40, "the load goes on")  # noqa: B023
        if discipline == "shortest":
            broker.kill("handler", 0)
    done.set()
    for each in loads:
        each.join()
    found: list[bytes | None] = []
    while len(found) < len(acknowledged):
        answer = fetcher.fetch(0, len(found))
        assert answer is not None and answer.records
        found += [value for _, value in records_in(answer.records, len(found))]
    assert sorted(map(str, found)) == sorted(map(str, acknowledged))


def test_order_and_switches(tmp_path):
    with Broker(tmp_path, overrides=ONE_EACH) as broker:
        for topic in ("t", "u"):
            create_by_metadata("127.0.0.1", broker.port(), topic)
        check_the_order(broker)
        check_switches_under_load(broker)
