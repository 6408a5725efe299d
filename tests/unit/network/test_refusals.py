"""Foreign protocols are recognised by the bytes that stand where a frame has its length; APIs are named."""

import pytest

from mpbroker.network.refusals import invalid_frame, unsupported

LEAST, MOST = 8, 104857600


def said(first: bytes) -> str:
    return invalid_frame(int.from_bytes(first, "big", signed=True), LEAST, MOST)


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"GET ", "HTTP (first bytes GET )"),
        (b"POST", "HTTP (first bytes POST)"),
        (b"PRI ", "HTTP/2"),
        (b"\x16\x03\x01\x02", "TLS; this listener is PLAINTEXT (first bytes 16 03 01 02)"),
        (b"SSH-", "SSH"),
        (b"\x80\x2e\x01\x03", "SSL 2"),
        (b"\r\n\r\n", "the PROXY protocol"),
        (b"\r\nxx", "a terminal"),
    ],
)
def test_what_other_protocols_begin_with(first, name):
    assert f"this looks like {name}" in said(first)


@pytest.mark.parametrize("length", [-1, 0, 7, 2_000_000_000])
def test_other_lengths_are_said_as_they_are(length):
    assert invalid_frame(length, LEAST, MOST) == f"frame of {length} bytes; 8 to 104857600 are allowed"


def test_http_is_the_number_that_was_logged_before():
    assert "HTTP" in invalid_frame(1195725856, LEAST, MOST)


def test_apis_and_versions_are_named():
    assert unsupported(11, 5, None) == "JoinGroup (API key 11) is not served; docs/skipped.md lists what is missing"
    assert unsupported(1, 17, (4, 11)) == "Fetch version 17 is not served, only 4 to 11"
    assert unsupported(4242, 0, None).startswith("Api4242 (API key 4242) is not served")
