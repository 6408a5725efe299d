"""One dump of the dash-cam: complete or recognisably not, whatever happens on the way."""

import errno
import os
from pathlib import Path

import pytest

from mpbroker.trace import dump, dump_cause, manifest, segment
from mpbroker.trace.dump import Dump
from tests.harness.descriptors import open_descriptors
from tests.unit.trace.traces import full_request, requests_in, write_segment

CAUSE = dump_cause.Cause("asked", "why", 5, 1_795_401_346_621, 0)


@pytest.fixture
def memory(tmp_path):
    memory = tmp_path / "memory"
    memory.mkdir()
    for first in (0, 1000, 2000):
        manifest.append(memory, write_segment(memory, [full_request(first + n) for n in range(1000)]))
    (memory / "dict-b4-00000001.jsonl").write_text('{"k":"boot"}\n')
    return memory


@pytest.fixture
def target(tmp_path):
    return dump.new_directory(tmp_path / "dumps", 4, CAUSE)


def _run(one, piece=50_000):
    while one.step(piece):
        pass
    one.complete()


def _bytes_in(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*") if path.suffix in (".mpt", ".jsonl")}


def test_every_closed_segment_and_the_names_are_copied(memory, target):
    one = Dump(memory, target, [CAUSE])
    one.add_closed()
    assert one.step(50_000) == 50_000 and one.is_busy and dump.read(target) is None
    _run(one)
    assert _bytes_in(target) == _bytes_in(memory)
    assert dump.read(target) == {"causes": [CAUSE], "segments": 3, "records": 3000, "segments_lost": 0}
    assert not list(target.glob("*.part"))


def test_each_file_of_a_dump_is_synced_before_it_has_its_name(memory, target, monkeypatch):
    """What is recognised as complete is complete, even after a power cut."""
    synced, replaced, replace = [], [], Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(os.readlink(f"/proc/self/fd/{file}")).name))
    monkeypatch.setattr(Path, "replace", lambda path, to: replaced.append((path.name, *synced)) or replace(path, to))
    one = Dump(memory, target, [CAUSE], 77)
    assert one.until_ns == 77 and Dump(memory, target, [CAUSE]).until_ns == 0
    one.add_closed()
    _run(one)
    of_dump = [one for one in replaced if one[0] in {f"{path.name}.part" for path in target.iterdir()} | {"dump.part"}]
    assert len(of_dump) == 5 and all(name in before for name, *before in of_dump)


def test_a_successor_copies_what_is_missing_and_nothing_twice(memory, target):
    first = Dump(memory, target, [CAUSE])
    first.add_closed()
    first.step(200_000)  # one whole, one in part
    first.abandon()
    assert len(list(target.glob("*.mpt"))) == 1 and len(list(target.glob("*.part"))) == 1
    second = Dump(memory, target, [CAUSE])
    second.add_closed()
    assert len(second._waiting) == 2
    _run(second)
    assert requests_in(target) == list(range(3000))


def test_what_had_to_make_room_is_counted(memory, target):
    one = Dump(memory, target, [CAUSE])
    one.add_closed()
    sorted(memory.glob("*.mpt"))[1].unlink()
    _run(one)
    assert dump.read(target)["segments_lost"] == 1 and len(manifest.read(target)) == 2


def test_a_full_disk_is_tried_again(memory, target, monkeypatch):
    one = Dump(memory, target, [CAUSE])
    one.add_closed()
    real, calls = os.sendfile, []

    def full_now_and_then(*arguments):
        calls.append(arguments)
        if len(calls) % 2:
            raise OSError(errno.ENOSPC, "full")
        return real(*arguments)

    monkeypatch.setattr(os, "sendfile", full_now_and_then)
    refused = 0
    while one.is_busy:
        try:
            one.step(30_000)
        except OSError:
            refused += 1
    assert refused > 10
    monkeypatch.undo()
    one.complete()
    assert _bytes_in(target) == _bytes_in(memory)


def test_two_of_the_same_second_have_two_directories(tmp_path):
    first, second = (dump.new_directory(tmp_path, 4, CAUSE) for _ in range(2))
    assert [first.name, second.name] == [
        "dump-20261123T023546Z-b4-asked",
        "dump-20261123T023546Z-b4-asked-2",
    ]
    assert first.stat().st_mode & 0o077 == 0


def test_what_nobody_closed_is_copied_too_where_nobody_writes_any_more(memory, target):
    (memory / f"odd{segment.SUFFIX}").write_bytes(b"damaged")
    one = Dump(memory, target, [CAUSE])
    one.add_all()
    _run(one)
    assert (target / f"odd{segment.SUFFIX}").read_bytes() == b"damaged" and len(list(target.glob("*.mpt"))) == 4


@pytest.mark.parametrize("text", ["", "{", "[]", '{"causes":[{}],"segments":1}', '{"causes":3}'])
def test_what_is_no_complete_dump_reads_as_none(tmp_path, text):
    (tmp_path / dump.FILE).write_text(text)
    assert dump.read(tmp_path) is None


def test_a_dump_names_as_many_causes_as_it_has_room_for(memory, target):
    one = Dump(memory, target, [CAUSE])
    for _ in range(dump.MAX_CAUSES + 1):
        one.join({"number": len(one.causes)})
    assert len(one.causes) == dump.MAX_CAUSES and one.causes[-1] == {"number": dump.MAX_CAUSES - 1}


def test_a_dump_goes_on_behind_what_is_gone_and_counts_its_bytes(memory, target):
    """Pieces of any size, a file's last one shorter; what cannot be opened on the disk waits, its source closed."""
    one = Dump(memory, target, [CAUSE])
    assert one.step(10) == 0 and not one.is_busy
    one.add_closed()
    first, second, third = sorted(memory.glob("*.mpt"))
    sizes = [path.stat().st_size for path in (first, second, third)]
    first.unlink()
    assert one.step(1) == 1 and one.lost == 1 and one.is_busy
    assert (one._copy.name, one._copied, one._rest()) == (second.name, 1, sizes[1] - 1)
    assert (target / (second.name + dump.PART_SUFFIX)).stat().st_mode & 0o777 == 0o600
    assert one.step(sizes[1] - 1) == sizes[1] - 1 and one._copy is None and one._rest() == 0
    assert (target / second.name).read_bytes() == second.read_bytes() and one.is_busy
    (target / (third.name + dump.PART_SUFFIX)).mkdir()
    before = open_descriptors()
    with pytest.raises(IsADirectoryError):
        one.step(1)
    assert open_descriptors() <= before and one.is_busy
    (target / (third.name + dump.PART_SUFFIX)).rmdir()
    assert one.step(1 << 30) == sizes[2] and not one.is_busy and one.step(1 << 30) == 0
    one.complete()
    assert open_descriptors() <= before
    assert dump.read(target)["segments_lost"] == 1 and dump.read(target)["segments"] == 2
    assert (target / dump.FILE).stat().st_mode & 0o777 == 0o600 and not list(target.glob("*.part"))


def test_a_source_that_is_cut_ends_its_copy(memory, target):
    one = Dump(memory, target, [CAUSE])
    one.add_closed()
    first = min(memory.glob("*.mpt"))
    one.step(10)
    os.truncate(first, 10)
    assert one.step(1) == 1 and one._copy.name != first.name
    assert (target / first.name).stat().st_size == 10
