"""The process tree of a real broker: start, ready, every way of dying, stop. Nothing may be left behind."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import zlib

import pytest

import mpbroker
from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from tests.harness.broker import SHM, Broker, wait_until
from tests.harness.raw_client import RawConnection, api_versions, frame
from tests.harness.raw_records import batch, create_by_metadata, fetch_request, fetched, produce_request

ROLES = [("acceptor", 0), ("processor", 0), ("handler", 1), ("controller", 0), ("log-keeper", 0), ("tracer", 0)]


def _cli(*words, timeout_s=20):
    return subprocess.run([sys.executable, "-m", "mpbroker", *words], capture_output=True, text=True, timeout=timeout_s)


def _answers(port, correlation_id=7):
    with RawConnection(port) as connection:
        found = connection.ask(api_versions(correlation_id))
        return found is not None and found[0] == correlation_id


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(
        tmp_path_factory.mktemp("broker"), overrides={"num.network.threads": 2, "num.io.threads": 2}
    ) as running:
        yield running


def test_the_ready_line_and_file_name_what_listens(broker):
    line = f"mpbroker ready node=0 pid={broker.pid} data={broker.data_dir} PLAINTEXT://{broker.bootstrap}\n"
    assert broker.ready_line == line
    assert broker.ready == {
        "node_id": 0,
        "pid": broker.pid,
        "data_dir": str(broker.data_dir),
        "listeners": [{"name": "PLAINTEXT", "protocol": "PLAINTEXT", "host": "127.0.0.1", "port": broker.port()}],
        "admin": broker.ready["admin"],
    }
    assert _answers(broker.port())
    host, port = broker.ready["admin"].removeprefix("http://").split(":")
    socket.create_connection((host, int(port)), timeout=5).close()


def test_every_process_has_its_title_and_its_row(broker):
    workers = [
        "mpbroker: acceptor 0",
        "mpbroker: admin 0",
        "mpbroker: controller 0",
        "mpbroker: coordinator 0",
        "mpbroker: handler 0",
        "mpbroker: handler 1",
        "mpbroker: log-keeper 0",
        "mpbroker: processor 0 PLAINTEXT",
        "mpbroker: processor 1 PLAINTEXT",
        "mpbroker: tracer 0",
    ]

    def titles():
        return sorted(title for title in broker.processes().values() if title.startswith("mpbroker: "))

    wait_until(lambda: titles() == workers, f"every process, also those that start last, to be there: {titles()}")
    rows = {(row["role"], row["index"]): row for row in broker.status()["processes"]}
    assert set(rows) == {
        ("supervisor", 0),
        ("acceptor", 0),
        ("processor", 0),
        ("processor", 1),
        ("handler", 0),
        ("handler", 1),
        ("controller", 0),
        ("admin", 0),
        ("coordinator", 0),
        ("log-keeper", 0),
        ("tracer", 0),
    }
    assert {row["pid"] for row in rows.values()} == set(broker.processes())
    wait_until(lambda: {row["state"] for row in broker.status()["processes"]} == {"running"}, "all to serve")


def test_a_second_start_is_refused_with_one_sentence(broker):
    second = _cli("start", "--data-dir", str(broker.data_dir), "--listener", "PLAINTEXT://127.0.0.1:0")
    assert second.returncode == 3 and second.stdout == ""
    assert f"is in use by pid {broker.pid}" in second.stderr
    assert _answers(broker.port())


def test_a_port_in_use_is_refused_with_one_sentence(broker, tmp_path):
    other = _cli("start", "--data-dir", str(tmp_path / "other"), "--listener", f"PLAINTEXT://127.0.0.1:{broker.port()}")
    assert other.returncode == 2 and other.stdout == ""
    assert f"port {broker.port()} is in use" in other.stderr.splitlines()[-1]


def test_status_prints_its_schema_as_json(broker):
    found = _cli("status", "--data-dir", str(broker.data_dir), "--json")
    assert found.returncode == 0
    status = json.loads(found.stdout)
    assert list(status) == [
        "schema",
        "version",
        "data_dir",
        "pid",
        "node_id",
        "cluster_id",
        "state",
        "health",
        "started_ms",
        "uptime_s",
        "listeners",
        "admin",
        "topics",
        "disks",
        "processes",
        "rings",
        "counters",
    ]
    assert (status["schema"], status["node_id"], status["state"]) == (2, 0, "running")
    assert (status["version"], status["pid"]) == (mpbroker.__version__, broker.pid)
    assert f"cluster.id={status['cluster_id']}" in (broker.data_dir / "meta.properties").read_text()
    assert abs(time.time() * 1000 - status["started_ms"] - status["uptime_s"] * 1000) < 5000
    assert [disk["for"] for disk in status["disks"]] == ["records", "traces"]
    assert all(0 < disk["free_bytes"] < disk["total_bytes"] for disk in status["disks"])
    assert (status["listeners"], status["admin"]) == (broker.ready["listeners"], broker.ready["admin"])
    for row in status["processes"]:
        assert list(row) == [
            "slot",
            "role",
            "index",
            "listener",
            "pid",
            "incarnation",
            "state",
            "wait",
            "heartbeat_age_ms",
            "request",
            "restarts",
            "last_exit",
        ]
        assert row["heartbeat_age_ms"] < 10_000
    rings = {ring["name"]: ring for ring in status["rings"]}
    assert rings["data"]["capacity"] == 500 and rings["control"]["capacity"] == 20
    assert status["counters"]["requests_finished"] >= 1
    assert _cli("status", "--data-dir", str(broker.data_dir)).stdout.startswith(
        f"broker         mpbroker {mpbroker.__version__}, node 0, cluster "
    )


def test_status_works_while_everything_is_stopped(broker):
    pids = list(broker.processes())
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        found = _cli("status", "--data-dir", str(broker.data_dir), "--json")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert found.returncode == 0 and len(json.loads(found.stdout)["processes"]) == len(pids)
    assert _answers(broker.port())


def test_status_and_stop_where_nothing_runs(tmp_path):
    for command in ("status", "stop"):
        found = _cli(command, "--data-dir", str(tmp_path))
        assert found.returncode == 3 and "no broker runs" in found.stderr and found.stdout == ""


@pytest.mark.parametrize(("role", "index"), ROLES)
def test_a_killed_worker_has_a_successor_and_other_connections_go_on(broker, role, index):
    with RawConnection(broker.port()) as one, RawConnection(broker.port()) as two:
        assert one.ask(api_versions(1)) and two.ask(api_versions(2))
        before = broker.row(role, index)
        old = broker.kill(role, index)
        row = broker.wait_restarted(role, index, old)
        assert row["incarnation"] == before["incarnation"] + 1 and row["restarts"] == before["restarts"] + 1
        assert row["last_exit"] == "signal 9"
        survivors = [connection for connection in (one, two) if connection.ask(api_versions(3))]
        assert len(survivors) == (1 if role == "processor" else 2), "round robin: one connection on each processor"
    assert _answers(broker.port())


def test_connections_made_while_a_processor_or_acceptor_dies_are_all_served(broker):
    """Whoever connects is either answered or sees its connection closed; nobody waits for ever."""
    answered = closed = 0
    for turn in range(6):
        connections = [RawConnection(broker.port()) for _ in range(10)]
        broker.kill("processor" if turn % 2 else "acceptor", 0)
        connections += [RawConnection(broker.port()) for _ in range(10)]
        for n, connection in enumerate(connections):
            try:
                connection.send(api_versions(n))
                found = connection.receive()
            except (BrokenPipeError, ConnectionResetError):
                found = None
            answered, closed = answered + (found is not None), closed + (found is None)
            connection.close()
        wait_until(lambda: all(row["state"] == "running" for row in broker.status()["processes"]), "all running")
    assert answered + closed == 120 and answered >= 60
    assert _answers(broker.port())


def test_a_stopped_handler_holds_up_nobody(broker):
    pid = broker.kill("handler", 0, signal.SIGSTOP)
    try:
        with RawConnection(broker.port(), timeout_s=5) as connection:
            found = [connection.ask(api_versions(n)) for n in range(20)]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert sum(answer is not None for answer in found) >= 19


def test_pipelined_requests_are_answered_in_order(broker):
    with RawConnection(broker.port()) as connection:
        connection.send(b"".join(api_versions(n) for n in range(500)))
        assert [connection.receive()[0] for _ in range(500)] == list(range(500))


@pytest.mark.parametrize(
    ("data", "counter"),
    [
        (b"\xff\xff\xff\xff", "bad_frames"),
        (b"\x00\x00\x00\x00", "bad_frames"),
        (b"\x7f\xff\xff\xff", "bad_frames"),
        (b"GET / HTTP/1.1\r\n\r\n", "bad_frames"),
        (frame(999, 0, 1), "requests_unsupported"),
        (frame(3, 99, 1), "requests_unsupported"),
        (frame(3, -1, 1), "requests_unsupported"),
    ],
)
def test_what_nobody_can_answer_closes_its_connection_with_a_counter_and_a_line(broker, data, counter):
    """Each from an address of its own: a processor writes one line of a kind about an address in ten seconds."""
    before = broker.status()["counters"][counter]
    address = f"127.7.{zlib.crc32(data) % 250 + 1}.1"
    for number in range(5):
        with socket.create_connection(
            ("127.0.0.1", broker.port()), timeout=10, source_address=(address, 0)
        ) as connection:
            connection.sendall(data)
            assert _is_closed(connection)
        wait_until(lambda: broker.status()["counters"][counter] == before + number + 1, f"{counter} to count")  # noqa: B023
    wait_until(lambda: broker.log().count(f"peer={address} ") in (1, 2), "a line of each processor that was sent it")
    assert _answers(broker.port())


def _is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_client_that_never_reads_or_finishes_its_frame_disturbs_nobody(broker):
    slow = [socket.create_connection(("127.0.0.1", broker.port())) for _ in range(30)]
    for n, connection in enumerate(slow):
        connection.sendall(api_versions(n)[: 1 + n % 13])
    assert _answers(broker.port())
    for connection in slow:
        connection.close()


def _seconds_to_stop(directory):
    broker = Broker(directory).start()
    with RawConnection(broker.port()) as connection:
        assert connection.ask(api_versions(1))
        began = time.monotonic()
        assert broker.stop() == 0
        took_s = time.monotonic() - began
        assert connection.is_closed()
    assert not (broker.data_dir / ".mpbroker-status.json").exists()
    return took_s


def test_sigterm_ends_everything_cleanly_within_five_seconds(tmp_path):
    """A machine that pauses makes one stop late; all are only if the broker is slow."""
    assert any(_seconds_to_stop(tmp_path / str(turn)) < 5 for turn in range(3))


@pytest.fixture
def port():
    """One to listen on again and again, which nobody else gets meanwhile: it is bound here, and not listened on."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_a_stop_before_the_log_keeper_is_forked_is_a_clean_one(tmp_path, port):
    """It is forked when listeners have answered; what a client that was quicker wrote must not need a recovery."""
    broker = Broker(tmp_path, listeners=[f"PLAINTEXT://127.0.0.1:{port}"])
    with broker:
        create_by_metadata("127.0.0.1", port, "t")
    broker.spawn()

    def answers() -> bool:
        with contextlib.suppress(OSError), RawConnection(port, timeout_s=20) as connection:
            return connection.ask(api_versions(1)) is not None
        return False

    wait_until(answers, "an answer", 20)
    os.kill(broker.pid, signal.SIGTERM)
    assert broker.process.wait(20) == 0, broker.log()
    broker.destroy()
    assert (broker.data_dir / ".kafka_cleanshutdown").exists(), broker.log()


