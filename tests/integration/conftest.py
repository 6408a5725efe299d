"""One broker for a file's tests: started by exec on free ports, stopped cleanly, nothing of it left behind."""

import pytest

from tests.harness.broker import Broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A running broker with default settings; its stop checks exit code, processes and /dev/shm."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running
