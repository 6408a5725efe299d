"""How a log line names a request: as its trace record does, and whoever its client says it is."""

from types import SimpleNamespace

import pytest

from mpbroker.channel.request_log import client_id, naming

HEADER = b"\0\x03\0\x01\0\0\0\x07"  # Metadata 1, correlation 7


def request(generation=5, payload=HEADER + b"\0\x02me", client="", processor=3):
    return SimpleNamespace(
        connection_generation=generation,
        client_id=client,
        payload=payload,
        processor=processor,
        api_key=3,
        api_version=1,
    )


@pytest.mark.parametrize(
    ("processor", "generation", "connection"),
    [
        (0, 5, 5),
        (3, 5, 3 << 27 | 5),
        (1, (1 << 27) - 1, (1 << 28) - 1),
        (1, 1 << 27, 1 << 27),
        (2, (1 << 27) + 9, (2 << 27) + 9),
    ],
)
def test_a_connection_has_the_number_of_its_trace_records(processor, generation, connection):
    assert naming(request(generation, processor=processor)) == {
        "api": "Metadata",
        "version": 1,
        "client_id": "me",
        "connection": connection,
    }


@pytest.mark.parametrize(
    ("client", "payload", "named"),
    [
        ("read", HEADER + b"\0\x02me", "read"),
        ("", HEADER + b"\0\x02me", "me"),
        ("", HEADER + b"\xff\xff", ""),
        ("", HEADER, ""),
        ("", b"", ""),
    ],
)
def test_a_client_is_named_as_far_as_it_can_be_read(client, payload, named):
    assert client_id(request(payload=payload, client=client)) == named
