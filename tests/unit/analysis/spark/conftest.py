"""The trace that the tests of this package read: two brokers of the event model, several small segments each."""

import pytest

from tests.harness.event_model import Scenario, simulate
from tests.harness.event_trace import TraceOptions, write_trace


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    """A folder with a trace: broker 1 in `a`, broker 2 in `b`, 100 requests to a segment."""
    folder = tmp_path_factory.mktemp("model-trace")
    write_trace(folder / "a", simulate(Scenario(elections_ms=(900,))), TraceOptions(segment_records=100))
    write_trace(folder / "b", simulate(Scenario(seed=2)), TraceOptions(broker_id=2, boot_id=77, segment_records=100))
    return folder
