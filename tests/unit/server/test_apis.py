"""The table of APIs: one row a key, versions in order, and the response to a request that fails as a whole."""

import pytest

from mpbroker.errors import ErrorCode, ProtocolError
from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.apis import ApiTable
from mpbroker.server.handlers import fetch, metadata
from tests.harness.in_process_broker import InProcessBroker


def test_a_key_registered_twice_ends_the_start():
    with pytest.raises(AssertionError, match="registered twice"):
        ApiTable((fetch.API, metadata.API, fetch.API), {})


def test_versions_are_in_the_order_of_the_keys():
    assert list(ApiTable((metadata.API, fetch.API), {}).versions().items()) == [(1, (4, 17)), (3, (0, 13))]


def test_a_failure_is_built_from_the_body_at_hand_or_from_the_frame(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.send(FetchRequest(), 11)
    request = broker.handler.port.serve_or_claim()
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    for message in (None, FetchRequest()):
        assert API_TABLE.failure(request, code, message) == fetch.failed(FetchRequest(), 11, code)
    assert broker.processor.submit(0, 1, 1, 0, bytes.fromhex("0001000b00000001ffff"), 0) >= 0
    with pytest.raises(ProtocolError):
        API_TABLE.failure(broker.handler.port.serve_or_claim(), code)
