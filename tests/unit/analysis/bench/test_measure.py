"""From a client log to a row of the table."""

from array import array

import pytest

from mpbroker.analysis.bench import bench_run, workloads
from mpbroker.analysis.bench.measure import _percentile, _row
from mpbroker.analysis.bench.process_tree import Usage
from mpbroker.analysis.bench.table import table
from mpbroker.analysis.lab.client_log import LogFile
from mpbroker.errors import MpbrokerError

MS = 1_000_000


def _log(rows):
    """rows: (error, intended, sent, arrived) in ms; read 1 ms after they arrived."""
    names = ("error", "intended_ns", "sent_ns", "arrived_ns")
    columns = {
        name: array(
            "h" if name == "error" else "q", [row[n] if name == "error" or row[n] < 0 else row[n] * MS for row in rows]
        )
        for n, name in enumerate(names)
    }
    columns["done_ns"] = array("q", [at if at < 0 else at + MS for at in columns["arrived_ns"]])
    return LogFile({}, columns)


def test_a_closed_load_counts_from_the_send():
    row = _row(workloads.W3, _log([(0, 0, 0, 1), (0, 1, 1, 3), (0, 3, 3, 4), (0, 4, 4, 10)]), 4000, Usage(80, 20))
    assert (row.requests, row.errors, row.seconds) == (4, 0, 0.01)
    assert row.requests_per_s == 400 and row.records_per_s == 400
    assert (row.p50_us, row.p99_us, row.max_us) == (1000, 6000, 6000)
    assert (row.client_cpu_us, row.broker_cpu_us, row.broker_user_us, row.broker_system_us) == (1000, 25, 20, 5)


def test_an_open_load_counts_from_the_intended_time():
    row = _row(workloads.W4, _log([(0, 0, 0, 1), (0, 1, 8, 9)]), 0, None)
    assert row.max_us == 8000 and row.broker_cpu_us is None


def test_refused_and_unanswered_requests_are_errors():
    assert _row(workloads.W3, _log([(3, 0, 0, 1), (0, 0, 0, 1), (0, 0, 0, -1)]), 0, None).errors == 2
    with pytest.raises(MpbrokerError, match="answered no request"):
        _row(workloads.W3, _log([(0, 0, 0, -1)]), 0, None)


def test_what_was_never_sent_is_no_error_of_the_broker_and_is_said():
    row = _row(workloads.W4, _log([(0, 0, 0, 1), (0, 1, 1, -1), (0, 2, -1, -1), (0, 3, -1, -1)]), 0, None)
    assert (row.requests, row.errors, row.unsent) == (1, 1, 2)
    (note,) = bench_run._of_what_was_not_sent(row)
    assert note.startswith("W4: 2 of 4 requests were due and never sent")
    assert bench_run._of_what_was_not_sent(row._replace(unsent=0)) == []


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(1, 0.5, 1), (100, 0.5, 50), (100, 0.99, 99), (101, 0.99, 100)]
)
def test_percentile(count, share, expected):
    assert _percentile(list(range(1, count + 1)), share) == expected


def test_the_table_shows_what_is_not_known():
    row = _row(workloads.W4, _log([(0, 0, 0, 1), (0, 1, 8, 9)]), 0, None)
    head, line = table([("W4", row)], "somebody's").splitlines()
    assert head.startswith("somebody's") and line.split()[4:7] == ["n/a"] * 3 and len(head) == len(line)


def test_names_of_workloads():
    assert bench_run.chosen("w1, W3") == ["W1", "W3"]
    with pytest.raises(bench_run.UnknownWorkload, match="W9"):
        bench_run.chosen("W1,W9")


def test_columns_that_do_not_explain_themselves_are_explained_below_the_table():
    machine = {"cpu": "a cpu", "cores": 2, "kernel": "6.1", "python": "3.11", "load_average": 0.5}
    row = _row(workloads.W3, _log([(0, 0, 0, 1), (0, 1, 1, 3)]), 4000, Usage(80, 20))._asdict()
    shown = bench_run.text({"machine": machine, "broker": "mpbroker", "workloads": [row], "sweep": [], "notes": []})
    assert "\nCPU µs: processor time of the broker's whole process tree for one request" in shown
    assert "\nclient µs: the same of the load generator" in shown and shown.index("p99 ms") < shown.index("client µs:")
