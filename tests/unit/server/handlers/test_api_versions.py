"""ApiVersions: what is advertised, and what a client of another time is told."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.codec import decode
from mpbroker.protocol.group_apis import BY_KEY as GROUP_APIS
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mpbroker.server.api_table import API_TABLE
from tests.harness.in_process_broker import InProcessBroker

CLIENT = {"client_software_name": "apache-kafka-java", "client_software_version": "3.9.0"}


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_row_of_the_table_is_advertised_in_the_order_of_the_keys(broker, version):
    answer = broker.call(ApiVersionsRequest(**CLIENT), version)
    assert answer.error_code == 0
    advertised = [(one.api_key, (one.min_version, one.max_version)) for one in answer.api_keys]
    assert advertised == sorted(API_TABLE.versions().items())
    assert {api.key for api in GROUP_APIS.values()} <= {key for key, _ in advertised}


def test_a_newer_version_is_answered_in_version_0_with_the_versions_of_this_api_alone(broker):
    frame = bytearray(encode_request_frame(ApiVersionsRequest(**CLIENT), 4, 1)[4:])
    frame[2:4] = (5).to_bytes(2, "big")
    assert broker.processor.submit(0, 1, 1, 0, bytes(frame), 0) >= 0
    broker.step()
    [(_, _, frame)] = broker.collect()
    answer = decode(ApiVersionsResponse, 0, frame, 8)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a-", "1"), ("a b", "1"), ("a", "1_0"), ("ü", "1")]
)
def test_a_client_whose_software_has_no_legal_name_is_refused(broker, name, version):
    answer = broker.call(ApiVersionsRequest(client_software_name=name, client_software_version=version), 3)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (2, []),
        (3, ["metadata.version"]),
        (4, ["kraft.version", "metadata.version", "transaction.version", "group.version"]),
    ],
)
def test_features_are_those_of_kafka_and_one_from_level_0_on_is_for_version_4(broker, version, names):
    """A finalized level is told in any version that has features."""
    answer = broker.call(ApiVersionsRequest(**CLIENT), version)
    assert [one.name for one in answer.supported_features] == names
    finalized = [(one.name, one.max_version_level) for one in answer.finalized_features]
    assert finalized == ([("metadata.version", 21), ("transaction.version", 2), ("group.version", 1)] if names else [])
    assert answer.finalized_features_epoch == (0 if names else -1)
