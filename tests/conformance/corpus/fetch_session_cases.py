"""Fetch sessions (KIP-227): several requests one after another, each with what the one before it left behind."""

from __future__ import annotations

from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.fetch_cases import BIG, filled
from tests.conformance.corpus.produce_cases import produce
from tests.conformance.corpus.records import good

VERSIONS = (7, 9, 11, 12, 13, 15, 17)
CLOSE, NEW = -1, 0
BY_ID_SINCE = 13
Asked = tuple[str, list[tuple[int, int]]]  # topic, [(partition, offset)]


class Session:
    """The client's half of a session: it counts epochs, and takes the id that it was given."""

    def __init__(self, x: Exchange, version: int) -> None:
        self.x, self.version, self.id, self.epoch = x, version, 0, NEW

    def fetch(self, *topics: Asked, forget: tuple[tuple[str, list[int]], ...] = (), partition_bytes: int = BIG,
              leader_epoch: int = -1, last_epoch: int = -1, version: int | None = None, **fields: object):
        """The next request of the session."""
        asked = [FetchTopic(topic=name, partitions=[
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_bytes,
                           current_leader_epoch=leader_epoch, last_fetched_epoch=last_epoch)
            for partition, offset in partitions]) for name, partitions in topics]
        forgotten = [ForgottenTopic(topic=name, partitions=partitions) for name, partitions in forget]
        request = FetchRequest(**{"max_wait_ms": 0, "min_bytes": 0, "max_bytes": BIG} | fields, topics=asked,
                               session_id=self.id, session_epoch=self.epoch, forgotten_topics_data=forgotten)
        answer = self.x.ask(request, version or self.version)
        if answer is not None and not isinstance(answer, str):
            self.id = answer.session_id or self.id
            self.epoch += 1
        return answer


def append(x: Exchange, topic: str, partition: int = 0) -> None:
    """Two more records."""
    x.quietly(produce((topic, [(partition, good(b"more", b"records"))])), 7)


def delete(x: Exchange, topic: str) -> None:
    """And wait until it is gone."""
    x.quietly(DeleteTopicsRequest(topic_names=[topic], timeout_ms=15_000), 3)
    x.settle()
    x.settle()


@case("fetch session: what has not changed is left out", VERSIONS)
def unchanged(x: Exchange, version: int) -> None:
    topic, other, session = filled(x, partitions=3), filled(x, "u"), Session(x, version)
    session.fetch((topic, [(0, 0), (1, 6), (2, 6)]), (other, [(0, 6)]))
    session.fetch()
    session.fetch((topic, [(0, 6)]))
    session.fetch()
    append(x, topic, 2)
    append(x, other)
    session.fetch()
    session.fetch((topic, [(2, 8)]))
    session.fetch((topic, [(2, 8)]), (other, [(0, 8)]))
    session.fetch()


@case("fetch session: partitions come and go", VERSIONS)
def changed(x: Exchange, version: int) -> None:
    topic, other, session = filled(x, partitions=4), filled(x, "u"), Session(x, version)
    session.fetch((topic, [(0, 6), (1, 6)]))
    session.fetch((topic, [(3, 0), (2, 0)]))
    session.fetch((topic, [(3, 6), (2, 6)]), (other, [(0, 0)]))
    session.fetch(forget=((topic, [1, 2]),))
    for partition in range(4):
        append(x, topic, partition)
    session.fetch(forget=((topic, [7]), (other, [0, 1])))
    session.fetch((topic, [(3, 4)]), forget=((topic, [3]),))
    session.fetch((topic, [(0, 8)]), forget=((topic, []),))
    session.fetch((topic, [(1, 8), (0, 8), (1, 6)]))
    session.fetch((topic, [(1, 0)]), forget=((topic, [0, 1, 2, 3]), (other, [0])))
    session.fetch()


@case("fetch session: ids and epochs", VERSIONS)
def epochs(x: Exchange, version: int) -> None:
    topic, session = filled(x), Session(x, version)
    session.fetch((topic, [(0, 6)]))
    for epoch in (2, 5, 2**31 - 1, -2, -(2**31)):
        session.epoch = epoch
        session.fetch()
    session.epoch = 1
    session.fetch()
    session.epoch = 1
    session.fetch()
    session.epoch = 2
    session.fetch()
    first, session.epoch = session.id, NEW
    session.fetch((topic, [(0, 0)]))
    second = session.id
    session.id, session.epoch = first, 3
    session.fetch()
    session.id, session.epoch = second, 1
    session.fetch()
    session.epoch = CLOSE
    session.fetch((topic, [(0, 4)]))
    session.id, session.epoch = second, 2
    session.fetch()
    for session_id in (0, -1, 1):
        session.id, session.epoch = session_id, 1
        session.fetch()


