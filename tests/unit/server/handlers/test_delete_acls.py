"""DeleteAcls: there is no authorizer; what says that it is of no kind closes its connection, as with Kafka."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_HANDLERS
from tests.harness.in_process_broker import InProcessBroker


def _of(user="User:u"):
    return DeleteAclsFilter(2, "t", 3, user, None, 3, 3)


@pytest.mark.parametrize("version", range(4))
def test_each_filter_is_refused(tmp_path, version):
    answer = InProcessBroker(tmp_path).call(DeleteAclsRequest([_of(), _of(None)]), version)
    assert [(one.error_code, one.matching_acls) for one in answer.filter_results] == [(54, []), (54, [])]
    assert InProcessBroker(tmp_path).call(DeleteAclsRequest([]), version).filter_results == []


@pytest.mark.parametrize("field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
def test_one_of_no_kind(tmp_path, field):
    odd = _of()
    setattr(odd, field, 0)
    broker = InProcessBroker(tmp_path, is_traced=True)
    assert broker.call(DeleteAclsRequest([_of(), odd]), 3) is None  # its connection is closed
    assert broker.core.row(SLOT_HANDLERS).counter(Counter.REQUESTS_REFUSED) == 1
    assert [record.error for record in broker.traced()] == [ErrorCode.INVALID_REQUEST]
