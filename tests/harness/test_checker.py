"""The checker finds every kind of anomaly, each planted alone in a clean history, under its own name."""

import io
import random

import pytest

from tests.harness.checker import check, longest_gap_ms, summary
from tests.harness.history import CORRUPT, FAILED, FINAL, OK, UNKNOWN, History, Read, Write, load, payload, value_of

CLIENTS, PER_CLIENT, PARTITIONS, CHUNK = 4, 60, 2, 7


def clean() -> History:
    """Four producers interleaved over two partitions, a reader that follows, a final drain. Every eleventh is
    unknown."""
    history, logs, now = History(), {partition: [] for partition in range(PARTITIONS)}, 1000
    rng = random.Random(7)
    for counter in range(PER_CLIENT):
        for number in range(CLIENTS):
            client, partition = f"c{number}", rng.randrange(PARTITIONS)
            start_ns, now = now, now + 10
            log, unknown = logs[partition], (counter * CLIENTS + number) % 11 == 10
            appended = not unknown or rng.random() < 0.5
            offset = len(log) if appended else -1
            if appended:
                log.append((offset, (client, counter)))
            history.add(
                Write(
                    client,
                    "s0",
                    partition,
                    counter,
                    start_ns,
                    now,
                    UNKNOWN if unknown else OK,
                    -1 if unknown else offset,
                )
            )
            now += 1
    for session in ("reader", FINAL):
        for partition, log in logs.items():
            for first in range(0, len(log), CHUNK):
                end = min(len(log), first + CHUNK)
                history.add(Read(session, partition, now, now + 1, end, tuple(log[first:end]), leader_epoch=3))
                now += 2
    return history


def _reads(history, session):
    return [index for index, read in enumerate(history.reads) if read.session == session and read.partition == 0]


def _replace_records(history, index, change, **fields):
    read = history.reads[index]
    history.reads[index] = read._replace(records=tuple(change(list(read.records))), **fields)


def _acknowledged(history, partition=0):
    return [index for index, write in enumerate(history.writes) if write.result == OK and write.partition == partition]


def _everywhere(history, offset, change):
    """Apply `change` to the records of all reads that hold `offset` of partition 0."""
    for index, read in enumerate(history.reads):
        if read.partition == 0 and any(at == offset for at, _ in read.records):
            _replace_records(history, index, change)


def lost(history):
    write = history.writes[_acknowledged(history)[5]]
    other = next(
        one
        for one in history.writes
        if one.result == UNKNOWN
        and one.partition == 0
        and not any(one.value == value for read in history.reads for _, value in read.records)
    )
    _everywhere(
        history,
        write.offset,
        lambda records: [(offset, other.value if offset == write.offset else value) for offset, value in records],
    )


def unseen(history):
    index = _acknowledged(history)[-1]
    write = history.writes[index]
    for place in (_reads(history, FINAL)[-1], _reads(history, "reader")[-1]):
        _replace_records(history, place, lambda records: [one for one in records if one[0] < write.offset])


def moved(history):
    index = _acknowledged(history)[5]
    end = sum(len(history.reads[place].records) for place in _reads(history, FINAL))
    history.writes[index] = history.writes[index]._replace(offset=end + 5)


def conflicting_acks(history):
    first, second = _acknowledged(history)[3:5]
    history.writes[second] = history.writes[second]._replace(offset=history.writes[first].offset)


def conflicting_reads(history):
    _replace_records(
        history, _reads(history, "reader")[1], lambda records: [(records[0][0], records[1][1]), *records[1:]]
    )


def corrupt(history):
    _replace_records(history, _reads(history, FINAL)[1], lambda records: [(records[0][0], CORRUPT), *records[1:]])


def phantom(history):
    for session in ("reader", FINAL):
        index = _reads(history, session)[-1]
        _replace_records(
            history,
            index,
            lambda records: [*records, (records[-1][0] + 1, ("nobody", 1))],
            high_watermark=history.reads[index].high_watermark + 1,
        )


def aborted_read(history):
    index = _acknowledged(history)[5]
    history.writes[index] = history.writes[index]._replace(result=FAILED, offset=-1)


def wrong_partition(history):
    index = _acknowledged(history)[5]
    history.writes[index] = history.writes[index]._replace(partition=1, result=UNKNOWN, offset=-1)


def duplicated(history):
    value = history.writes[_acknowledged(history)[5]].value
    for session in ("reader", FINAL):
        index = _reads(history, session)[-1]
        _replace_records(
            history,
            index,
            lambda records: [*records, (records[-1][0] + 1, value)],
            high_watermark=history.reads[index].high_watermark + 1,
        )