@case("fetch session: errors are told until they are gone", VERSIONS)
def errors(x: Exchange, version: int) -> None:
    topic, session = filled(x, partitions=2), Session(x, version)
    session.fetch((topic, [(0, 6), (1, 99), (5, 0)]))
    session.fetch()
    session.fetch((topic, [(1, 6)]))
    session.fetch()
    session.fetch((topic, [(0, 99)]), forget=((topic, [5]),))
    session.fetch((topic, [(0, 6)]))
    session.fetch()
    session.fetch((x.name("nowhere"), [(0, 0)]))
    session.fetch()


@case("fetch session: a topic that is made later", (7, 11, 12))
def made_later(x: Exchange, version: int) -> None:
    topic, session = filled(x), Session(x, version)
    session.fetch((topic, [(0, 6)]), (x.name("later"), [(0, 0)]))
    session.fetch()
    x.topic("later")
    x.settle()
    session.fetch()
    session.fetch()
    append(x, x.name("later"))
    session.fetch()


@case("fetch session: a topic that is deleted and made again", VERSIONS)
def made_again(x: Exchange, version: int) -> None:
    topic, gone, session = filled(x), filled(x, "gone", partitions=2), Session(x, version)
    session.fetch((topic, [(0, 6)]), (gone, [(1, 6), (0, 6)]))
    delete(x, gone)
    session.fetch()
    session.fetch()
    filled(x, "gone", partitions=2, batches=4)
    x.settle()
    session.fetch()
    session.fetch()


@case("fetch session: names and ids do not mix", (13, 17))
def mixed(x: Exchange, version: int) -> None:
    topic = filled(x)
    by_id, by_name = Session(x, version), Session(x, 12)
    by_id.fetch((topic, [(0, 6)]))
    by_id.fetch((topic, [(0, 0)]), version=12)
    by_id.epoch = 1
    by_id.fetch((topic, [(0, 4)]))
    by_name.fetch((topic, [(0, 6)]))
    by_name.fetch((topic, [(0, 0)]), version=version)
    by_name.epoch = 1
    by_name.fetch((topic, [(0, 4)]))


@case("fetch session: who gave records goes to the end", VERSIONS)
def turns(x: Exchange, version: int) -> None:
    topic, other, session = filled(x, partitions=3), filled(x, "u", partitions=2), Session(x, version)
    session.fetch((topic, [(0, 0), (1, 0), (2, 0)]), (other, [(0, 0), (1, 0)]), max_bytes=1)
    for _ in range(7):
        session.fetch(max_bytes=1)
    session.fetch((topic, [(1, 2)]), max_bytes=200)
    session.fetch(max_bytes=200)
    session.fetch((other, [(0, 6)]), (topic, [(0, 6), (2, 6)]))
    session.fetch()


@case("fetch session: without partitions", VERSIONS)
def empty(x: Exchange, version: int) -> None:
    topic, session = filled(x), Session(x, version)
    session.fetch()
    session.fetch((topic, [(0, 0)]))
    session.fetch(forget=((topic, [0]),))
    session.fetch()
    session = Session(x, version)
    session.fetch((topic, []))
    session.fetch((topic, []))
    session.fetch((topic, [(0, 4)]))


@case("fetch session: what was asked is remembered", VERSIONS)
def remembered(x: Exchange, version: int) -> None:
    topic, session = filled(x, partitions=2), Session(x, version)
    session.fetch((topic, [(0, 0), (1, 0)]), partition_bytes=100)
    session.fetch()
    session.fetch((topic, [(1, 2), (1, 4)]), partition_bytes=1)
    session.fetch(isolation_level=1)
    session.fetch((topic, [(0, 6)]), leader_epoch=3)
    session.fetch(forget=((topic, [1]),))
    session.fetch((topic, [(0, 6)]), leader_epoch=0, last_epoch=2)
    session.fetch()
    session.fetch((topic, [(0, 6)]))
    session.fetch()


@case("fetch session: a wait ends with what is there", VERSIONS)
def waits(x: Exchange, version: int) -> None:
    topic, session = filled(x), Session(x, version)
    session.fetch((topic, [(0, 6)]), max_wait_ms=50, min_bytes=1)
    session.fetch(max_wait_ms=50, min_bytes=1)
    append(x, topic)
    session.fetch(max_wait_ms=50, min_bytes=1)
    session.fetch((topic, [(0, 8)]), (x.name("nowhere"), [(0, 0)]), max_wait_ms=50, min_bytes=1)
    session.fetch((topic, [(0, 9)]), max_wait_ms=5000, min_bytes=1)


@case("fetch session: ids that nobody has", range(13, 18, 2))
def ids(x: Exchange, version: int) -> None:
    topic, session = filled(x), Session(x, version)
    session.fetch((topic, [(0, 6)]), (x.name("nowhere"), [(0, 0)]), (x.name("elsewhere"), [(1, 0)]))
    session.fetch()
    session.fetch(forget=((x.name("nowhere"), [0]),))
    session = Session(x, version)
    session.fetch((topic, [(0, 6)]), ("", [(0, 0)]))
    session = Session(x, version)
    session.fetch((topic, [(0, 6)]))
    session.fetch(("", [(0, 0)]))
    session.fetch()