def test_a_long_poll_is_answered_when_the_broker_stops(tmp_path):
    broker = Broker(tmp_path).start()
    create_by_metadata("127.0.0.1", broker.port(), "polled")
    with RawConnection(broker.port()) as connection:
        wait_until(
            lambda: fetched(connection.ask(fetch_request(1, "polled", 0, 0, max_wait_ms=0))[1]).error == 0, "the topic"
        )
        parked = broker.status()["counters"]["requests_parked"]  # its creation may have waited too
        connection.send(fetch_request(9, "polled", 0, 0, max_wait_ms=60_000))
        wait_until(lambda: broker.status()["counters"]["requests_parked"] > parked, "the fetch to wait")
        broker.process.terminate()
        assert connection.receive()[0] == 9 and connection.is_closed()
    assert broker.process.wait(20) == 0
    broker.stop()


def test_mpbroker_stop(tmp_path):
    broker = Broker(tmp_path).start()
    assert _cli("stop", "--data-dir", str(broker.data_dir)).returncode == 0
    assert broker.process.wait(1) == 0
    broker.assert_nothing_left()
    broker.stop()


def test_mpbroker_stop_says_what_it_waits_for(tmp_path):
    """A request whose acknowledgement waits for a log keeper that is stopped keeps its processor for the drain
    timeout."""
    overrides = {"mpbroker.log.flush": "commit", "mpbroker.drain.timeout.ms": 6000}
    broker = Broker(tmp_path, overrides=overrides).start()
    with connect(broker.bootstrap) as client:
        create_topic(client, "t", 1, {})
    broker.kill("log-keeper", 0, signal.SIGSTOP)
    parked = broker.status()["counters"]["requests_parked"]  # its creation waited, too
    with RawConnection(broker.port()) as connection:
        connection.send(produce_request(1, "t", 0, batch([b"a"])))
        wait_until(lambda: broker.status()["counters"]["requests_parked"] > parked, "the request to wait")
        found = _cli("stop", "--data-dir", str(broker.data_dir))
    assert found.returncode == 0 and broker.process.wait(1) == 0
    first = found.stderr.splitlines()[0]
    assert re.match(rf"mpbroker: the broker \(pid {broker.pid}\) is stopping, [1-6] of 45 s; left: ", first)
    assert "processor 0" in first and "supervisor" not in first
    broker.stop()


