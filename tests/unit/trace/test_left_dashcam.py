"""What a killed broker's dash-cam had in memory comes to disk as a dump of its own, closed, and then goes."""

import pytest

from mpbroker.trace import dump, dump_cause, segment
from mpbroker.trace.left_dashcam import LeftDashcam
from tests.unit.trace.traces import full_request, requests_in, write_segment


class Lines(list):
    def info(self, event, **fields):
        self.append((event, fields))


def test_it_is_copied_a_piece_a_turn_and_only_then_taken_out_of_memory(tmp_path):
    memory, dumps, lines = tmp_path / "memory", tmp_path / "dumps", Lines()
    memory.mkdir()
    write_segment(memory, [full_request(number) for number in range(3)])
    write_segment(memory, [full_request(number) for number in range(5, 9)], close=False)  # it was killed meanwhile
    (memory / "dict-b4-00000001.jsonl").write_text('{"k":"boot"}\n')
    (memory / segment.file_name(4, 1, 2, 0)).write_bytes(b"")
    left = LeftDashcam(memory, dumps, 4, lines)
    (target,) = dumps.iterdir()
    assert not list(target.iterdir()) and dump.read(target) is None
    assert left.turn() is False and memory.exists() and lines == []
    for _ in range(100):
        if left.turn():
            break
        assert memory.exists()
    else:
        pytest.fail("it comes to no end")
    assert not memory.exists() and requests_in(target) == [0, 1, 2, 5, 6, 7, 8]
    assert all(segment.read_info(path).closed for path in target.glob("*.mpt")), "the open one was closed first"
    said = dump.read(target)
    assert (said["segments"], said["records"], said["segments_lost"]) == (2, 7, 0)
    assert [(cause.kind, cause.text) for cause in said["causes"]] == [(dump_cause.LEFT, "the broker before was killed")]
    assert target.name.endswith("-b4-left") and (target / "dict-b4-00000001.jsonl").exists()
    assert lines == [("trace_dumped", {"directory": str(target), "segments_lost": 0})]
