"""What a running broker's trace says beside its requests: connections, names, gauges, processes, markers."""

import itertools
import json
import os
import signal
import subprocess
import sys

import pytest

from mpbroker.record.checksum import crc32c
from mpbroker.trace import dictionary, gauge, manifest, mark_spool, process_event, record, segment
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, batch, create_topic, produce


def of_kind(broker, kind):
    """Records of a kind in all segments, as bytes."""
    return [
        chunk[at : at + 128]
        for info in manifest.segments(broker.data_dir / "traces")
        for chunk in segment.read_chunks(info)
        for at in range(0, len(chunk), 128)
        if chunk[at + 44] == kind
    ]


def process_events(broker):
    """Those in the trace, in file order."""
    return [process_event.unpack(one) for one in of_kind(broker, record.PROCESS_EVENT)]


def gauges_of(broker):
    """Those in the trace, in file order."""
    return [gauge.unpack(one) for one in of_kind(broker, record.GAUGE)]


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


def is_opened(broker, peer):
    """Whether the trace has this connection, not only another: a tracer that dies takes what it has not written."""
    host, port = peer.socket.getsockname()
    ids = {one.conn_id for one in names_of(broker).connections.values() if one.peer == f"{host}:{port}"}
    return any(record.unpack(one).conn_id in ids for one in of_kind(broker, record.CONNECTION_OPEN))


def work(broker, client_id, count=20):
    with Peer(broker.port(), client_id=client_id) as peer:
        create_topic(peer, f"of-{client_id}")
        for _ in range(count):
            produce(peer, f"of-{client_id}", batch(b"x"))


def test_connections_topics_gauges_and_processes(broker):
    work(broker, "first")
    wait_until(
        lambda: {one.name for one in process_events(broker)} >= {"processor 0", "handler 0", "tracer 0"}, "every start"
    )
    wait_until(
        lambda: (
            work(broker, "second") or len({one.cpu_ns for one in gauges_of(broker) if one.name == "handler 0"}) >= 2
        ),
        "two samples of the handler, which worked between them",
    )
    broker.stop()
    requests = [record.unpack(one) for one in of_kind(broker, record.REQUEST)]
    produced = [one for one in requests if one.api_key == 0 and one.topic_hash == crc32c(b"of-first")]
    opened = {one.conn_id: one for one in map(record.unpack, of_kind(broker, record.CONNECTION_OPEN))}
    closed = {one.conn_id: one for one in map(record.unpack, of_kind(broker, record.CONNECTION_CLOSE))}
    (conn_id,) = {one.conn_id for one in produced}
    assert opened[conn_id].t0_ns < produced[0].t0_ns < closed[conn_id].t0_ns
    assert closed[conn_id].aux == sum(one.conn_id == conn_id for one in requests) and closed[conn_id].error == 0
    names = names_of(broker)
    assert names.connections[conn_id].peer.startswith("127.0.0.1:") and names.connections[conn_id].listener == 0
    assert names.topics[produced[0].topic_hash] == "of-first" and names.lost_notices == 0
    assert names.clients[produced[0].client_hash] == "first"
    gauges = gauges_of(broker)
    assert {one.name for one in gauges} >= {
        "data",
        "response-0",
        "supervisor 0",
        "processor 0",
        "handler 0",
        "tracer 0",
    }
    handler = [one for one in gauges if one.name == "handler 0"]
    assert handler[-1].cpu_ns > handler[0].cpu_ns and handler[0].pid == handler[-1].pid
    assert all(one.pid and one.exit_text in (None, "exit 0") for one in process_events(broker))


@pytest.mark.parametrize("role", ["processor", "handler", "tracer"])
def test_a_killed_process_is_told_and_its_connections_close(broker, role):
    with Peer(broker.port(), client_id="before") as before:
        create_topic(before, "t")
        wait_until(
            lambda: any(one.name == f"{role} 0" for one in process_events(broker)), "the tracer to see its start"
        )
        wait_until(lambda: is_opened(broker, before), "the tracer to write the connection")
        pid = broker.kill(role, 0)
        broker.wait_restarted(role, 0, pid)
        work(broker, "after")
        wait_until(
            lambda: any(one.event == process_event.DIED for one in process_events(broker)), "the death in the trace"
        )
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