def test_after_kill_9_of_the_supervisor_nothing_is_left(tmp_path):
    broker = Broker(tmp_path).start()
    broker.kill("supervisor")
    broker.process.wait(5)
    broker.assert_nothing_left(timeout_s=15)
    with Broker(tmp_path) as again:
        assert _answers(again.port())


@pytest.mark.parametrize("command", ["status", "start"])
def test_after_kill_9_of_everything_the_next_one_sweeps(tmp_path, command):
    broker = Broker(tmp_path).start()
    pids = list(broker.processes())
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in sorted(pids, key=lambda pid: pid == broker.pid):
        os.kill(pid, signal.SIGKILL)
    broker.process.wait(5)
    wait_until(lambda: not broker.processes(), "all of them to be gone")
    assert [name for name in broker.names if (SHM / name.lstrip("/")).exists()] == broker.names
    if command == "status":
        assert _cli("status", "--data-dir", str(broker.data_dir)).returncode == 3
    else:
        with Broker(tmp_path) as again:
            assert _answers(again.port())
    broker.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT])
def test_a_fault_resets_all_workers_and_listeners_stay_open(tmp_path, number):
    with Broker(tmp_path) as broker:
        before = {(row["role"], row["index"]): row["pid"] for row in broker.status()["processes"]}
        killed = broker.kill("handler", 0, number)
        with RawConnection(broker.port()) as connection:  # connecting is never refused
            assert connection.ask(api_versions(5)) or _answers(broker.port())
        broker.wait_restarted("handler", 0, killed)
        wait_until(
            lambda: (
                broker.status()["state"] == "running"
                and all(row["state"] == "running" for row in broker.status()["processes"])
            ),
            "all running again",
        )
        after = {(row["role"], row["index"]): row["pid"] for row in broker.status()["processes"]}
        assert {key for key in before if before[key] == after[key]} == {("supervisor", 0)}
        assert _answers(broker.port())


