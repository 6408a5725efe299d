"""The board of dynamic settings: what was put up is read, half of a write is not."""

import os

import pytest

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.shm import settings_board


@pytest.fixture
def board():
    descriptor = settings_board.create()
    yield descriptor
    os.close(descriptor)


def test_the_last_settings_are_read(board):
    assert settings_board.read(board) is None
    for settings in (
        DynamicSettings({"a": "1" * 1000}, {"b": "ü"}, {"g": {"c": "3"}}),
        DynamicSettings({}, {"b": "2"}),
    ):
        settings_board.write(board, settings)
        assert settings_board.read(board) == settings


def test_a_writer_that_died_in_the_middle_leaves_nothing_to_read(board):
    settings_board.write(board, DynamicSettings({"a": "1"}, {}))
    whole = os.pread(board, 1000, 0)
    settings_board.write(board, DynamicSettings({"a": "2"}, {"b": "3"}))
    for kept in range(1, len(whole)):
        os.pwrite(board, whole[:kept], 0)
        assert settings_board.read(board) in (None, DynamicSettings({"a": "1"}, {}))