def hole(history):
    for session in ("reader", FINAL):
        for index in _reads(history, session)[3:]:
            _replace_records(
                history,
                index,
                lambda records: [(offset + 1, value) for offset, value in records],
                high_watermark=history.reads[index].high_watermark + 1,
            )


def real_time_order(history):
    first, second = _acknowledged(history)[3:5]
    early, late = history.writes[first], history.writes[second]
    history.writes[first] = early._replace(start_ns=late.start_ns, end_ns=late.end_ns)
    history.writes[second] = late._replace(start_ns=early.start_ns, end_ns=early.end_ns)


def reordered(history):
    mine = [index for index in _acknowledged(history) if history.writes[index].client == "c1"]
    first, second = (history.writes[index] for index in mine[3:5])
    swap = {first.value: second.value, second.value: first.value}
    for offset in (first.offset, second.offset):
        _everywhere(
            history,
            offset,
            lambda records, offset=offset: [
                (at, swap.get(value, value) if at == offset else value) for at, value in records
            ],
        )


def non_monotonic_poll(history):
    index = _reads(history, "reader")[2]
    _replace_records(history, index, lambda records: [records[1], records[0], *records[2:]])


def skipped(history):
    _replace_records(history, _reads(history, "reader")[2], lambda records: [records[0], *records[2:]])


def beyond_high_watermark(history):
    _replace_records(
        history,
        _reads(history, "reader")[2],
        list,
        high_watermark=history.reads[_reads(history, "reader")[2]].high_watermark - 1,
    )


def high_watermark_regress(history):
    index = _reads(history, "reader")[1]
    _replace_records(history, index, list, high_watermark=1000)


def leader_epoch_regress(history):
    _replace_records(history, _reads(history, "reader")[2], list, leader_epoch=2)


def vanished(history):
    last = _reads(history, FINAL)[-1]
    lost_ones = {offset for offset, _ in history.reads[last].records}
    del history.reads[last]
    for index, write in enumerate(history.writes):
        if write.partition == 0 and write.offset in lost_ones:
            history.writes[index] = write._replace(result=UNKNOWN, offset=-1)


PLANTED = [
    lost,
    unseen,
    moved,
    conflicting_acks,
    conflicting_reads,
    corrupt,
    phantom,
    aborted_read,
    wrong_partition,
    duplicated,
    hole,
    real_time_order,
    reordered,
    non_monotonic_poll,
    skipped,
    beyond_high_watermark,
    high_watermark_regress,
    leader_epoch_regress,
    vanished,
]


def test_a_clean_history_has_no_anomaly():
    history = clean()
    assert check(history) == [] and summary([]) == "no anomaly"
    results = [write.result for write in history.writes]
    assert results.count(OK) > 200 and results.count(UNKNOWN) > 15 and len(history.reads) > 50


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_anomaly_is_named(plant):
    history = clean()
    plant(history)
    found = check(history)
    assert plant.__name__.replace("_", "-") in {one.name for one in found}, summary(found)
    assert f"{plant.__name__.replace('_', '-')}: " in summary(found)


def test_duplicates_may_be_allowed():
    history = clean()
    duplicated(history)
    assert "duplicated" not in {one.name for one in check(history, allow_duplicates=True)}


def test_what_lies_before_the_log_start_is_not_missed():
    history = clean()
    history.reads = [read for read in history.reads if read.partition != 0 or read.records[0][0] >= 2 * CHUNK]
    assert {one.name for one in check(history)} == {"lost"}
    assert check(history, log_start={0: 2 * CHUNK}) == []


def test_history_survives_json_lines():
    history, text = clean(), io.StringIO()
    history.dump(text)
    again = load(text.getvalue().splitlines())
    assert (again.writes, again.reads) == (history.writes, history.reads)


def test_payloads_carry_their_value():
    data = payload(("c1", 77), 100)
    assert len(data) == 100 and value_of(data) == ("c1", 77)
    for place in range(len(data)):
        assert value_of(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]) == CORRUPT
    assert value_of(None) == value_of(b"") == CORRUPT
    assert value_of(payload(("c", 1))) == ("c", 1)


def test_longest_gap():
    writes = [Write("c", "s", 0, n, n, end, OK, n) for n, end in enumerate((1_000_000, 3_000_000, 9_000_000))]
    assert longest_gap_ms(writes) == {0: 6.0}
