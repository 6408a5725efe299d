"""The board of the cluster's controller: what was put up is read, with every broker's channel; nothing before."""

import os

import pytest

from mpbroker.shm import controller_board
from mpbroker.shm.controller_board import QUANTILES, ChannelFigures, ControllerFigures, TimerFigures

TIMER = TimerFigures(3, 120, tuple(range(len(QUANTILES))))


@pytest.fixture
def descriptor():
    made = controller_board.create()
    yield made
    os.close(made)


def test_the_last_figures_are_read(descriptor):
    assert controller_board.read(descriptor) is None
    channels = tuple(ChannelFigures(broker, 7 * broker, 5, TIMER) for broker in range(15))
    for figures in (ControllerFigures(True, 4, 3, 9, elections=TIMER, channels=channels), ControllerFigures(epoch=4)):
        controller_board.write(descriptor, figures)
        assert controller_board.read(descriptor) == figures


def test_half_a_write_is_nothing(descriptor):
    controller_board.write(descriptor, ControllerFigures(True, 4, channels=(ChannelFigures(1, 2, 3, TIMER),)))
    whole = os.pread(descriptor, 1000, 0)
    os.pwrite(descriptor, b"\xff", len(whole) - 1)
    assert controller_board.read(descriptor) is None
