"""DescribeAcls: there is no authorizer; what says that it is of no kind closes its connection, as with Kafka."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.describe_acls import DescribeAclsRequest
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_HANDLERS
from tests.harness.in_process_broker import InProcessBroker

ASKED = DescribeAclsRequest(2, "t", 3, "User:u", "*", 3, 3)


@pytest.mark.parametrize("version", range(4))
def test_security_is_off(tmp_path, version):
    answer = InProcessBroker(tmp_path).call(ASKED, version)
    assert (answer.error_code, answer.resources) == (54, []) and answer.error_message


@pytest.mark.parametrize("field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
def test_a_filter_of_no_kind(tmp_path, field):
    asked = DescribeAclsRequest(2, "t", 3, "User:u", "*", 3, 3)
    setattr(asked, field, 0)
    broker = InProcessBroker(tmp_path, is_traced=True)
    assert broker.call(asked, 3) is None  # its connection is closed
    assert broker.core.row(SLOT_HANDLERS).counter(Counter.REQUESTS_REFUSED) == 1
    assert [record.error for record in broker.traced()] == [ErrorCode.INVALID_REQUEST]
