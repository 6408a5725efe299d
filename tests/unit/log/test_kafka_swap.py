"""A swap of segments in which an Apache Kafka died is finished as that Kafka would; no byte of it is unlinked."""

import pytest

from mpbroker.log import disk
from mpbroker.log.kafka_swap import finish_kafka_swaps
from mpbroker.log.log_recovery import LogRecovery
from mpbroker.record.batch_builder import encode_batch

pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


def batches(*offsets: int) -> bytes:
    return b"".join(encode_batch([(b"k", b"v%d" % offset, 1)], base_offset=offset) for offset in offsets)


OLD, MIDDLE, ACTIVE = batches(0, 1, 2, 3), batches(4, 5, 6, 7), batches(8, 9)
CLEANED = batches(1, 3, 5, 7)


def write(directory, **logs: bytes) -> None:
    for name, content in logs.items():
        base, _, kind = name[1:].partition("_")
        (directory / f"{int(base):020d}.log{'.' + kind if kind else ''}").write_bytes(content)
        (directory / f"{int(base):020d}.index{'.' + kind if kind else ''}").touch()


def logs(directory) -> dict[str, bytes]:
    return {
        f"{int(path.name[:20])}{path.name[24:]}": path.read_bytes()
        for path in directory.iterdir()
        if path.name[20:24] == ".log"
    }


