"""CreateAcls: there is no authorizer; what says that it is of no kind closes its connection, as with Kafka."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_HANDLERS
from tests.harness.in_process_broker import InProcessBroker


def _read(name="t"):
    return AclCreation(2, name, 3, "User:u", "*", 3, 3)


@pytest.mark.parametrize("version", range(4))
def test_each_is_refused(tmp_path, version):
    answer = InProcessBroker(tmp_path).call(CreateAclsRequest([_read(), _read("s")]), version)
    assert [one.error_code for one in answer.results] == [54, 54] and answer.results[0].error_message
    assert InProcessBroker(tmp_path).call(CreateAclsRequest([]), version).results == []


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_one_of_no_kind(tmp_path, field):
    odd = _read()
    setattr(odd, field, 0)
    broker = InProcessBroker(tmp_path, is_traced=True)
    assert broker.call(CreateAclsRequest([_read(), odd]), 3) is None  # its connection is closed
    assert broker.core.row(SLOT_HANDLERS).counter(Counter.REQUESTS_REFUSED) == 1
    assert [record.error for record in broker.traced()] == [ErrorCode.INVALID_REQUEST]
