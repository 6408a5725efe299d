"""The board of the controller's figures: written every half second while it is elected, and once when it is not."""

import os

import pytest

from mpbroker.controller.controller_figures import SHOW_MS, FiguresBoard
from mpbroker.shm import controller_board
from mpbroker.shm.controller_board import ControllerFigures
from tests.unit.cluster.controller_bench import ControllerBench

WALL_MS = 1_700_000_000_000


@pytest.fixture
def fd():
    made = controller_board.create()
    yield made
    os.close(made)


def test_who_is_elected_shows_what_it_knows(fd):
    bench = ControllerBench()
    bench.create(assignments=([1, 2], [2, 3]))
    bench.lose(1)
    FiguresBoard(fd).show(bench.controller, 0, WALL_MS)
    shown = controller_board.read(fd)
    assert (shown.is_active, shown.epoch) == (True, 1)
    assert (shown.topics, shown.partitions, shown.brokers, shown.offline_partitions) == (1, 2, 2, 0)
    assert shown.imbalance == bench.controller.imbalance() == 1
    assert [one.broker for one in shown.channels] == sorted(bench.controller.targets())
    assert shown.event_queue_time.count == bench.controller.metrics.event_queue_time.count


def test_a_figure_is_as_old_as_half_a_second_at_most(fd):
    bench, board = ControllerBench(), FiguresBoard(fd)
    board.show(bench.controller, 1000, WALL_MS)
    bench.create(assignments=([1, 2],))
    bench.lose(1, 2)
    for now_ms, partitions in ((1001, 0), (1000 + SHOW_MS - 1, 0), (1000 + SHOW_MS, 1)):
        board.show(bench.controller, now_ms, WALL_MS)
        assert controller_board.read(fd).partitions == partitions
    assert controller_board.read(fd).offline_partitions == 1


def test_who_is_elected_no_more_says_so_at_once_and_once(fd):
    bench, board = ControllerBench(), FiguresBoard(fd)
    board.show(None, 0, WALL_MS)
    assert controller_board.read(fd) == ControllerFigures()
    board.show(bench.controller, 1, WALL_MS)
    assert controller_board.read(fd).is_active
    board.show(None, 2, WALL_MS)
    assert controller_board.read(fd) == ControllerFigures(epoch=1), "the last term that it had"
    controller_board.write(fd, ControllerFigures(epoch=99))
    board.show(None, 10 * SHOW_MS, WALL_MS)
    assert controller_board.read(fd).epoch == 99, "there is nothing new to write"
    bench.elect()
    board.show(bench.controller, 10 * SHOW_MS + 1, WALL_MS)
    assert controller_board.read(fd).epoch == 2


def test_without_a_board_nothing_is_written():
    FiguresBoard(-1).show(ControllerBench().controller, 0, WALL_MS)


def test_partitions_are_counted_once_for_what_is_in_the_store(fd, monkeypatch):
    bench, board, counted = ControllerBench(), FiguresBoard(fd), []
    bench.create(assignments=([1, 2], [2, 3]))
    imbalance = bench.controller.imbalance
    monkeypatch.setattr(bench.controller, "imbalance", lambda: counted.append(1) or imbalance())
    for turn in range(3):
        board.show(bench.controller, turn * SHOW_MS, WALL_MS)
    assert len(counted) == 1
    bench.lose(1)
    board.show(bench.controller, 3 * SHOW_MS, WALL_MS)
    assert len(counted) == 2 and controller_board.read(fd).imbalance == 1
    board.show(None, 3 * SHOW_MS, WALL_MS)
    board.show(bench.controller, 3 * SHOW_MS, WALL_MS)
    assert len(counted) == 3, "another term counts for itself"
