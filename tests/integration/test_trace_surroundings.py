"""What a running broker's trace says beside its requests: connections, names, gauges, processes, markers."""

import pytest

from mpbroker.trace import dictionary, gauge, manifest, process_event, record, segment
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, batch, create_topic, produce


def of_kind(broker, kind):
    """Records of a kind in all segments, as bytes."""
    return [chunk[at:at + 128] for info in manifest.segments(broker.data_dir / "traces") for chunk in segment.read_chunks(info)
            for at in range(0, len(chunk), 128) if chunk[at + 44] == kind]


def process_events(broker):
    """Those in the trace, in file order."""
    return [process_event.unpack(one) for one in of_kind(broker, record.PROCESS_EVENT)]


def names_of(broker):
    """The names of the only boot."""
    (path,) = dictionary.find(broker.data_dir / "traces")
    assert path.stat().st_mode & 0o777 == 0o600
    return dictionary.read([path]).of(*dictionary.boot_of(path))


@pytest.fixture
def broker(tmp_path):
    overrides = {"num.network.threads": 1, "num.io.threads": 1, "mpbroker.trace.gauge.interval.ms": 100}
    with Broker(tmp_path, overrides=overrides) as broker:
        yield broker


def work(broker, client_id, count=20):
    with Peer(broker.port(), client_id=client_id) as peer:
        create_topic(peer, f"of-{client_id}")
        for _ in range(count):
            produce(peer, f"of-{client_id}", batch(b"x"))


def test_connections_topics_gauges_and_processes(broker):
    work(broker, "first")
    wait_until(lambda: {one.name for one in process_events(broker)} >= {"processor 0", "handler 0", "tracer 0"}, "every start")
    broker.stop()
    requests = [record.unpack(one) for one in of_kind(broker, record.REQUEST)]
    produced = [one for one in requests if one.api_key == 0]
    opened = {one.conn_id: one for one in map(record.unpack, of_kind(broker, record.CONNECTION_OPEN))}
    closed = {one.conn_id: one for one in map(record.unpack, of_kind(broker, record.CONNECTION_CLOSE))}
    (conn_id,) = {one.conn_id for one in produced}
    assert opened[conn_id].t0_ns < produced[0].t0_ns < closed[conn_id].t0_ns
    assert closed[conn_id].aux == sum(one.conn_id == conn_id for one in requests) and closed[conn_id].error == 0
    names = names_of(broker)
    assert names.connections[conn_id].peer.startswith("127.0.0.1:") and names.connections[conn_id].listener == 0
    assert names.topics[produced[0].topic_hash] == "of-first" and names.lost_notices == 0
    gauges = [gauge.unpack(one) for one in of_kind(broker, record.GAUGE)]
    moments = sorted({one.t0_ns for one in gauges})
    assert len(moments) >= 2
    assert {one.name for one in gauges} >= {"data", "response-0", "supervisor 0", "processor 0", "handler 0", "tracer 0"}
    handler = [one for one in gauges if one.name == "handler 0"]
    assert handler[-1].cpu_ns > handler[0].cpu_ns and handler[0].pid == handler[-1].pid
    assert all(one.pid and one.exit_text in (None, "exit 0") for one in process_events(broker))


@pytest.mark.parametrize("role", ["processor", "handler", "tracer"])
def test_a_killed_process_is_told_and_its_connections_close(broker, role):
    with Peer(broker.port(), client_id="before") as before:
        create_topic(before, "t")
        wait_until(lambda: any(one.name == f"{role} 0" for one in process_events(broker)), "the tracer to see its start")
        wait_until(lambda: of_kind(broker, record.CONNECTION_OPEN), "the tracer to write the connection")
        pid = broker.kill(role, 0)
        broker.wait_restarted(role, 0, pid)
        work(broker, "after")
        wait_until(lambda: any(one.event == process_event.DIED for one in process_events(broker)), "the death in the trace")
    broker.stop()
    events = [one for one in process_events(broker) if one.exit_text != "exit 0"]  # those ended with the broker
    (died,) = {(one.name, one.exit_text, one.restarts) for one in events if one.event == process_event.DIED}
    assert died == (f"{role} 0", "signal 9", 1)
    if role != "tracer":
        assert [one.pid for one in events if one.event == process_event.DIED] == [pid]
    successors = {one.pid for one in events if one.name == f"{role} 0" and one.incarnation == 2}
    assert len(successors) == 1 and pid not in successors
    closed = [record.unpack(one) for one in of_kind(broker, record.CONNECTION_CLOSE)]
    assert len(closed) == len({one.conn_id for one in closed}) == len(of_kind(broker, record.CONNECTION_OPEN))
    assert any(one.error == 8 for one in closed) == (role == "processor")
    assert set(names_of(broker).topics.values()) == {"t", "of-after"}
