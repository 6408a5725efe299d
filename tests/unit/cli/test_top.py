"""What `top` makes of two looks, how it shares out a screen, and what it says without a terminal or without rich."""

import io

import pytest
from rich.console import Console

from mpbroker.admin.group_families import GroupLook
from mpbroker.cli import extras, top, top_screen
from mpbroker.cli.main import main
from mpbroker.cli.top_rates import document
from mpbroker.cli.top_sample import Sample
from mpbroker.shm.partition_metrics import PartitionMetrics
from mpbroker.shm.request_metrics import STAGES, UPPER_ENDS_S, ApiMetrics, Histogram

PRODUCE, FETCH = 0, 1


def status(pid=7, **more):
    row = {"role": "handler", "index": 0, "pid": pid, "state": "running", "wait": "request", "request": None}
    return {
        "pid": pid, "started_ms": 1, "version": "1", "node_id": 0, "data_dir": "/d", "state": "running", "uptime_s": 5,
        "listeners": [], "admin": None, "health": {"state": "ok", "findings": []}, "rings": [],
        "processes": [row | {"restarts": 0}],
    } | more  # fmt: skip


def durations(bucket, count):
    counts = [0] * (len(UPPER_ENDS_S) + 1)
    counts[bucket] = count
    return Histogram(tuple(counts), count * UPPER_ENDS_S[bucket])


def api(key, count, bucket=3, errors=None):
    return ApiMetrics(key, {7: count}, 0, 0, errors or {}, 0, {name: durations(bucket, count) for name in STAGES})


def partition(number, records, high=100, read=0, size=1000):
    return PartitionMetrics(0, number, True, 0, high, high, size, 1, 10 * records, records, read)


def sample(taken_s, apis=(), partitions=None, used_s=0.0, look=None, **more):
    found = status(**more)
    pids = [row["pid"] for row in found["processes"]]
    looked = look or GroupLook()
    return Sample(taken_s, found, dict.fromkeys(pids, used_s), {}, list(apis), partitions or {}, looked)


def test_rates_are_those_between_the_looks():
    before = sample(10.0, [api(PRODUCE, 100)], {"t": [partition(0, 5), partition(1, 0)]}, used_s=3.0)
    now = sample(12.0, [api(PRODUCE, 300), api(FETCH, 2)], {"t": [partition(0, 45), partition(1, 2)]}, used_s=4.0)
    found = document(before, now)
    assert [(one["api"], one["per_s"]) for one in found["apis"]] == [("Produce", 100.0), ("Fetch", 1.0)]
    [topic] = found["topics"]
    assert (topic["records_in_per_s"], topic["bytes_in_per_s"], topic["partitions"]) == (21.0, 210.0, 2)
    assert found["processes"][0]["cpu_percent"] == 50.0
    assert found["broker"]["requests_per_s"] == 101.0


def test_latency_is_that_of_the_requests_since_the_last_look():
    before = sample(0.0, [api(PRODUCE, 1000, bucket=2)])
    slow = durations(10, 100)
    counts = [a + b for a, b in zip(durations(2, 1000).counts, slow.counts, strict=True)]
    mixed = Histogram(tuple(counts), slow.sum_s + durations(2, 1000).sum_s)
    now = sample(1.0, [api(PRODUCE, 1100)._replace(stages=dict.fromkeys(STAGES, mixed))])
    [row] = document(before, now)["apis"]
    assert UPPER_ENDS_S[9] * 1e3 < row["p50_ms"] <= UPPER_ENDS_S[10] * 1e3
    assert row["stage_mean_ms"]["queue"] == pytest.approx(UPPER_ENDS_S[10] * 1e3, abs=1e-3)


def test_errors_are_named():
    before, now = sample(0.0, [api(PRODUCE, 10, errors={3: 1})]), sample(1.0, [api(PRODUCE, 20, errors={3: 5})])
    [row] = document(before, now)["apis"]
    assert row["errors"] == {"UNKNOWN_TOPIC_OR_PARTITION": 4} and row["errors_per_s"] == 4.0


def test_a_broker_that_was_started_again_counts_from_nothing():
    before, now = sample(0.0, [api(PRODUCE, 1000)]), sample(1.0, [api(PRODUCE, 30)], pid=8)
    assert document(before, now)["broker"]["requests_per_s"] == 30.0


def test_groups_stand_by_their_lag():
    look = GroupLook()
    look.add({"near": 1, "far": 2}, {"near": {("t", 0): 99}, "far": {("t", 0): 10, ("t", 1): 40, ("gone", 0): 1}})
    found = document(sample(0.0), sample(1.0, partitions={"t": [partition(0, 0), partition(1, 0)]}, look=look))
    groups = [(one["name"], one["lag"], one["partitions"]) for one in found["groups"]]
    assert groups == [
        ("far", 150, 2),
        ("near", 1, 1),
    ]


@pytest.mark.parametrize(
    ("wanted", "height", "shown"),
    [
        ([3, 2], 100, [3, 2]),
        ([30, 2], 14, [3, 2]),  # 4 + 2 × 2 + 3 + 2 and one line that says what is missing
        ([30, 30], 14, [2, 2]),
        ([1, 1, 1], 10, [1, 1]),
        ([5], 3, []),
    ],
)
def test_a_screen_is_shared_out(wanted, height, shown):
    assert top_screen.share_out(wanted, height) == shown


@pytest.mark.parametrize("height", [3, 12, 24, 50])
def test_no_screen_is_too_long(height):
    topics = {f"topic-{number}": [partition(0, number)] for number in range(40)}
    found = document(sample(0.0), sample(1.0, [api(key, 5) for key in range(12)], topics))
    console = Console(file=io.StringIO(), width=80, height=height)
    console.print(top_screen.draw(found, height))
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= height and all(len(line) <= 80 for line in lines)
    assert any("more" in line for line in lines) == (height >= 12)


def test_without_a_terminal_it_says_what_to_do(capsys, monkeypatch):
    monkeypatch.setattr(top.sys, "stdin", io.StringIO())
    assert main(["top"]) == 2
    assert capsys.readouterr().err == ("mpbroker: top draws on a terminal, and here is none: use --once or --json\n")


def test_without_rich_it_names_the_extra(capsys, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert main(["top", "--once"]) == 2
    assert "pip install 'mpbroker[top]'" in capsys.readouterr().err


@pytest.mark.parametrize("interval", ["0", "x", "nan", "4000"])
def test_intervals_have_bounds(interval, capsys):
    assert main(["top", "--once", "--interval", interval]) == 2
    assert "--interval" in capsys.readouterr().err


def drawn(found):
    console = Console(file=io.StringIO(), width=100, height=40)
    console.print(top_screen.draw(found, 40))
    return console.file.getvalue()


def test_transactions_that_are_open_and_what_they_hold_back():
    held = partition(0, 5)._replace(last_stable=60, open_transactions=2)
    quiet = partition(1, 5)._replace(last_stable=100)
    now = sample(1.0, partitions={"t": [held, quiet], "u": [quiet]})._replace(oldest_transaction_s=75.04)
    found = document(sample(0.0), now)
    topics = [{"name": "t", "partitions": 1, "ongoing": 2, "lso_lag": 40}]
    assert found["transactions"] == {"ongoing": 2, "lso_lag": 40, "oldest_s": 75.0, "topics": topics}
    assert "open transactions, the oldest for 1 min 15 s" in drawn(found)
    assert "open transactions" not in drawn(document(sample(0.0), sample(1.0, partitions={"u": [quiet]})))
