"""The table of APIs: one row a key, versions in order, and the response to a request that fails as a whole."""

import pytest

from mpbroker.errors import ErrorCode, ProtocolError
from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.apis import ApiTable
from mpbroker.server.handlers import fetch, metadata
from tests.harness.in_process_broker import InProcessBroker

VERSIONS = {
    0: (0, 13),
    1: (4, 17),
    2: (1, 10),
    3: (0, 13),
    8: (2, 9),
    9: (1, 9),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 5),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (0, 7),
    20: (0, 6),
    21: (0, 2),
    22: (0, 5),
    23: (0, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (0, 1),
    28: (0, 5),
    29: (0, 3),
    30: (0, 3),
    31: (0, 3),
    32: (0, 4),
    33: (0, 2),
    34: (0, 2),
    35: (0, 4),
    36: (0, 2),
    37: (0, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 0),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    50: (0, 0),
    57: (0, 1),
    60: (0, 1),
    61: (0, 0),
    65: (0, 0),
    66: (0, 1),
    68: (0, 1),
    69: (0, 1),
    74: (0, 1),
    75: (0, 0),
    76: (1, 1),
    77: (1, 1),
    78: (1, 2),
    79: (1, 2),
}


def test_a_key_registered_twice_ends_the_start():
    with pytest.raises(AssertionError, match="registered twice"):
        ApiTable((fetch.API, metadata.API, fetch.API), {})


def test_versions_are_in_the_order_of_the_keys():
    assert list(ApiTable((metadata.API, fetch.API), {}).versions().items()) == [(1, (4, 17)), (3, (0, 13))]


def test_each_version_that_clients_may_negotiate_is_one_that_was_meant():
    """A version more is one whose fields nobody has looked at; one less is a client that cannot connect any more."""
    assert API_TABLE.versions() == VERSIONS


def test_what_brokers_send_each_other_is_served_on_their_listeners_alone():
    between = {4: (0, 7), 5: (0, 4), 6: (0, 8), 7: (0, 3), 56: (0, 3), 67: (0, 0)}
    assert API_TABLE.versions(for_brokers=True) == dict(sorted((VERSIONS | between).items()))


@pytest.mark.parametrize("key", sorted(API_TABLE.seldom))
def test_the_versions_of_a_handler_that_is_seldom_needed_are_those_of_its_row(key):
    found = API_TABLE.get(key)
    assert (found.key, found.versions, found.served_from) == (key, API_TABLE.seldom[key], 0)


def test_what_is_advertised_is_served_but_for_the_oldest_writes():
    served = {key: API_TABLE.get(key) for key in (0, 1, 2, 3, 10, 18, 22)}
    assert {key: (api.versions, api.served_from) for key, api in served.items()} == {
        0: ((0, 13), 3),
        1: ((4, 17), 0),
        2: ((1, 10), 0),
        3: ((0, 13), 0),
        10: ((0, 6), 0),
        18: ((0, 4), 0),
        22: ((0, 5), 0),
    }


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


def test_a_row_that_is_seldom_needed_is_loaded_once_and_no_other():
    loaded = []

    def load(key):
        loaded.append(key)
        return fetch.API

    table = ApiTable((metadata.API,), {}, {1: (4, 17)}, load)
    assert table.get(99) is None and table.get(3) is metadata.API and loaded == []
    assert table.get(1) is fetch.API and table.get(1) is fetch.API and loaded == [1]