def test_five_resets_in_a_minute_end_the_broker(tmp_path):
    broker = Broker(tmp_path).start()
    for _ in range(4):
        pid = broker.kill("handler", 0, signal.SIGSEGV)
        broker.wait_restarted("handler", 0, pid)
        wait_until(lambda: broker.status()["state"] == "running", "running again")
    broker.kill("handler", 0, signal.SIGSEGV)
    assert broker.process.wait(10) == 1
    broker.assert_nothing_left()
    assert "too_many_resets" in broker.log()
    broker.stop(check=False)


def test_sighup_takes_on_what_may_change_and_says_what_may_not(tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text("max.connections.per.ip=100\n")
    with Broker(tmp_path, properties=properties) as broker:
        first = [RawConnection(broker.port()) for _ in range(3)]
        assert all(connection.ask(api_versions(1)) for connection in first)
        properties.write_text("max.connections.per.ip=3\nqueued.max.requests=7\n")
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: "reloaded" in broker.log(), "the reload")
        assert "changed=max.connections.per.ip" in broker.log() and "needs_restart=queued.max.requests" in broker.log()

        def refused():
            with RawConnection(broker.port()) as connection:
                try:
                    return connection.ask(api_versions(2)) is None
                except (BrokenPipeError, ConnectionResetError):
                    return True

        wait_until(refused, "the new limit")
        assert all(connection.ask(api_versions(3)) for connection in first)
        properties.write_text("max.connections.per.ip=many\n")
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: "reload_refused" in broker.log(), "the refusal")
        for connection in first:
            connection.close()
        wait_until(lambda: not refused(), "room for a new connection")