def all_bytes(directory) -> set[bytes]:
    return {path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize(
    "before",
    [
        {"b0": OLD, "b4": MIDDLE, "b0_swap": CLEANED},
        {"b0_deleted": OLD, "b4": MIDDLE, "b0_swap": CLEANED},
        {"b0_deleted": OLD, "b4_deleted": MIDDLE, "b0_swap": CLEANED},
        {"b0_swap": CLEANED},
        {"b0_swap": CLEANED, "b4": MIDDLE},
    ],
    ids=["none given up", "one given up", "all given up", "all gone", "the first gone"],
)
def test_whole_copies_take_their_place_and_what_they_replace_is_kept(tmp_path, before):
    write(tmp_path, b8=ACTIVE, **before)
    kept = all_bytes(tmp_path)
    found = LogRecovery(str(tmp_path), index_interval_bytes=4096, clean=False, gaps_allowed=True).run()
    assert {name: content for name, content in logs(tmp_path).items() if not name.endswith(".cut")} == {
        "0": CLEANED,
        "8": ACTIVE,
    }
    assert kept <= all_bytes(tmp_path) and found.active.next_offset == 10
    assert "Apache Kafka died" in found.cut[0]
    assert finish_kafka_swaps(str(tmp_path)) == []


@pytest.mark.parametrize("swap", [CLEANED[:-1], b"", batches(0, 1)], ids=["torn", "empty", "shorter"])
@pytest.mark.parametrize("given_up", [False, True])
def test_copies_in_doubt_replace_nothing(tmp_path, swap, given_up):
    name = "b{}_deleted" if given_up else "b{}"
    write(tmp_path, b8=ACTIVE, b0_swap=swap, **{name.format(0): OLD, name.format(4): MIDDLE})
    found = LogRecovery(str(tmp_path), index_interval_bytes=4096, clean=False).run()
    assert logs(tmp_path) == {"0": OLD, "4": MIDDLE, "8": ACTIVE, "0.swap.cut": swap}
    assert "damaged or holds less" in found.cut[0]


def test_a_segment_that_lies_within_another_stays_given_up(tmp_path):
    """Of an earlier swap, whose `.deleted` Kafka had not removed yet."""
    write(tmp_path, b0=OLD + MIDDLE, b4_deleted=MIDDLE, b0_swap=b"", b8=ACTIVE)
    finish_kafka_swaps(str(tmp_path))
    assert logs(tmp_path) == {"0": OLD + MIDDLE, "4.deleted.cut": MIDDLE, "0.swap.cut": b"", "8": ACTIVE}


def test_unfinished_copies_are_set_aside_with_what_had_been_renamed_of_them(tmp_path):
    write(tmp_path, b0=OLD, b4=MIDDLE, b0_cleaned=batches(0, 1), b2_swap=batches(2, 3), b8=ACTIVE)
    assert ".cleaned" in finish_kafka_swaps(str(tmp_path))[0]
    assert logs(tmp_path) == {
        "0": OLD,
        "4": MIDDLE,
        "8": ACTIVE,
        "0.cleaned.cut": batches(0, 1),
        "2.swap.cut": batches(2, 3),
    }


def test_a_segment_beside_its_unfinished_copy_comes_back(tmp_path):
    write(tmp_path, b0_deleted=OLD, b0_cleaned=batches(0, 1), b4=MIDDLE)
    finish_kafka_swaps(str(tmp_path))
    assert logs(tmp_path) == {"0": OLD, "4": MIDDLE, "0.cleaned.cut": batches(0, 1)}


def test_damaged_copies_that_are_all_there_is_are_put_in_place(tmp_path):
    write(tmp_path, b0_swap=CLEANED[:-1], b8=ACTIVE)
    finish_kafka_swaps(str(tmp_path))
    assert logs(tmp_path) == {"0": CLEANED[:-1], "8": ACTIVE}


@pytest.mark.parametrize("content", [b"", b"no batch"])
def test_what_holds_no_batch_becomes_no_segment(tmp_path, content):
    write(tmp_path, b0=OLD, b60_swap=content)
    finish_kafka_swaps(str(tmp_path))
    assert logs(tmp_path) == {"0": OLD, "60.swap.cut": content}


def test_indexes_follow_a_log_that_has_its_name_already(tmp_path):
    write(tmp_path, b0=CLEANED)
    (tmp_path / f"{0:020d}.index").rename(tmp_path / f"{0:020d}.index.swap")
    (tmp_path / f"{4:020d}.timeindex.swap").touch()
    assert finish_kafka_swaps(str(tmp_path)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{4:020d}.timeindex.swap.cut",
    ]


def test_files_of_other_names_and_kinds_are_left(tmp_path):
    write(tmp_path, b0=OLD)
    (tmp_path / f"{0:020d}.log.swap").mkdir()
    (tmp_path / f"{4:020d}.log.cleaned").symlink_to(tmp_path / "nowhere")
    (tmp_path / "notes.log.swap").touch()
    before = sorted(path.name for path in tmp_path.iterdir())
    assert finish_kafka_swaps(str(tmp_path)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == before


class Death(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.parametrize(
    "before",
    [
        {"b0_deleted": OLD, "b4_deleted": MIDDLE, "b0_swap": CLEANED},
        {"b0": OLD, "b4_deleted": MIDDLE, "b0_swap": CLEANED},
        {"b0_deleted": OLD, "b4": MIDDLE, "b0_swap": CLEANED[:-1]},
        {"b0_deleted": OLD, "b4_deleted": MIDDLE, "b0_cleaned": CLEANED, "b4_swap": MIDDLE},
    ],
    ids=["whole", "one in place", "torn", "unfinished"],
)
def test_a_start_that_dies_at_any_rename_is_finished_by_the_next_with_every_byte_kept(tmp_path, monkeypatch, before):
    for deaths in range(100):
        directory, renames = tmp_path / str(deaths), []
        directory.mkdir()
        write(directory, b8=ACTIVE, **before)
        kept, rename = all_bytes(directory), disk.rename

        def dying(old, new, renames=renames, deaths=deaths, rename=rename):
            if len(renames) == deaths:
                raise Death
            renames.append(old)
            rename(old, new)

        with monkeypatch.context() as patch:
            patch.setattr(disk, "rename", dying)
            try:
                LogRecovery(str(directory), index_interval_bytes=4096, clean=False, gaps_allowed=True).run()
            except Death:
                died = True
            else:
                died = False
        found = LogRecovery(str(directory), index_interval_bytes=4096, clean=False, gaps_allowed=True).run()
        assert kept <= all_bytes(directory) and found.active.next_offset == 10, renames
        if not died:
            assert deaths > 3
            return
    raise AssertionError("it never came to its end")
