"""The world of the log keeper's tests."""

import pytest

from tests.unit.log.log_world import LogWorld


@pytest.fixture
def world(tmp_path):
    made = LogWorld(tmp_path)
    yield made
    made.close()
