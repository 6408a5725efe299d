"""Log lines: one per event, and nothing a client sends can forge or colour one."""

import builtins
import errno
import json
import os
import threading
from types import SimpleNamespace

import pytest

from mpbroker.metrics.event_log import LEVELS, MAX_LINE_BYTES, MAX_VALUE_CHARACTERS, EventLog, escape
from mpbroker.metrics.line_limits import LINES_BURST


@pytest.fixture
def pipe():
    read, write = os.pipe2(os.O_NONBLOCK)
    yield read, write
    os.close(read)
    os.close(write)


def test_a_line_has_time_level_process_event_and_fields(pipe):
    EventLog("handler-1", pipe[1]).info("started", port=9092, host="a b")
    words = os.read(pipe[0], 1000).decode().rstrip("\n").split(" ", 4)
    assert words[1:4] == ["INFO", "handler-1", "started"] and words[4] == 'port=9092 host="a b"'
    assert words[0].endswith("Z")


@pytest.mark.parametrize("value", ["a\nb", "\x1b[31mred", 'say "x"', "tab\t", "é", "\x00", "a=b"])
def test_values_cannot_break_out(value):
    text = escape(value)
    assert text.isascii() and text.isprintable() and text.startswith('"') and text.endswith('"')
    assert '"' not in text[1:-1].replace('\\"', "")


def test_long_values_are_cut():
    assert len(escape("x" * 10_000)) <= MAX_VALUE_CHARACTERS + 10


def test_a_flood_is_counted_instead_of_written(pipe):
    log = EventLog("p", pipe[1])
    for _ in range(LINES_BURST + 500):
        log.warning("again")
    lines = os.read(pipe[0], 1 << 20).count(b"\n")
    assert LINES_BURST <= lines < LINES_BURST + 100


def test_a_closed_stderr_stops_nobody():
    read, write = os.pipe()
    os.close(read)
    EventLog("p", write).error("nobody reads")
    os.close(write)


def test_an_exception_names_type_and_place(pipe):
    try:
        int("x")
    except ValueError as error:
        EventLog("p", pipe[1]).exception("failed", error)
    line = os.read(pipe[0], 4000).decode()
    assert "exception=ValueError" in line and "test_event_log.py" in line


def test_an_exception_is_told_where_nothing_can_be_imported(pipe, monkeypatch):
    """As without a descriptor: the innermost places, innermost first."""

    def fall(depth):
        return fall(depth - 1) if depth else int("x")

    def no_descriptor(*_, **__):
        raise OSError(errno.EMFILE, "no")

    with pytest.raises(ValueError, match="x") as raised:
        fall(9)
    first = fall.__code__.co_firstlineno + 1
    monkeypatch.setattr(builtins, "__import__", no_descriptor)
    EventLog("p", pipe[1]).exception("failed", raised.value)
    monkeypatch.undo()
    at = " < ".join([f"test_event_log.py:{first}:fall"] * 4)
    assert f'at="{at}"' in os.read(pipe[0], 4000).decode()


def lines_of(pipe):
    try:
        return os.read(pipe[0], 1 << 20).decode().splitlines()
    except BlockingIOError:
        return []


@pytest.mark.parametrize("level", LEVELS)
def test_lines_below_the_level_are_not_written(pipe, level):
    log = EventLog("p", pipe[1], level)
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    wanted = [name for name in ("DEBUG", "INFO", "WARN", "ERROR") if LEVELS[name] >= LEVELS[level]]
    assert [line.split()[1] for line in lines_of(pipe)] == wanted


def test_a_json_line_is_an_object_with_the_same_fields(pipe):
    EventLog("handler-1", pipe[1], as_json=True).warning(
        "refused", "peer", peer="a\nb", bytes=5, ok=True, why=OSError(28, "x")
    )
    (line,) = lines_of(pipe)
    found = json.loads(line)
    assert list(found) == ["ts", "level", "process", "pid", "event", "fields"]
    assert (found["level"], found["process"], found["pid"], found["event"]) == (
        "WARN",
        "handler-1",
        os.getpid(),
        "refused",
    )
    assert found["fields"] == {"peer": "a\nb", "bytes": 5, "ok": True, "why": "[Errno 28] x"}


def test_a_json_line_that_is_too_long_loses_fields_and_says_so(pipe):
    fields = {f"f{number}": "\u20ac" * 1000 for number in range(20)}
    EventLog("p", pipe[1], as_json=True).info("long", **fields)
    (line,) = lines_of(pipe)
    assert len(line) <= MAX_LINE_BYTES
    told = json.loads(line)["fields"]
    assert told.pop("truncated") is True and 0 < len(told) < 20


def test_level_and_format_come_from_the_configuration_and_may_change(pipe):
    log = EventLog("p", pipe[1])
    log.use_config(SimpleNamespace(mpbroker_log_level="ERROR", mpbroker_log_format="json"))
    log.warning("not written")
    log.error("written")
    (line,) = lines_of(pipe)
    assert json.loads(line)["event"] == "written"


def test_lines_about_one_peer_are_counted_and_said_when_the_flood_is_over(pipe, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    log = EventLog("p", pipe[1])
    for _ in range(1000):
        log.warning("refused", "10.0.0.1", peer="10.0.0.1")
    log.warning("refused", "10.0.0.2", peer="10.0.0.2")
    log.tick()
    assert [line.split(" ", 3)[3] for line in lines_of(pipe)] == ["refused peer=10.0.0.1", "refused peer=10.0.0.2"]
    now[0] += 10
    log.warning("refused", "10.0.0.1", peer="10.0.0.1")
    assert lines_of(pipe)[0].endswith("refused peer=10.0.0.1 suppressed=999")
    log.warning("refused", "10.0.0.1", peer="10.0.0.1")
    now[0] += 10
    log.tick()
    log.tick()
    assert [line.split(" ", 1)[1] for line in lines_of(pipe)] == ["WARN p refused about=10.0.0.1 suppressed=1"]


def test_threads_count_one_after_the_other(pipe):
    """A line of one that came while another counts waits, and the same thread's, from a signal handler, does not."""
    log, inner = EventLog("p", pipe[1]), []
    allow = log._limits.allow

    def slow(*words):
        if not inner:
            inner.append(threading.Thread(target=log.info, args=("other",)))
            inner[0].start()
            log.info("from_a_handler")
            inner[0].join(0.05)
            assert inner[0].is_alive(), "it waits"
        return allow(*words)

    log._limits.allow = slow
    log.info("first")
    inner[0].join(10)
    events = [line.split()[3] for line in os.read(pipe[0], 1 << 20).decode().splitlines()]
    assert sorted(events) == ["first", "from_a_handler", "other"] and events[0] == "from_a_handler"
