"""A request that fails as a whole: every row of the API table answers with the code, for each thing that was asked for,
and by its name, in every version that it serves."""

from itertools import count

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.messages_by_key import RESPONSES
from mpbroker.protocol.schema import fields_of
from mpbroker.protocol.types import Struct
from mpbroker.server.api_table import API_TABLE
from tests.unit.server.test_apis import VERSIONS

CODE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
#: API key → codes, and names of what was asked for, in the answer to a request of the newest version with two of
#: everything. One that is not here has one code and no name.
ASKED_FOR = {
    0: (4, 2),  # ProduceRequest
    2: (4, 2),  # ListOffsetsRequest
    3: (3, 4),  # MetadataRequest
    4: (5, 2),  # LeaderAndIsrRequest
    5: (5, 4),  # StopReplicaRequest
    10: (2, 2),  # FindCoordinatorRequest
    19: (2, 2),  # CreateTopicsRequest
    20: (2, 4),  # DeleteTopicsRequest
    21: (4, 2),  # DeleteRecordsRequest
    23: (4, 2),  # OffsetForLeaderEpochRequest
    30: (2, 0),  # CreateAclsRequest
    31: (2, 0),  # DeleteAclsRequest
    32: (2, 2),  # DescribeConfigsRequest
    33: (2, 2),  # AlterConfigsRequest
    34: (8, 4),  # AlterReplicaLogDirsRequest
    37: (2, 2),  # CreatePartitionsRequest
    43: (5, 2),  # ElectLeadersRequest
    44: (2, 2),  # IncrementalAlterConfigsRequest
    61: (4, 2),  # DescribeProducersRequest
    75: (2, 2),  # DescribeTopicPartitionsRequest
    77: (2, 2),  # ShareGroupDescribeRequest
}
ONE = (1, 0)
#: DescribeLogDirs had no place for a code of all before.
SINCE = {35: 3}
KEYS = [key for key in API_TABLE.versions(True) if API_TABLE.get(key) is not None]


def two_of_everything(cls, version, numbers):
    """A request whose names all differ."""
    values = {}
    for field in fields_of(cls):
        if field.present(version) and field.tag is None:
            made = [_element(field, version, numbers) for _ in range(2 if field.array else 1)]
            values[field.name] = made if field.array else made[0]
    return cls(**values)


def _element(field, version, numbers):
    if field.kind == "struct":
        return two_of_everything(field.struct, version, numbers)
    number = next(numbers)
    if field.kind == "string":
        return f"name {number}"
    if field.kind in ("bool", "float64"):
        return field.kind == "bool" or 0.5
    if field.kind == "uuid":
        return bytes([number] * 16)
    return number if "int" in field.kind else b""


def values_of(one, name=""):
    """(name of its field, value) of all that a message holds."""
    if isinstance(one, Struct):
        for field in one.__struct_fields__:
            yield from values_of(getattr(one, field), field)
    elif isinstance(one, list):
        for each in one:
            yield from values_of(each, name)
    else:
        yield name, one


@pytest.mark.parametrize("key", KEYS)
def test_everything_that_was_asked_for_fails(key):
    api = API_TABLE.get(key)
    assert api.versions == API_TABLE.versions(True)[key] == VERSIONS.get(key, api.versions)
    for version in range(max(api.versions[0], api.served_from), api.versions[1] + 1):
        asked = two_of_everything(api.request, version, count(1))
        answer = api.failed(asked, version, CODE)
        read = decode(RESPONSES[key], version, encode(answer, version))
        told = CODE in [value for name, value in values_of(read) if name == "error_code"]
        assert told == (version >= SINCE.get(key, 0)), version
    codes = [value for name, value in values_of(answer) if name == "error_code" and value]
    names = {value for _, value in values_of(asked) if isinstance(value, str | bytes) and value}
    named = [value for _, value in values_of(answer) if isinstance(value, str | bytes) and value in names]
    assert set(codes) == {CODE}
    assert (len(codes), len(named)) == ASKED_FOR.get(key, ONE)
