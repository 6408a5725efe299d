"""DescribeClientQuotas: a sound question finds nothing, others are refused with Kafka's codes."""

import pytest

from mpbroker.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "components",
    [[], [("user", 0, "u"), ("client-id", 1, None)], [("ip", 2, None)], [("user", 0, "")], [("ip", 0, "nowhere")]],
)
def test_nobody_has_any(tmp_path, components, strict):
    asked = DescribeClientQuotasRequest([ComponentData(*one) for one in components], strict)
    answer = InProcessBroker(tmp_path).call(asked, 1)
    assert (answer.error_code, answer.error_message, answer.entries) == (0, "", [])


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("nonsense", 2, None)], 35),
        ([("nonsense", 3, None)], 35),
        ([("", 2, None)], 42),
        ([("user", 0, None)], 42),
        ([("user", 1, "u")], 42),
        ([("user", 2, "u")], 42),
        ([("user", 3, None)], 42),
        ([("user", -1, None)], 42),
        ([("user", 2, None), ("user", 2, None)], 42),
        ([("user", 2, None), ("ip", 2, None)], 42),
    ],
)
def test_what_is_refused(tmp_path, components, code):
    asked = DescribeClientQuotasRequest([ComponentData(*one) for one in components])
    for version in (0, 1):
        answer = InProcessBroker(tmp_path).call(asked, version)
        assert (answer.error_code, answer.entries) == (code, None) and answer.error_message
