"""The first error code of a response: its own before those inside, in the order of the wire; for every API there is."""

import msgspec
import pytest

from mpbroker.protocol.first_error import finder_of, first_error
from mpbroker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from mpbroker.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from mpbroker.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from mpbroker.protocol.messages_by_key import RESPONSES
from mpbroker.protocol.schema import fields_of


def paths(cls, before=()):
    """Where error codes of a class are: tuples of field names; found apart from the code under test."""
    found = [(*before, name) for name in cls.__struct_fields__ if name.endswith("error_code")]
    for field in fields_of(cls):
        if field.struct is not None:
            found += paths(field.struct, (*before, field.name))
    return found


def with_code(cls, path, code):
    """A message of the class with nothing but that code."""
    name, *rest = path
    message = cls()
    if not rest:
        setattr(message, name, code)
        return message
    (field,) = (each for each in fields_of(cls) if each.name == name)
    inner = with_code(field.struct, rest, code)
    setattr(message, name, [field.struct(), inner] if field.array else inner)
    return message


@pytest.mark.parametrize("key", sorted(RESPONSES))
def test_a_code_is_found_wherever_a_response_can_hold_one(key):
    cls = RESPONSES[key]
    found = paths(cls)
    assert found, "no error code at all: such an API needs no finder, say so here"
    assert first_error(cls()) == 0
    for number, path in enumerate(found, 1):
        assert first_error(with_code(cls, path, number)) == number, path
        assert first_error(with_code(cls, path, -number)) == -number, path


def test_a_structs_own_code_counts_before_those_inside_it():
    topic = MetadataResponseTopic(error_code=5, partitions=[MetadataResponsePartition(error_code=9)])
    assert first_error(MetadataResponse(topics=[topic])) == 5
    assert first_error(MetadataResponse(topics=[topic], error_code=7)) == 7


def test_the_first_of_many_in_their_order():
    parts = [PartitionData(error_code=code) for code in (0, 3, 1)]
    topics = [FetchableTopicResponse(partitions=[PartitionData()]), FetchableTopicResponse(partitions=parts)]
    assert first_error(FetchResponse(responses=topics)) == 3
    assert first_error(FindCoordinatorResponse(coordinators=[Coordinator(), Coordinator(error_code=15)])) == 15


def test_a_struct_without_codes_has_no_finder():
    from mpbroker.protocol.messages.metadata import MetadataResponseBroker

    assert finder_of(MetadataResponseBroker) is None
    assert isinstance(MetadataResponseBroker(), msgspec.Struct) and first_error(MetadataResponseBroker()) == 0
