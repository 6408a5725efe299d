"""What librdkafka writes twice under two epochs is told from what brokers do, by real segments and real traces."""

import struct

import pytest

from tests.cluster.chaos import anomalies_of, main
from tests.cluster.renumbered import Stamp, renumbered, stamps_of, wrong_refusals
from tests.harness.history import FINAL, OK, History, Read, Write
from tests.harness.raw_records import batch
from tests.unit.trace.traces import request, write_segment

REFUSED, GAP, OLD_EPOCH, UNKNOWN_PRODUCER, FAILED = 19, 45, 47, 59, -1
WRITER = "idempotent-0"


def history_of(*values):
    """One partition that ends with these records; each was acknowledged where it stands last."""
    history = History()
    for at, value in enumerate(values):
        history.writes = [one for one in history.writes if one.value != value]
        history.add(Write(value[0], "0", 0, value[1], 2 * at, 2 * at + 1, OK, at))
    records = tuple(enumerate(values))
    history.add(Read(FINAL, 0, 100, 101, len(values), records))
    return history


def placed(batches):
    """Bytes of a segment: each batch with its offset."""
    offset, data = 0, b""
    for values, producer in batches:
        data += struct.pack(">q", offset) + batch(values, producer=producer)[8:]
        offset += len(values)
    return data


def test_batches_have_the_stamp_of_their_producer(tmp_path):
    first, second = tmp_path / "00000000000000000000.log", tmp_path / "00000000000000000003.log"
    first.write_bytes(placed([([b"a", b"b"], (7, 0, 0)), ([b"c"], (-1, -1, -1))]))
    second.write_bytes(struct.pack(">q", 3) + batch([b"d"], producer=(7, 1, 0))[8:])
    assert stamps_of(tmp_path) == [Stamp(0, 1, 7, 0), Stamp(2, 2, -1, -1), Stamp(3, 3, 7, 1)]


@pytest.mark.parametrize(
    ("stamps", "by_the_client"),
    [
        ([Stamp(0, 0, 7, 0), Stamp(1, 2, 7, 1)], True),
        ([Stamp(0, 0, 7, 0), Stamp(1, 2, 7, 0)], False),
        ([Stamp(0, 0, 7, 1), Stamp(1, 2, 7, 0)], False),
        ([Stamp(0, 0, 7, 0), Stamp(1, 2, 8, 1)], False),
        ([Stamp(0, 0, -1, -1), Stamp(1, 2, -1, 0)], False),
        ([Stamp(0, 0, 7, 0)], False),
    ],
    ids=["a higher epoch", "the same epoch", "a lower epoch", "another producer", "no producer", "no batch"],
)
def test_only_a_higher_epoch_of_the_same_producer_is_the_clients(stamps, by_the_client):
    twice = (WRITER, 5)
    history = history_of(twice, twice, (WRITER, 6))
    again = renumbered(history, {0: stamps})
    assert again == ({(0, twice)} if by_the_client else set())
    assert [one.name for one in anomalies_of(history, again)] == ([] if by_the_client else ["duplicated"])


def test_what_stands_once_is_not_asked_for():
    history = history_of((WRITER, 5), (WRITER, 50))
    assert renumbered(history, {0: [Stamp(0, 0, 7, 0), Stamp(1, 1, 7, 1)]}) == set()


def test_another_that_stands_twice_is_not_excused_with_it():
    history = history_of((WRITER, 5), (WRITER, 5), (WRITER, 50), (WRITER, 50))
    found = anomalies_of(history, {(0, (WRITER, 5))})
    assert [one.detail for one in found] == [f"('{WRITER}', 50) at [2, 3]"]


def trace_of(directory, *errors):
    """Requests with these errors, and one to another API."""
    records = [request(number, error=error) for number, error in enumerate(errors)]
    directory.mkdir(parents=True, exist_ok=True)
    write_segment(directory, [*records, request(99, error=FAILED, api_key=3)])


def test_every_refusal_for_good_is_found_but_for_gaps(tmp_path):
    trace_of(tmp_path, 0, REFUSED, GAP, OLD_EPOCH, UNKNOWN_PRODUCER, FAILED)
    assert [one.detail for one in wrong_refusals(9, tmp_path)] == [
        "broker 9: request 3 was refused for good, error 47",
        "broker 9: request 4 was refused for good, error 59",
        "broker 9: request 5 was refused for good, error -1",
    ]


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_kept_run_is_looked_at_with_its_logs_and_traces(tmp_path, capsys, epoch, is_refused):
    log = tmp_path / "c" / "broker-1" / "chaos-0"
    log.mkdir(parents=True)
    (log / "00000000000000000000.log").write_bytes(placed([([b"a"], (7, 0, 0)), ([b"a", b"b"], (7, epoch, epoch))]))
    if is_refused:
        trace_of(tmp_path / "c" / "broker-3" / "traces", OLD_EPOCH)
    with (tmp_path / "history.jsonl").open("w") as file:
        history_of((WRITER, 5), (WRITER, 5), (WRITER, 6)).dump(file)
    code = main(["--again", str(tmp_path / "history.jsonl")])
    told = capsys.readouterr().out
    assert ("duplicated: 1" in told, "refused: 1" in told) == (epoch == 0, is_refused)
    assert code == (1 if epoch == 0 or is_refused else 0) == ("no anomaly" not in told)