def test_a_broker_with_a_control_plane_serves_it_by_its_own_processor_and_handler(tmp_path):
    overrides = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
        "num.io.threads": 2,
        "control.plane.listener.name": "CONTROL",
        "num.network.threads": 1,
    }
    with Broker(
        tmp_path, overrides=overrides, listeners=["PLAINTEXT://127.0.0.1:0", "CONTROL://127.0.0.1:0"]
    ) as broker:
        assert _answers(broker.port(0)) and _answers(broker.port(1))
        rows = {(row["role"], row["index"]): row for row in broker.status()["processes"]}
        assert rows["processor", 0]["listener"] == "CONTROL" and rows["processor", 1]["listener"] == "PLAINTEXT"
        assert sum(role == "handler" for role, _ in rows) == 3
        assert {ring["name"]: ring["peak"] for ring in broker.status()["rings"]}["control"] >= 1


def test_the_control_planes_processes_leave_the_session_and_run_before_data_workers_where_permitted(tmp_path):
    overrides = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
        "control.plane.listener.name": "CONTROL",
        "num.network.threads": 1,
        "num.io.threads": 1,
    }
    with Broker(
        tmp_path, overrides=overrides, listeners=["PLAINTEXT://127.0.0.1:0", "CONTROL://127.0.0.1:0"]
    ) as broker:
        assert _answers(broker.port(1))
        rows = [row for row in broker.status()["processes"] if row["role"] in ("acceptor", "processor", "handler")]
        control = [
            row["pid"]
            for row in rows
            if row["listener"] == "CONTROL"
            or row["role"] == "acceptor"
            or (row["role"], row["index"]) == ("handler", 0)
        ]
        data = [row["pid"] for row in rows if row["pid"] not in control]
        assert len(control) == 3 and len(data) == 2
        assert all(os.getsid(pid) == pid for pid in control)
        assert {os.getsid(pid) for pid in data} == {os.getsid(broker.pid)}
        assert len({os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK for pid in control}) == 1
        assert all(os.sched_getscheduler(pid) == os.SCHED_OTHER for pid in data)
