"""Log lines: one per event, and nothing a client sends can forge or colour one."""

import os

import pytest

from mpbroker.metrics.event_log import LINES_BURST, MAX_VALUE_CHARACTERS, EventLog, escape


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
