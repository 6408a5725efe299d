"""How `status` words ages, sizes and health."""

import time

import pytest

from mpbroker.cli import status_text
from mpbroker.supervisor.stacks import frames_of

FINDING = {
    "level": "hung",
    "process": "handler 1",
    "pid": 12,
    "since_ms": 0,
    "for_s": 75,
    "sentence": "has not moved: 2 requests waiting for it",
}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (93_784, "1 d 2 h"),
    ],
)
def test_ages_are_words(seconds, text):
    assert status_text.duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (10 << 30, "10.0 GiB")])
def test_sizes_have_units(count, text):
    assert status_text.byte_count(count) == text


def _found(*findings, state="hung"):
    return {
        "data_dir": "/d",
        "pid": 7,
        "uptime_s": 61,
        "processes": 8,
        "health": {"state": state, "findings": list(findings)},
    }


def test_one_line_names_the_process_and_since_when():
    moment = time.localtime(time.time() - 75)
    since_ms = time.mktime(moment) * 1000
    worst = FINDING | {"since_ms": since_ms}
    others = [FINDING | {"process": "handler 0"}, FINDING | {"process": "tracer 0"}, FINDING | {"process": "tracer 0"}]
    assert status_text.health(_found(worst, *others)) == (
        f"hung: handler 1 (pid 12), since {time.strftime('%H:%M:%S', moment)} (1 min 15 s): "
        "has not moved: 2 requests waiting for it; also: handler 0, tracer 0"
    )


def test_a_line_also_when_all_is_well():
    assert status_text.health(_found(state="ok")) == "ok: the broker on /d (pid 7), up 1 min 1 s, 8 processes"


def test_since_has_a_date_when_it_is_long_ago():
    moment = time.localtime(time.time() - 200_000)
    long_ago = FINDING | {"since_ms": time.mktime(moment) * 1000, "for_s": 200_000}
    assert f"since {time.strftime('%Y-%m-%d %H:%M', moment)} (2 d 7 h)" in status_text.health(_found(long_ago))


def test_stacks_are_shown_with_the_reason_where_there_is_none():
    one = {"role": "handler", "index": 0, "pid": 5, "doing": "working", "frames": ["File a", "File b"]}
    other = {"role": "tracer", "index": 0, "pid": 6, "doing": "in its wait `x`", "frames": [], "no_answer": "why"}
    assert status_text.stacks({"stacks": [one, other]}) == (
        "handler 0, pid 5, working\n    File a\n    File b\n\ntracer 0, pid 6, in its wait `x`\n    no answer: why"
    )


def test_frames_of_the_parent_are_left_out():
    text = (
        "Current thread 0x1 (most recent call first):\n"
        '  File "/x/mpbroker/log/log_keeper.py", line 49 in main\n'
        '  File "/x/mpbroker/supervisor/launch.py", line 100 in _child\n'
        '  File "/x/mpbroker/supervisor/supervisor.py", line 192 in _fork\n'
    )
    assert frames_of(text) == ('File "/x/mpbroker/log/log_keeper.py", line 49 in main',)
