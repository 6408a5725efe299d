"""Single decisions of a partition's recovery: which files are segments, which segments are the log, which are read."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.log import log_recovery
from mpbroker.log.log_recovery import LogMissing, LogRecovery
from mpbroker.log.producer_snapshot import ProducerEntry, write_snapshot
from mpbroker.log.txn_index_file import AbortedTxn, write_aborted
from tests.unit.log.test_log_recovery import recover, stored_batch, write_log


class Segments:
    """Segments by base: (the offset their first batch claims, the offset behind their last, whether their indexes are
    sound, whether they have to be cut). `done`: which were read, and how."""

    def __init__(self, rows):
        self.rows, self.done, self.rebuilt = rows, [], {}

    def first_offset(self, base):
        return self.rows[base][0]

    def next_offset(self, base):
        return self.rows[base][1]

    def indexes_sound(self, base):
        return self.rows[base][2]

    def read_tail(self, base):
        self.done.append(("tail", base))
        return SimpleNamespace(base=base, next_offset=self.rows[base][1])

    def rebuild(self, base, *, settled):
        self.done.append(("rebuild", base, settled))
        return SimpleNamespace(base=base, next_offset=self.rows[base][1]), self.rows[base][3]


def recovery(rows=None, directory="/d/t-0", **settings):
    made = LogRecovery(directory, **{"index_interval_bytes": 4096, "clean": False} | settings)
    if rows is not None:
        made._segments = Segments(rows)
        made._set_segment_aside = lambda base, reason: made._segments.done.append(("aside", base, reason))
    return made


def sound(base, end):
    return (base, end, True, False)


@pytest.mark.parametrize(
    ("names", "bases"),
    [
        ([f"{30:020d}.log", f"{0:020d}.log", f"{7:020d}.index", f"{8:020d}.log.deleted"], [0, 30]),
        ([f"{2**63 - 1}.log".rjust(24, "0"), f"{2**63}.log".rjust(24, "0"), "9" * 20 + ".log"], [2**63 - 1]),
        ([f"{5:019d}.log", f"{5:021d}.log", "x" * 20 + ".log", "0x" + "0" * 18 + ".log", ".log"], []),
    ],
)
def test_which_files_are_segments(names, bases):
    """Offsets are positive numbers of 63 bits, written with twenty digits."""
    assert log_recovery._bases(names) == bases


@pytest.mark.parametrize(
    ("log_start", "left"), [(0, [10, 20, 30]), (19, [10, 20, 30]), (20, [20, 30]), (29, [20, 30]), (99, [30])]
)
def test_segments_wholly_below_the_log_start_are_no_part_of_the_log(log_start, left):
    assert recovery(log_start=log_start)._above_log_start([10, 20, 30]) == left


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        (f"{5:020d}.log.deleted", None), ("anything.deleted", "same"), (f"{5:020d}.snapshot.tmp", None),
        (f"{5:020d}.snapshot.deleted", None), (f"{5:020d}.other.deleted", "same"), (f"{5:021d}.log.deleted", "same"),
        (f"{5:020d}.log.deleted.old", "same"), ("mine.snapshot.tmp", "same"), ("my-partition.metadata.tmp", "same"),
        (f"{5:020d}.txnindex.tmp", None), ("partition.metadata.tmp", None), ("leader-epoch-checkpoint.tmp", None),
        ("other.tmp", "same"), (f"{5:020d}.index", "cut"), (f"{5:020d}.timeindex", "cut"),
        (f"{5:020d}.txnindex", "cut"), (f"{5:019d}.index", "same"), (f"{5:021d}.index", "same"),
        ("x" * 20 + ".index", "same"), (f"{0:020d}.index", "same"), (f"{5:020d}.snapshot", "same"),
        (f"{5:020d}.other", "same"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_file_that_is_no_part_of_a_log(tmp_path, name, becomes):
    """What was given up goes, an index without its log is kept aside, what is not ours is left alone."""
    for one in (f"{0:020d}.log", name):
        (tmp_path / one).write_bytes(b"x")
    recovery(directory=str(tmp_path))._put_away_leftovers()
    left = {None: [], "same": [name], "cut": [f"{name}.cut"]}[becomes]
    assert sorted(os.listdir(tmp_path)) == sorted([f"{0:020d}.log", *left])


@pytest.mark.parametrize("log_start", [0, 77])
@pytest.mark.parametrize("recovery_point", [0, 1])
def test_an_empty_log_is_made_where_nothing_was_synced(tmp_path, log_start, recovery_point):
    made = recovery(directory=str(tmp_path), log_start=log_start, recovery_point=recovery_point)
    if recovery_point:
        with pytest.raises(LogMissing, match="up to offset 1 were synced"):
            made._create_first()
        assert os.listdir(tmp_path) == []
        return
    assert made._create_first() == log_start
    files = [f"{log_start:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")]
    assert sorted(os.listdir(tmp_path)) == files and not any((tmp_path / name).stat().st_size for name in files)


@pytest.mark.parametrize(
    ("kept", "base", "row", "belongs", "aside", "left"),
    [
        ([], 10, sound(10, 20), True, [], []),
        ([0], 10, sound(10, 20), True, [], [0]),
        ([0], 10, (None, 10, True, False), True, [], [0]),  # empty
        ([0], 12, sound(9, 20), False, [12], [0]),  # holds what belongs below
        ([0], 9, sound(12, 20), False, [9], [0]),  # begins behind its name, before the end of the one below
        ([0], 10, sound(12, 20), True, [], [0]),  # behind its name, and clear of it
        ([0, 4], 9, sound(9, 20), True, [4], [0]),  # the one below reaches into it under a name not its own
        ([0, 4], 13, sound(14, 20), True, [], [0, 4]),
        ([0, 4], 12, sound(14, 20), False, [12], [0, 4]),
    ],
)
def test_which_segments_belong_to_a_log(kept, base, row, belongs, aside, left):
    """One under a name that is not its own would hide the offsets of another."""
    made = recovery({0: sound(0, 4 if 4 in kept else 10), 4: sound(6, 13)} | {base: row})
    assert made._belongs(kept, base, is_only=False) is belongs
    assert [one[1] for one in made._segments.done] == aside and kept == left


@pytest.mark.parametrize(("first", "is_only", "belongs"), [(9, True, True), (9, False, False), (10, False, True)])
def test_an_only_segment_under_another_name_is_all_there_is(first, is_only, belongs):
    made = recovery({10: sound(first, 20)})
    assert made._belongs([], 10, is_only=is_only) is belongs
    told = [] if belongs else [("aside", 10, "it holds offset 9, which belongs to a segment below")]
    assert made._segments.done == told


def test_why_a_segment_is_set_aside_is_told_with_its_offsets():
    made = recovery({0: sound(0, 10), 4: sound(6, 13), 9: sound(9, 20), 12: sound(15, 20)})
    made._belongs([0], 4, is_only=False)
    made._belongs([4], 9, is_only=False)
    assert made._segments.done == [
        ("aside", 4, "it begins before offset 10, where the one below ends"),
        ("aside", 4, "it holds offsets up to 12, and segment 9 its own"),
    ]


@pytest.mark.parametrize(
    ("first", "gaps_allowed", "wrongly"),
    [(10, False, False), (None, False, False), (11, False, True), (11, True, False), (9, False, True), (9, True, True)],
)
def test_whether_a_segment_has_the_name_of_its_first_offset(first, gaps_allowed, wrongly):
    """Compaction may have taken its first records."""
    assert recovery({10: sound(first, 20)}, gaps_allowed=gaps_allowed)._is_named_wrongly(10) is wrongly


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("are_sound", [False, True])
@pytest.mark.parametrize("settled", [False, True])
def test_a_clean_stop_leaves_nothing_to_be_given_up(clean, active, are_sound, settled):
    made = recovery({10: (10, 20, are_sound, True)}, clean=clean)
    state, cut = made._recover(10, active=active, settled=settled)
    tail = clean and active and are_sound
    assert made._segments.done == [("tail", 10) if tail else ("rebuild", 10, settled or clean)]
    assert (state.base, cut) == (10, not tail)
    assert made._unsound == ([f"t-0/{10:020d}.index"] if clean and not tail else [])


THREE = {0: sound(0, 10), 10: sound(10, 20), 20: sound(20, 30)}


@pytest.mark.parametrize(
    ("settings", "changed", "done"),
    [
        ({"clean": True}, {}, [("tail", 20)]),
        ({"recovery_point": 0}, {}, [("rebuild", 0, False), ("rebuild", 10, False), ("rebuild", 20, False)]),
        ({"recovery_point": 9}, {}, [("rebuild", 0, False), ("rebuild", 10, False), ("rebuild", 20, False)]),
        ({"recovery_point": 10}, {}, [("rebuild", 10, False), ("rebuild", 20, False)]),
        ({"recovery_point": 30}, {}, [("rebuild", 20, False)]),
        ({"recovery_point": 30}, {0: (0, 10, False, False)}, [("rebuild", 0, True), ("rebuild", 20, False)]),
        ({"recovery_point": 30}, {10: (11, 20, True, False)}, [("rebuild", 10, True), ("rebuild", 20, False)]),
        ({"clean": True}, {20: (20, 30, False, False)}, [("rebuild", 20, True)]),
    ],
)
def test_which_segments_are_read(settings, changed, done):
    """Those that may not be on disk, those whose indexes are not sound, those under a wrong name; and the last."""
    made = recovery(THREE | changed, **settings)
    bases, last = made._walk([0, 10, 20])
    assert (bases, last.base, made._segments.done) == ([0, 10, 20], 20, done)


@pytest.mark.parametrize(
    ("settings", "cut", "bases", "aside"),
    [
        ({}, 0, [0], [10, 20]),
        ({}, 10, [0, 10], [20]),
        ({}, 20, [0, 10, 20], []),
        ({"recovery_point": 20}, 0, [0, 10, 20], []),
        ({"recovery_point": 19}, 10, [0, 10], [20]),
        ({"recovery_point": 30}, 10, [0, 10, 20], []),
        ({"clean": True}, 10, [0, 10, 20], []),
    ],
)
def test_behind_damage_that_was_not_on_disk_nothing_is_the_log(settings, cut, bases, aside):
    rows = {base: (base, base + 10, False, base == cut) for base in THREE}
    made = recovery(rows, **settings)
    found, last = made._walk([0, 10, 20])
    assert (found, last.base) == (bases, bases[-1])
    told = [("aside", base, f"it lies behind the damage in segment {cut}") for base in aside]
    assert [one for one in made._segments.done if one[0] == "aside"] == told


def test_where_the_last_segment_is_set_aside_the_one_below_is_the_active_one():
    made = recovery({0: sound(0, 10), 10: sound(10, 20), 20: sound(15, 30)}, clean=True)
    bases, last = made._walk([0, 10, 20])
    assert (bases, last.base) == ([0, 10], 10)
    assert [one[:2] for one in made._segments.done] == [("aside", 20), ("tail", 10)]


def test_a_last_segment_that_was_on_disk_may_be_cut_once_it_is_the_active_one():
    """Others are read as they are, whatever is damaged in them."""
    made = recovery({0: sound(0, 10), 10: sound(10, 20), 20: sound(15, 30)}, recovery_point=20)
    assert made._walk([0, 10, 20])[0] == [0, 10]
    assert [one[:3] for one in made._segments.done[1:]] == [("rebuild", 10, False)]


@pytest.mark.parametrize(("bases", "left"), [([10], [10]), ([10, 20], [20])])
def test_of_several_segments_one_under_another_name_is_set_aside(bases, left):
    made = recovery({10: sound(9, 20), 20: sound(20, 30)}, clean=True)
    assert made._walk(bases)[0] == left


def test_producers_behind_damage_that_is_kept_are_known(tmp_path):
    """Its segment is read by the headers then, as consumers find it."""
    batches = [stored_batch(n * 3, 3, 50, producer_id=n, producer_epoch=1, base_sequence=0) for n in range(4)]
    path = write_log(tmp_path, 0, batches)
    write_log(tmp_path, 12, [])
    damaged = bytearray(b"".join(batches))
    damaged[len(batches[0]) + 80] ^= 1
    with open(path, "wb") as file:
        file.write(damaged)
    found = recover(tmp_path, recovery_point=12)
    assert sorted(found.producers) == [0, 1, 2, 3] and len(found.cut) == 1


@pytest.mark.parametrize(
    ("end", "following", "gap"),
    [(10, 10, []), (11, 10, []), (10, None, []), (9, 10, [(9, 10)]), (5, 10, [(5, 10)])],
)
def test_between_two_segments_is_a_gap_where_the_first_ends_too_early(end, following, gap):
    assert log_recovery._gap(end, following) == gap


@pytest.mark.parametrize(
    ("gaps", "told"),
    [
        ([], []),
        ([(9, 10)], ["t-0: offsets 9 to 9 are missing; the rest is served"]),
        ([(5, 10)], ["t-0: offsets 5 to 9 are missing; the rest is served"]),
        ([(5, 10), (20, 30), (40, 41)], ["t-0: offsets 5 to 9 are missing (and 2 times more); the rest is served"]),
    ],
)
def test_gaps_are_told_in_one_sentence_with_the_first_ones_offsets(gaps, told):
    made = recovery()
    made._say_missing(gaps)
    assert [
        sentence.removesuffix(": if their files are elsewhere, put them back and start again") for sentence in made._cut
    ] == told


def index(tmp_path, base):
    return str(tmp_path / f"{base:020d}.txnindex")


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ({}, (0, 0)),
        ({20: [25]}, (34, 26)),
        ({0: [5], 20: [25, 28]}, (68, 29)),
        ({0: [5], 10: [12]}, (0, 13)),
        ({0: [5]}, (0, 6)),
    ],
)
def test_the_last_abort_is_that_of_the_newest_segment_that_has_one(tmp_path, rows, found):
    for base, markers in rows.items():
        write_aborted(index(tmp_path, base), [AbortedTxn(7, base, marker, base) for marker in markers])
    made = recovery(directory=str(tmp_path))
    assert made._aborted([0, 10, 20]) == found
    open(index(tmp_path, 20), "ab").close()  # an empty one is none
    assert made._aborted([0, 10, 20]) == found


@pytest.mark.parametrize(
    ("rebuilt", "wanted", "left", "unsound"),
    [
        ({}, set(), [0, 10, 20], []),
        ({0: 0, 10: 0, 20: 0}, set(), [], []),
        ({10: 1}, {10}, [0, 10, 20], []),
        ({10: 0, 20: 2}, {20}, [0, 20], []),
    ],
)
def test_whose_aborts_are_read_from_the_log(tmp_path, rebuilt, wanted, left, unsound):
    """Of a segment that was read anyway, what was read counts; of others what the file says, if it can be."""
    for base in (0, 10, 20):
        write_aborted(index(tmp_path, base), [AbortedTxn(7, base, base + 9, base)])
    made = recovery(directory=str(tmp_path))
    made._segments.rebuilt = rebuilt
    assert made._without_txn_index([0, 10, 20], 30) == wanted and made._unsound == unsound
    assert [base for base in (0, 10, 20) if os.path.exists(index(tmp_path, base))] == left


@pytest.mark.parametrize(
    ("base", "marker", "is_sound"),
    [(0, 0, True), (0, 9, True), (0, 10, False), (10, 9, False), (10, 10, True), (20, 29, True), (20, 30, False)],
)
def test_a_txnindex_names_markers_of_its_own_segment(tmp_path, base, marker, is_sound):
    """Otherwise, and where half an entry is left, the log is read for it."""
    write_aborted(index(tmp_path, base), [AbortedTxn(7, 0, marker, 0)])
    made = recovery(directory=str(tmp_path))
    assert made._without_txn_index([0, 10, 20], 30) == (set() if is_sound else {base})
    assert made._unsound == ([] if is_sound else [f"{tmp_path.name}/{base:020d}.txnindex"])
    with open(index(tmp_path, base), "ab") as file:
        file.write(b"half")
    assert made._without_txn_index([0, 10, 20], 30) == {base}


@pytest.mark.parametrize(
    ("snapshots", "wanted", "start", "read"),
    [
        ([], [], 0, [0, 10, 20]), ([10], [], 10, [10, 20]), ([10, 25], [], 25, [20]), ([10, 30], [], 30, []),
        ([10, 20], [], 20, [20]), ([5, 19], [], 19, [10, 20]), ([10, 30], [20], 10, [10, 20]),
        ([10, 20], [20], 20, [20]), ([9, 10, 20], [10, 20], 10, [10, 20]), ([10, 20], [0], 0, [0, 10, 20]),
    ],
)  # fmt: skip
def test_producers_come_from_a_snapshot_below_every_segment_whose_aborts_are_wanted(
    tmp_path, monkeypatch, snapshots, wanted, start, read
):
    """Which transactions were open there must be known; and no more is read than is needed."""
    done, entry = [], ProducerEntry(9, 0, 4, 5, 0, 123)
    for offset in snapshots:
        write_snapshot(str(tmp_path), offset, [entry], durable=False)
    for base in (0, 10, 20):
        (tmp_path / f"{base:020d}.log").touch()

    def scan(log, index, times, base, interval, checks, take):
        done.append(base)
        take.__self__.aborted += [base]

    monkeypatch.setattr(log_recovery, "scan_segment", scan)
    monkeypatch.setattr(log_recovery, "write_aborted", lambda path, rows: done.append((path[-23:-9], rows)))
    made = recovery(directory=str(tmp_path))
    made._without_txn_index = lambda bases, end: set(wanted)
    replay = made._replay([0, 10, 20], 30)
    assert [one for one in done if isinstance(one, int)] == read
    assert [rows for *_, rows in (one for one in done if not isinstance(one, int))] == [[base] for base in wanted]
    assert replay._start == start and replay.producers == ({9: entry} if start else {})
