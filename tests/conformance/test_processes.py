"""Who does what: roles and their numbers, whose the sockets are, who waits where. A real broker, seen from outside."""

import os
import re
import time
from collections import Counter, defaultdict

from mpbroker.shm.page_view import PageView
from mpbroker.supervisor.status_file import read_status_file
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer
from tests.harness.raw_client import RawConnection, api_versions

IDLE_S = 2.0
MAX_IDLE_WAKES = 120  # of one process in that time: polls of 300 ms, the tracer's rounds, and room for both


def _rows(broker) -> dict[tuple[str, int], dict]:
    return {(row["role"], row["index"]): row for row in broker.status()["processes"]}


def _descriptors(pid: int) -> list[str]:
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            continue
    return found


def _connections(port: int) -> set[str]:
    """Socket inodes of the broker's side of established connections to a port, as /proc/PID/fd names them."""
    with open("/proc/net/tcp") as table:
        lines = [line.split() for line in list(table)[1:]]
    return {f"socket:[{fields[9]}]" for fields in lines if fields[1].endswith(f":{port:04X}") and fields[3] == "01"}


def _owners(broker, port: int) -> dict[str, list[tuple[str, int]]]:
    """Connection → the processes that hold it."""
    wanted, owners = _connections(port), defaultdict(list)
    for key, row in _rows(broker).items():
        for descriptor in wanted & set(_descriptors(row["pid"])):
            owners[descriptor].append(key)
    assert set(owners) == wanted
    return owners


def test_one_acceptor_and_each_listeners_number_of_processors(broker):
    rows = _rows(broker)
    assert [row["listener"] for (role, _), row in rows.items() if role == "acceptor"] == [None], "it serves all"
    processors = Counter(row["listener"] for (role, _), row in rows.items() if role == "processor")
    assert processors == {"PLAINTEXT": 2, "EXTERNAL": 1, "CONTROL": 1}
    assert rows["processor", 0]["listener"] == "CONTROL"
    assert sum(role == "handler" for role, _ in rows) == 2 + 1, "num.io.threads, and one for the control plane"


def test_a_connection_belongs_to_one_processor_of_its_listener_and_to_nobody_else(broker):
    for number, listener in enumerate(("PLAINTEXT", "EXTERNAL", "CONTROL")):
        port = broker.port(number)
        connections = [Peer(port) for _ in range(4)]
        assert all(connection.answers() for connection in connections)
        rows, owners = _rows(broker), _owners(broker, port)
        assert len(owners) >= 4
        for holders in owners.values():
            assert [rows[key]["listener"] for key in holders if key[0] == "processor"] == [listener]
            assert len(holders) == 1
        for connection in connections:
            connection.socket.close()


def test_connections_go_to_the_processors_in_turn(broker):
    port = broker.port()
    wait_until(lambda: not _connections(port), "other connections to go")
    connections = [Peer(port) for _ in range(10)]
    assert all(connection.answers() for connection in connections)
    per_processor = Counter(holders[0] for holders in _owners(broker, port).values())
    assert sorted(per_processor.values()) == [5, 5]
    for connection in connections:
        connection.socket.close()


def test_every_process_waits_where_its_role_waits(broker):
    def names():
        return {key: row["wait"] for key, row in _rows(broker).items()}

    expected = {
        "acceptor": {"accept"},
        "processor": {"epoll"},
        "handler": {"request", "control-request"},
        "controller": {"command", "service"},
        "supervisor": {"supervise"},
    }

    def idle():
        waits = names()
        return all(wait in expected[role] for (role, _), wait in waits.items() if role in expected)

    wait_until(idle, f"everybody to wait; last seen: {names()}")
    reserved = [wait for (role, _), wait in names().items() if role == "handler"]
    assert reserved.count("control-request") == 1


def test_an_idle_broker_sleeps(tmp_path):
    """A broker of its own: the others' requests, and the log keeper's first round after half a minute, wake many."""
    with Broker(tmp_path, overrides={"log.initial.task.delay.ms": 600_000}) as broker:
        with Peer(broker.port()) as peer:
            assert peer.answers()
        _assert_sleeps(broker)


def _assert_sleeps(broker):
    def wakes() -> dict[int, int]:
        counts = {}
        for pid in broker.processes():
            with open(f"/proc/{pid}/status") as status:
                counts[pid] = int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read(), re.MULTILINE)[1])
        return counts

    before = wakes()
    time.sleep(IDLE_S)
    after = wakes()
    busy = {
        broker.processes().get(pid): after[pid] - before[pid]
        for pid in before
        if pid in after and after[pid] - before[pid] > MAX_IDLE_WAKES
    }
    assert not busy


def test_idle_and_busy_time_are_counted_and_go_on_over_a_restart(broker):
    def times() -> dict[tuple[str, int], tuple[int, int]]:
        page = PageView(read_status_file(str(broker.data_dir)).page)
        try:
            roles = {row["slot"]: (row["role"], row["index"]) for row in broker.status()["processes"]}
            return {
                roles[each.slot]: (each.busy_ns, each.idle_ns)
                for each in page.processes()
                if each.slot in roles and roles[each.slot][0] in ("processor", "handler")
            }
        finally:
            page.close()

    def served(number: int):
        with RawConnection(broker.port(number)) as connection:
            assert connection.ask(api_versions(1))

    for number in range(3):
        served(number)
    before = wait_until(lambda: all(busy and idle for busy, idle in times().values()) and times(), "everybody to sleep")
    broker.wait_restarted("handler", 0, broker.kill("handler", 0))
    wait_until(
        lambda: all(busy >= before[key][0] and idle > before[key][1] for key, (busy, idle) in times().items()),
        "idle time to go on from where it was",
    )


def test_a_processor_has_one_epoll_object_and_a_handler_none(broker):
    for (role, index), row in _rows(broker).items():
        epolls = sum(target == "anon_inode:[eventpoll]" for target in _descriptors(row["pid"]))
        if role in ("processor", "handler"):
            assert epolls == (1 if role == "processor" else 0), (role, index)


def test_rings_have_kafkas_bounds_and_count_their_depth(broker):
    with RawConnection(broker.port()) as data, RawConnection(broker.port(2)) as control:
        assert data.ask(api_versions(1)) and control.ask(api_versions(2))
    rings = {ring["name"]: ring for ring in broker.status()["rings"]}
    assert rings["data"]["capacity"] == 500 and rings["control"]["capacity"] == 20
    assert rings["data"]["peak"] >= 1 and rings["control"]["peak"] >= 1
    assert rings["data"]["depth"] == rings["control"]["depth"] == 0
    responses = [ring for name, ring in rings.items() if name.startswith("response-")]
    assert len(responses) == 4, "one for each processor"
    assert all(ring["capacity"] >= 4096 for ring in responses), "room for every entry of the processor"
    assert sum(ring["peak"] >= 1 for ring in responses) >= 2
