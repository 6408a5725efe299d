"""What open_input finds: several brokers and boots, losses and gaps, damaged files, clocks, names, events."""

import json

import pytest

from mpbroker.analysis.engine.input.losses import Gap, Loss, merged
from mpbroker.analysis.engine.input.trace_input import NoTrace, SampledTrace, open_input
from mpbroker.trace import record, segment
from mpbroker.trace.dictionary import file_name
from mpbroker.trace.record import TraceRecord
from tests.harness.record_trace import OFFSET_NS, Lane, clock, request, write_segment

BOOT = Lane().boot_id
RUN = f"{BOOT:016x}"


def _many(count: int, first_ns: int = 1_000_000) -> list[TraceRecord]:
    return [request(first_ns + 1000 * number, corr_id=number) for number in range(count)]


def test_folders_are_searched_downwards_and_files_taken(tmp_path):
    inner = write_segment(tmp_path / "a" / "b", _many(3))
    outer = write_segment(tmp_path / "c", _many(4), Lane(broker=2, boot_id=7))
    both = open_input([tmp_path / "a", outer])
    assert [info.path for info in both.segments] == [inner, outer]
    assert both.loss.records == both.loss.finished == 7 and both.runs == ["0000000000000007", RUN]
    assert open_input([tmp_path], brokers=[2]).loss.records == 4
    assert both.parquet == [] and not both.is_sampled and both.loss.sentences == ()


def test_a_copy_of_a_segment_counts_once(tmp_path):
    write_segment(tmp_path / "a", _many(3))
    write_segment(tmp_path / "copy", _many(3))
    write_segment(tmp_path / "copy", _many(2), Lane(boot_id=8))  # the same name would be another boot's
    assert open_input([tmp_path]).loss.records == 5


def test_nothing_there(tmp_path):
    for place, words in ((tmp_path / "no", "does not exist"), (tmp_path, "no trace in")):
        with pytest.raises(NoTrace, match=words) as raised:
            open_input([place])
        assert raised.value.exit_code == 2
    write_segment(tmp_path, _many(1))
    with pytest.raises(NoTrace, match="no segment of broker"):
        open_input([tmp_path], brokers=[9])


def test_losses_add_up_and_are_said(tmp_path):
    write_segment(tmp_path, _many(10), Lane(dropped=2, sampled_out=3))
    found = open_input([tmp_path])
    assert found.loss[:4] == (15, 10, 2, 3) and found.loss.finished == 10 + 2 + 3
    assert len(found.loss.sentences) == 2 and "2 of 15 requests (13.33 %) were dropped" in found.loss.sentences[0]
    assert found.is_sampled
    with pytest.raises(SampledTrace, match="little follows single requests in their order"):
        found.require_unsampled("little")


def test_a_segment_without_close_fields_counts_what_is_in_it(tmp_path):
    path = write_segment(tmp_path, _many(10), Lane(dropped=1), close=False, events=[request(kind=record.GAUGE)])
    with open(path, "r+b") as file:  # the counters of the last complete drain are older than the records
        file.seek(segment.PROGRESS_OFFSET)
        file.write(segment.PROGRESS.pack(0, 0, 0, 0, 5, 4, 1, 0))
        file.seek(0, 2)
        file.write(b"torn record")
    assert open_input([tmp_path]).loss[:4] == (11, 10, 1, 0)


