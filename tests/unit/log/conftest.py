"""The world of the log keeper's tests, and what of the machine is kept out of it."""

import os

import pytest

from tests.unit.log.log_world import LogWorld


@pytest.fixture
def world(tmp_path):
    made = LogWorld(tmp_path)
    yield made
    made.close()


@pytest.fixture
def no_umask():
    """What is made has the mode that its maker asks for."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def no_waiting_for_the_disk(monkeypatch):
    """Where what is tested is what is decided or written, not that the disk keeps it."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
