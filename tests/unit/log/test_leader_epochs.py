"""Where a leader epoch ended, by Kafka's checkpoint of epochs."""

import pytest

from mpbroker.log.leader_epochs import EpochStart, end_of_epoch, merged_epochs, read_epochs

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
    assert merged_epochs(EPOCHS, [EpochStart(*each) for each in kept]) == known
