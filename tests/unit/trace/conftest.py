"""A lane of sixteen records: its processor's end, then the tracer's."""

import os

import pytest

from mpbroker.trace import lane


@pytest.fixture
def both_ends():
    name = f"/mpbroker-test-{os.getpid()}-drain"
    made = lane.create(name, processor=2, boot_id=0x1234567890, capacity_records=16)
    try:
        yield made, lane.attach(name)
    finally:
        lane.unlink(name)
