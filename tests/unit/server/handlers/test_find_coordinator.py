"""FindCoordinator, while there is no coordinator."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize(
    ("version", "key_type", "code"),
    [
        (0, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (1, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, 2, ErrorCode.INVALID_REQUEST),
        (2, -1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_code_says_whether_to_ask_again(tmp_path, version, key_type, code):
    answer = InProcessBroker(tmp_path).call(FindCoordinatorRequest(key="group", key_type=key_type), version)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (code, -1, "", -1)
