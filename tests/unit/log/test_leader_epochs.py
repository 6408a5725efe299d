"""Where a leader epoch ended, by Kafka's checkpoint of epochs."""

from types import SimpleNamespace

import pytest

from mpbroker.log.leader_epochs import EpochStart, end_of_epoch, merged_epochs, read_epochs
from mpbroker.log.log_manager import LogManager

EPOCHS = [EpochStart(2, 10), EpochStart(4, 30), EpochStart(7, 50)]


@pytest.mark.parametrize(
    ("asked", "end"),
    [
        (7, (7, 99)),
        (8, (-1, -1)),
        (-1, (-1, -1)),
        (6, (4, 50)),
        (4, (4, 50)),
        (3, (2, 30)),
        (2, (2, 30)),
        (1, (1, 10)),
        (-2, (-2, 10)),
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_one_began(asked, end):
    assert end_of_epoch(EPOCHS, asked, 99) == end


def test_nothing_is_known_without_epochs():
    assert end_of_epoch([], 0, 99) == (-1, -1)


@pytest.mark.parametrize(
    ("text", "epochs"), [("0\n2\n0 0\n3 17\n", [(0, 0), (3, 17)]), ("0\n0\n", []), ("0\n1\nx y\n", []), ("", [])]
)
def test_the_file_is_kafkas(tmp_path, text, epochs):
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    assert read_epochs(str(tmp_path)) == epochs
    assert read_epochs(str(tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("kept", "known"),
    [
        ([], [(2, 10), (4, 30), (7, 50)]),
        ([(7, 50), (8, 60)], [(2, 10), (4, 30), (7, 50), (8, 60)]),
        ([(5, 30), (8, 60)], [(2, 10), (5, 30), (8, 60)]),  # 4 wrote nothing that is still there
        ([(4, 30)], [(2, 10), (4, 30)]),
        ([(5, 31)], [(2, 10), (4, 30), (5, 31)]),
        ([(2, 10)], [(2, 10)]),
    ],
)
def test_what_shared_memory_keeps_counts_more_than_the_file(kept, known):
    assert merged_epochs(EPOCHS, [EpochStart(*each) for each in kept], 51) == known


@pytest.mark.parametrize(("log_end", "known"), [(51, EPOCHS), (50, EPOCHS[:2]), (11, EPOCHS[:1]), (10, [])])
def test_without_any_in_memory_those_beyond_the_logs_end_were_cut(log_end, known):
    assert merged_epochs(EPOCHS, [], log_end) == known


@pytest.mark.parametrize(
    ("has_older", "asked", "reads"), [(True, 4, True), (True, 5, False), (True, 6, False), (False, 4, False)]
)
def test_the_file_is_read_for_epochs_that_memory_does_not_keep(has_older, asked, reads):
    manager, read = LogManager.__new__(LogManager), []
    manager.log = SimpleNamespace(epochs=lambda ordinal: (0, has_older, [(5, 50), (7, 70)]))
    manager._written_epochs = lambda state: read.append(state) or [EpochStart(2, 0), EpochStart(4, 40)]
    state = SimpleNamespace(leo=99, leader_epoch=7)
    end = manager.end_of_epoch(0, state, asked)
    assert end == {4: (4, 50), 5: (5, 70), 6: (5, 70)}[asked] and bool(read) is reads
    manager.log = SimpleNamespace(epochs=lambda ordinal: (0, False, []))
    assert manager.end_of_epoch(0, state, 4) == (4, 99)


def test_without_any_epoch_the_log_is_of_the_present_one():
    manager = LogManager.__new__(LogManager)
    manager.log = SimpleNamespace(epochs=lambda ordinal: (0, False, []))
    manager._written_epochs = lambda state: []
    state = SimpleNamespace(leo=99, leader_epoch=7)
    assert [manager.end_of_epoch(0, state, asked) for asked in (6, 7, 8)] == [(6, 0), (7, 99), (-1, -1)]


@pytest.mark.parametrize(("epoch", "start", "counts"), [(4, 19, True), (5, 19, False), (4, 20, False), (6, 19, False)])
def test_what_the_file_says_of_what_memory_knows_does_not_count(epoch, start, counts):
    """Of an epoch that both know, or of one that held no record."""
    written, kept = EpochStart(epoch, start), EpochStart(5, 20)
    assert merged_epochs([written], [kept], 30) == ([written, kept] if counts else [kept])
