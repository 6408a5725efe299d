"""DescribeCluster: the broker by the listener that was asked, and endpoints that it is not."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from mpbroker.server.handlers.metadata import CLUSTER_OPERATIONS, OPERATIONS_UNKNOWN
from tests.harness.in_process_broker import CLUSTER_ID, InProcessBroker


@pytest.mark.parametrize("wanted", [False, True])
def test_the_broker_as_the_listener_shows_it(tmp_path, wanted):
    answer = InProcessBroker(tmp_path).call(DescribeClusterRequest(include_cluster_authorized_operations=wanted), 1)
    [one] = answer.brokers
    assert (one.host, one.port, answer.cluster_id) == ("broker.example", 19092, CLUSTER_ID)
    assert answer.controller_id == one.broker_id
    assert answer.cluster_authorized_operations == (CLUSTER_OPERATIONS if wanted else OPERATIONS_UNKNOWN)


@pytest.mark.parametrize(
    ("kind", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_a_broker_answers_for_no_other_endpoints(tmp_path, kind, code):
    answer = InProcessBroker(tmp_path).call(DescribeClusterRequest(endpoint_type=kind), 1)
    assert (answer.error_code, bool(answer.error_message), answer.brokers) == (code, True, [])
