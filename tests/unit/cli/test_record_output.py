"""Records as text: kcat's fields, JSON that `produce` reads again, values that stay the bytes they are."""

import json
from types import SimpleNamespace

import pytest

from mpbroker.cli import record_output
from mpbroker.errors import ConfigError


def _record(key=b"k", value=b"v", headers=((b"a", b"1"), (b"b", None))):
    return SimpleNamespace(offset=7, timestamp=1000, key=key, value=value, headers=headers)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%t %p %o %T %k %K %s %S %h\n", b"orders 2 7 1000 k 1 v 1 a=1,b\n"),
        (r"100%% of \x41\t\r\0\\", b"100% of A\t\r\0\\"),
        ("no field", b"no field"),
        ("%s", b"v"),
        ("ü%s", "ü".encode() + b"v"),
    ],
)
def test_fields_and_escapes(text, printed):
    assert record_output.by_format(text, "orders", b"")(2, _record()) == printed


def test_null_is_shown_as_asked_and_has_no_size():
    empty = _record(None, None, ())
    assert record_output.by_format("%k|%K|%s|%S|%h", "t", b"NULL")(0, empty) == b"NULL|-1|NULL|-1|"
    assert record_output.plain(":", "\t", b"-")(0, empty) == b"\t-:-\n"
    assert record_output.plain(None, None, b"")(0, empty) == b"\n"


@pytest.mark.parametrize("text", ["%x", "%", r"\q", "\\", r"\xZZ"])
def test_what_a_format_cannot_mean_is_refused(text):
    with pytest.raises(ConfigError, match="--format"):
        record_output.by_format(text, "t", b"")


def test_keys_and_headers_stand_before_the_value_when_asked_for():
    binary = _record(b"\xff", b"\x00\xfe")
    assert record_output.plain(None, None, b"")(0, binary) == b"\x00\xfe\n"
    assert record_output.plain(":", None, b"")(0, binary) == b"\xff:\x00\xfe\n"
    assert record_output.plain(":", "\t", b"")(0, binary) == b"a=1,b\t\xff:\x00\xfe\n"


def test_json_has_everything_and_loses_no_byte():
    found = json.loads(record_output.as_json("orders")(2, _record(None, b"\xff")))
    assert found == {
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "timestamp": 1000,
        "key": None,
        "value": {"base64": "/w=="},
        "headers": [["a", "1"], ["b", None]],
    }