def test_a_deleted_segment_between_others_is_a_gap(tmp_path):
    for first in (100, 110, 120):
        path = write_segment(tmp_path, _many(10, 5_000_000 * first), Lane(first_seq=first))
        if first == 110:
            path.unlink()
    write_segment(tmp_path, _many(5), Lane(ring=1, first_seq=40))  # a lane's first segments gone is retention, no gap
    loss = open_input([tmp_path]).loss
    assert loss.gaps == (Gap(RUN, 1, 0, 110, 10, OFFSET_NS + 600_000_000),) and loss.missing == 10
    assert loss.dropped_share == 10 / 35 and "10 requests are missing in 1 gap" in loss.sentences[0]
    windows = open_input([tmp_path]).losses(100).to_pylist()
    assert windows == [{"window_ms": OFFSET_NS // 1_000_000 + 600, "broker": 1, "dropped": 0, "missing": 10}]


@pytest.mark.parametrize("size", [0, 7, 100, 247, 248, 255, 260, 320, 512, 515, 899, 1024, 1100, 4000, 4095])
def test_a_header_cut_anywhere_is_damage_that_is_told(tmp_path, size):
    path = write_segment(tmp_path, _many(4))
    write_segment(tmp_path, _many(3), Lane(ring=1))
    path.write_bytes(path.read_bytes()[:size])
    found = open_input([tmp_path])
    assert found.loss.records == 3 and found.loss.damaged_files == 1 and str(path) in found.loss.sentences[0]


def test_of_a_closed_segment_cut_within_its_records_the_whole_ones_are_read(tmp_path):
    path = write_segment(tmp_path, _many(4))
    whole = path.read_bytes()
    for size in (len(whole) - 1, len(whole) - record.RECORD_BYTES, segment.HEADER_BYTES):
        path.write_bytes(whole[:size])
        loss = open_input([tmp_path]).loss
        assert loss.records == (size - segment.HEADER_BYTES) // record.RECORD_BYTES
        assert loss.finished == loss.records + loss.dropped + loss.sampled_out
        assert loss.damaged_files == 1 and "has been cut" in loss.sentences[0]
        assert [(gap.first_seq, gap.missing) for gap in loss.gaps] == [(loss.records, 4 - loss.records)]


def test_an_open_segment_cut_anywhere_has_its_whole_records(tmp_path):
    path = write_segment(tmp_path, _many(4), close=False)
    whole = path.read_bytes()
    for size in range(segment.HEADER_BYTES, len(whole) + 1, 37):
        path.write_bytes(whole[:size])
        assert open_input([tmp_path]).loss.records == (size - segment.HEADER_BYTES) // record.RECORD_BYTES


def test_damaged_bytes_of_the_header_are_noticed(tmp_path):
    path = write_segment(tmp_path, _many(2))
    whole = path.read_bytes()
    for at in (0, 8, 12, 24, 60, segment.JSON_OFFSET + 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        with pytest.raises(NoTrace):
            open_input([tmp_path])


def test_segments_out_of_the_time_asked_for_are_not_opened(tmp_path):
    for number in range(4):
        write_segment(tmp_path, _many(5, 1_000_000_000 * (number + 1)), Lane(first_seq=5 * number))
    part = open_input([tmp_path], from_ns=OFFSET_NS + 2_000_000_000, to_ns=OFFSET_NS + 4_000_000_000)
    assert [info.opened.first_seq for info in part.segments] == [5, 10]
    assert part.rows.from_ns == OFFSET_NS + 2_000_000_000 and len(part.clocks) == 1


def test_clocks_are_those_of_all_segments_of_a_boot(tmp_path):
    write_segment(tmp_path, _many(2), clocks=(clock(1_000_000, 100, 70), clock(2_000_000_000, 200)))
    write_segment(tmp_path, _many(2), Lane(ring=1), clocks=(clock(1_500_000, 100), clock(3_000_000_000, 300)))
    write_segment(tmp_path, _many(2), Lane(boot_id=5))
    found = open_input([tmp_path])
    assert {boot.run: len(line.samples) for boot, line in found.clocks.items()} == {RUN: 4, "0000000000000005": 2}
    assert found.clock == (6, 70, 0, 0)


def test_a_step_inside_a_segment_is_placed_by_the_samples_within(tmp_path):
    inside = [
        clock(at, OFFSET_NS + jump).pack_record(0, 0) for at, jump in ((20_000_000_000, 0), (30_000_000_000, 10**12))
    ]
    write_segment(
        tmp_path,
        _many(3),
        events=inside,
        clocks=(clock(1_000_000, OFFSET_NS), clock(60_000_000_000, OFFSET_NS + 10**12)),
    )
    line = next(iter(open_input([tmp_path]).clocks.values()))
    assert len(line.samples) == 4 and line.quality.steps == 1
    assert line.epoch_of(24_000_000_000) == OFFSET_NS + 24_000_000_000
    assert line.epoch_of(26_000_000_000) == OFFSET_NS + 26_000_000_000 + 10**12


def test_names_markers_and_connections(tmp_path):
    opened = request(5_000_000, kind=record.CONNECTION_OPEN, conn_id=9, listener=1, proc_id=2)
    closed = request(8_000_000, kind=record.CONNECTION_CLOSE, conn_id=9, listener=1, proc_id=2, aux=77, error=3)
    write_segment(tmp_path, [request(6_000_000, client_hash=11, topic_hash=21)], events=[opened, closed])
    rows = [
        {"k": "client", "hash": 11, "name": "reader"},
        {"k": "topic", "hash": 21, "name": "orders"},
        {"k": "conn", "id": 9, "proc": 2, "peer": "127.0.0.1:5", "listener": 1, "t0_ns": 4_900_000},
        {"k": "software", "id": 9, "name": "lib", "version": "2"},
        {"k": "marker", "n": 1, "text": "step 2", "t0_ns": 7_000_000},
    ]
    (tmp_path / file_name(1, BOOT)).write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = open_input([tmp_path])
    context = found.context(found.segments[0])
    assert (context.clients, context.topics, context.listeners[1]) == ({11: "reader"}, {21: "orders"}, "CONTROL")
    assert found.markers().to_pylist() == [
        {"epoch_ns": OFFSET_NS + 7_000_000, "run": RUN, "broker": 1, "number": 1, "text": "step 2"}
    ]
    assert found.connections().to_pylist() == [
        {
            "run": RUN,
            "broker": 1,
            "conn_id": 9,
            "peer": "127.0.0.1:5",
            "software": "lib 2",
            "listener": 1,
            "processor": 2,
            "opened_epoch_ns": OFFSET_NS + 5_000_000,
            "closed_epoch_ns": OFFSET_NS + 8_000_000,
            "requests": 77,
            "close_reason": 3,
        }
    ]
    assert open_input([tmp_path], from_ns=OFFSET_NS + 7_000_001).markers().num_rows == 0


def test_drop_notices_are_losses_in_their_window(tmp_path):
    notices = [
        request(at, kind=record.DROP_NOTICE, aux=number)
        for at, number in ((1_000_000, 5), (2_000_000, 6), (3_000_000_000, 1))
    ]
    write_segment(tmp_path, _many(2), Lane(dropped=12), events=notices)
    found = open_input([tmp_path])
    assert [(row["window_ms"] - OFFSET_NS // 1_000_000, row["dropped"]) for row in found.losses(1000).to_pylist()] == [
        (0, 11),
        (3000, 1),
    ]
    assert found.raw_events().num_rows == 3


def test_of_several_traces_damaged_files_are_named_first():
    """So their number says which sentences those are."""
    first = Loss(damaged_files=1, sentences=("a: it has been cut", "7 requests were dropped"))
    both = merged([first, Loss(sentences=("sampled",)), first._replace(sentences=("b: cut", "lost"))])
    assert both.damage == ("a: it has been cut", "b: cut") and both.damaged_files == 2
    assert both.sentences[2:] == ("7 requests were dropped", "sampled", "lost")
