"""`mpbroker top` beside a running broker: on a terminal that is a pty, once as text, and as JSON."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.broker import Broker, wait_until

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
ENTER_SCREEN, LEAVE_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """With a topic of ten records, of which a group has read four."""
    with Broker(tmp_path_factory.mktemp("top"), overrides=SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("seen", 1, 1)])["seen"].result(10)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for number in range(10):
            producer.produce("seen", b"%d" % number, partition=0)
        assert producer.flush(10) == 0
        settings = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": running.bootstrap, **settings})
        consumer.subscribe(["seen"])
        for _ in range(4):
            message = consumer.poll(20)
            assert message is not None and message.error() is None
        consumer.commit(message, asynchronous=False)
        yield running
        consumer.close()


def words(broker, *more):
    return [sys.executable, "-m", "mpbroker", "top", "--data-dir", str(broker.data_dir), *more]


def look(broker, *more, **env):
    done = subprocess.run(
        words(broker, *more), capture_output=True, text=True, timeout=30, env={**os.environ, **env}, check=True
    )
    assert not done.stderr
    return done.stdout


class Terminal:
    """`top` on a terminal of its own."""

    def __init__(self, broker, lines, columns):
        self.main, other = pty.openpty()
        self.resize(lines, columns)
        self.before = termios.tcgetattr(other)
        self.other = other
        env = {**os.environ, "TERM": "xterm", "LINES": "", "COLUMNS": ""}
        self.process = subprocess.Popen(
            words(broker, "--interval", "0.2"), stdin=other, stdout=other, stderr=subprocess.PIPE, env=env,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self.drawn = b""

    def resize(self, lines, columns):
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, what):
        def found():
            while select.select([self.main], [], [], 0.05)[0]:
                self.drawn += os.read(self.main, 65536)
            return what in self.drawn

        wait_until(found, f"{what!r} on the screen", 15)

    def close(self):
        self.process.kill()
        self.process.communicate()
        os.close(self.main)
        os.close(self.other)


@pytest.fixture
def terminal(broker):
    shown = Terminal(broker, 60, 120)
    yield shown
    shown.close()


def test_the_screen_shows_all_parts_and_q_ends_it(terminal):
    for part in (ENTER_SCREEN, b"processor 0", b"coordinator 0", b"requests/s", b"seen", b"readers"):
        terminal.read_until(part)
    os.write(terminal.main, b"q")
    terminal.read_until(LEAVE_SCREEN)
    assert terminal.process.wait(10) == 0
    assert termios.tcgetattr(terminal.other)[3] == terminal.before[3], "lines and echo are as they were"


def test_a_smaller_terminal_gets_a_smaller_screen(terminal):
    terminal.read_until(b"readers")
    terminal.resize(12, 60)
    terminal.drawn = b""
    terminal.read_until(b"more")
    terminal.drawn = b""
    time.sleep(0.5)
    terminal.read_until(b"mpbroker")
    last = terminal.drawn.rpartition(b"\x1b[H")[2]
    assert last.count(b"\n") < 12


def test_ctrl_c_ends_it_and_leaves_the_terminal_as_it_was(terminal):
    terminal.read_until(b"readers")
    os.killpg(terminal.process.pid, signal.SIGINT)
    terminal.read_until(LEAVE_SCREEN)
    assert terminal.process.wait(10) == 130


def test_one_look_as_text_on_a_dumb_terminal(broker):

    def lines_with_group():  # a look at the groups that takes too long is left out
        told = look(broker, "--once", "--interval", "0.1", TERM="dumb")
        assert "\x1b" not in told
        lines = [line.split() for line in told.splitlines()]
        return lines if ["readers", "1", "1", "1", "6"] in lines else None

    lines = wait_until(lines_with_group, "the group", 20)
    assert any(line[:2] == ["seen", "1"] for line in lines)


def test_one_look_as_json_has_rates_and_lag(broker):

    def whole():  # a look at the groups that takes too long says so
        found = json.loads(look(broker, "--json", "--interval", "0.5"))
        return found if found["groups_complete"] else None

    found = wait_until(whole, "a complete look at the groups", 20)
    assert found["schema"] == 1
    assert [(one["name"], one["members"], one["lag"]) for one in found["groups"]] == [("readers", 1, 6)]
    assert {(one["role"], one["index"]) for one in found["processes"]} >= {("handler", 1), ("admin", 0)}
    assert found["broker"]["pid"] == broker.pid and found["broker"]["requests_per_s"] > 0
    assert {one["name"] for one in found["topics"]} == {"seen", "__consumer_offsets"}


def test_a_transaction_that_is_open(broker):
    """Last of those that share the broker: it makes a topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("open", 1, 1)])["open"].result(10)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "top"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in range(3):
        producer.produce("open", b"%d" % number)
    assert producer.flush(10) == 0
    told = json.loads(look(broker, "--json", "--interval", "0.1"))["transactions"]
    assert (told["ongoing"], told["lso_lag"]) == (1, 3) and 0 <= told["oldest_s"] < 60
    assert told["topics"] == [{"name": "open", "partitions": 1, "ongoing": 1, "lso_lag": 3}]
    assert "open transactions, the oldest for" in look(broker, "--once", "--interval", "0.1", TERM="dumb")
    producer.commit_transaction(20)

    def ongoing():
        return json.loads(look(broker, "--json", "--interval", "0.1"))["transactions"]["ongoing"]

    wait_until(lambda: ongoing() == 0, "the markers, which are written after the answer", 30)


def test_a_broker_that_ends_ends_the_screen_with_a_sentence(tmp_path):
    with Broker(tmp_path) as broker:
        terminal = Terminal(broker, 40, 100)
        terminal.read_until(b"processor 0")
    try:
        terminal.read_until(LEAVE_SCREEN)
        assert terminal.process.wait(10) == 3
        assert b"no broker runs on data directory" in terminal.process.stderr.read()
    finally:
        terminal.close()


def test_trace_top_and_the_admin_page_show_the_stages_of_what_was_just_asked(broker):
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    producer.produce("asked", b"x", partition=0)  # which makes it
    assert producer.flush(20) == 0
    command = [sys.executable, "-m", "mpbroker", "trace", "top", "--json", "--data-dir", str(broker.data_dir)]
    _latency(broker)  # samples begin
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        sent = 0
        while running.poll() is None:
            producer.produce("asked", b"x", partition=0)
            assert producer.flush(10) == 0
            sent += 1
        found = json.loads(running.stdout.read())
    row = next(row for row in found["apis"] if row["api"] == "Produce")
    assert 0 < row["requests"] <= sent and row["errors"] == 0 and 1.9 <= found["seconds"] < 30
    assert 0 < row["stages_ms"]["local"]["p50"] <= row["stages_ms"]["total"]["p99"]
    # A record is written when the answer has been sent: the last one may come behind this look, the first behind the
    # one before.
    wait_until(lambda: sent <= _produced(broker) <= sent + 1, "every request on the page")
    with urllib.request.urlopen(broker.ready["admin"] + "/") as answer:
        assert "Produce" in answer.read().decode()


def _produced(broker):
    return next(row for row in _latency(broker)["apis"] if row["api"] == "Produce")["requests"]


def _latency(broker):
    with urllib.request.urlopen(broker.ready["admin"] + "/latency") as answer:
        return json.loads(answer.read())