def trace(*words):
    """`mpbroker trace …`: exit code, stdout, stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "mpbroker", "trace", *map(str, words)], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


def marks(broker):
    """Texts of the markers whose record is in a segment, by time."""
    names = names_of(broker)
    return [names.markers[one.aux].text for one in sorted(map(record.unpack, of_kind(broker, record.MARKER)))]


def test_markers_are_in_the_trace_when_the_command_ends(tmp_path):
    broker = Broker(tmp_path).start()
    assert trace("mark", "load step", 3, "--data-dir", broker.data_dir) == (0, "", "")
    assert marks(broker) == ["load step 3"]
    code, out, _ = trace("mark", "--in", broker.data_dir / "traces", "--json", "grün")
    assert code == 0 and json.loads(out)["text"] == "grün" and marks(broker) == ["load step 3", "grün"]
    assert trace("mark", "--data-dir", broker.data_dir, "x" * 300)[0] == 2
    broker.destroy()
    code, _, sentence = trace("mark", "too late", "--data-dir", broker.data_dir)
    assert code == 3 and "no broker runs" in sentence
    code, _, sentence = trace("mark", "too late", "--in", broker.data_dir / "traces")
    assert code == 3 and "no broker traces into" in sentence
    assert marks(broker) == ["load step 3", "grün"]


def test_tracing_off_is_said(tmp_path):
    with Broker(tmp_path, overrides={"mpbroker.trace.enabled": "false"}) as broker:
        work(broker, "untraced", 3)
        for words in (("mark", "x"), ("stats",), ("ls",)):
            code, out, sentence = trace(*words, "--data-dir", broker.data_dir)
            assert (code, out) == (2, "") and "does not trace: mpbroker.trace.enabled is false" in sentence
        assert broker.stop() == 0
    assert not (broker.data_dir / "traces").exists() and not list(tmp_path.rglob("*.jsonl"))


def test_the_trace_directory_is_found_wherever_it_is(tmp_path):
    with Broker(tmp_path, overrides={"mpbroker.trace.dir": tmp_path / "elsewhere"}) as broker:
        work(broker, "a", 3)
        assert trace("mark", "here", "--data-dir", broker.data_dir)[0] == 0

        def records():
            code, out, _ = trace("stats", "--json", "--data-dir", broker.data_dir)
            assert code == 0, "a mark was written, so there is a segment"
            return json.loads(out)["records"]

        wait_until(lambda: records() >= 3, "the lane to be drained, which comes after the marks", 30)
        broker.stop()
    code, out, _ = trace("stats", "--json", "--in", tmp_path)
    found = json.loads(out)
    assert (
        code == 0
        and found["finished"] == found["records"] + found["dropped"] + found["sampled_out"]
        and not found["gaps"]
    )


def test_killed_at_any_moment_the_tracer_loses_no_mark_and_repeats_none(broker):
    texts = [f"mark {number}" for number in range(12)]
    for number, text in enumerate(texts):
        mark_spool.put(broker.data_dir / "traces", text)
        work(broker, f"c{number}", 3)
        if number % 2:
            pid = broker.kill("tracer", 0)
            broker.wait_restarted("tracer", 0, pid)
    wait_until(lambda: not list((broker.data_dir / "traces" / "marks").iterdir()), "the last mark to be taken")
    assert broker.stop() == 0
    assert [text for text, _ in itertools.groupby(marks(broker))] == texts  # one that was written twice has one number
    code, out, _ = trace("stats", "--json", "--data-dir", broker.data_dir)
    found = json.loads(out)
    assert (
        code == 0
        and found["finished"] == found["records"] + found["dropped"]
        and not found["gaps"]
        and not found["damage"]
    )
    assert all(info.closed is not None for info in manifest.segments(broker.data_dir / "traces"))


def test_kill_9_of_everything_leaves_readable_files_and_the_next_start_closes_them(tmp_path):
    overrides = {"num.network.threads": 1, "num.io.threads": 1, "mpbroker.trace.gauge.interval.ms": 100}
    broker = Broker(tmp_path, overrides=overrides).start()
    work(broker, "first", 50)
    assert trace("mark", "before", "--data-dir", broker.data_dir)[0] == 0
    wait_until(
        lambda: sum(record.unpack(one).api_key == 0 for one in of_kind(broker, record.REQUEST)) == 50, "all records"
    )
    before = {path: path.read_bytes() for path in (broker.data_dir / "traces").glob("*.mpt")}
    os.killpg(broker.process.pid, signal.SIGSTOP)
    broker.destroy()
    for path, content in before.items():
        assert path.read_bytes()[4096 : len(content)] == content[4096:]
    assert trace("stats", "--json", "--in", tmp_path)[0] == 0
    with Broker(tmp_path, overrides=overrides) as again:
        work(again, "second", 5)
        again.stop()
    infos = manifest.segments(tmp_path / "data" / "traces")
    assert all(info.closed is not None for info in infos) and len({info.opened.boot_id for info in infos}) == 2
    assert len(dictionary.find(tmp_path)) == 2
    found = json.loads(trace("stats", "--json", "--in", tmp_path)[1])
    assert found["records"] >= 55 and not found["gaps"] and not found["damage"]
