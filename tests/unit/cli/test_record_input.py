"""Bytes to records: lines, JSON, whole files; nothing is lost, nothing is held back, nothing grows without bound."""

import os
import threading

import pytest

from mpbroker.cli import record_input
from mpbroker.cli.record_input import JSON, RAW, BadInput, Given, Item, items, lines
from mpbroker.client.producer import Outgoing

LINES = Given()


@pytest.fixture
def read(tmp_path):
    """The items of some bytes, as from a file."""

    def run(data, given=LINES, source=items):
        path = tmp_path / "input"
        path.write_bytes(data)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            found = source([descriptor], given) if source is items else source(descriptor)
            return [item for item in found if item is not None]
        finally:
            os.close(descriptor)

    return run


def test_every_line_is_a_record_also_an_empty_one_and_the_last(read):
    assert read(b"", source=lines) == []
    assert read(b"\n", source=lines) == [b""]
    assert read(b"one\n\n\xfftwo\nend", source=lines) == [b"one", b"", b"\xfftwo", b"end"]
    assert read(b"one\n\xff") == [Item(Outgoing(None, b"one")), Item(Outgoing(None, b"\xff"))]


def test_a_line_over_many_reads_is_one_record(read):
    long = b"x" * (3 * record_input.READ_BYTES + 5)
    assert read(long + b"\n" + long, source=lines) == [long, long]


def test_a_source_that_pauses_holds_nothing_back():
    reading, writing = os.pipe()
    found = lines(reading)
    os.write(writing, b"one\ntwo\nthr")
    assert [next(found), next(found), next(found)] == [b"one", b"two", None]
    threading.Timer(0.05, lambda: (os.write(writing, b"ee\n"), os.close(writing))).start()
    assert [line for line in found if line is not None] == [b"three"]
    os.close(reading)


@pytest.mark.parametrize("given", [Given(), Given(RAW)])
def test_a_record_is_bounded(read, monkeypatch, given):
    monkeypatch.setattr(record_input, "MAX_RECORD_BYTES", 3 * record_input.READ_BYTES)
    with pytest.raises(BadInput, match=f"longer than {3 * record_input.READ_BYTES} bytes"):
        read(b"x" * (4 * record_input.READ_BYTES), given)


def test_keys_headers_and_nulls_of_lines(read):
    given = Given(key_separator=b"::", header_separator=b"\t", null=b"-", headers=((b"all", b"1"),))
    found = [item.record for item in read(b"a=1,b\tk::v::w\n\t-::-\nc=\tno key", given)]
    assert found == [
        Outgoing(b"k", b"v::w", None, ((b"all", b"1"), (b"a", b"1"), (b"b", None))),
        Outgoing(None, None, None, ((b"all", b"1"),)),
        Outgoing(None, b"no key", None, ((b"all", b"1"), (b"c", b""))),
    ]
    with pytest.raises(BadInput, match="line 1: no headers"):
        read(b"plain", given)


def test_what_the_command_says_holds_for_every_record(read):
    given = Given(key=b"k", timestamp_ms=5, null=b"")
    assert [item.record for item in read(b"a\n\n", given)] == [Outgoing(b"k", b"a", 5), Outgoing(b"k", None, 5)]
    own_key = given._replace(key_separator=b":")
    assert [item.record.key for item in read(b"a\nb:c\n:d", own_key)] == [b"k", b"b", None]


def test_json_lines(read):
    line = (
        b'{"topic":"t","offset":9,"partition":2,"timestamp":7,"key":"k","value":{"base64":"/w=="},'
        b'"headers":[["a",null]]}'
    )
    assert read(line, Given(JSON)) == [Item(Outgoing(b"k", b"\xff", 7, ((b"a", None),)), 2)]
    defaults = Given(JSON, key=b"d", timestamp_ms=3)
    assert read(b'{"value":null}\n{"key":null,"value":"","headers":{"h":"v"}}', defaults) == [
        Item(Outgoing(b"d", None, 3)),
        Item(Outgoing(None, b"", 3, ((b"h", b"v"),))),
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"nonsense", "line 2: Expecting value"),
        (b"[1]", "line 2: must be a JSON object"),
        (b'{"vaule": "x"}', "line 2: unknown field 'vaule'"),
        (b'{"value": 5}', 'line 2: value must be a string, null or {"base64": "…"}, not 5'),
        (b'{"value": {"base64": "*"}}', "line 2: value is not valid base64"),
        (b'{"value": "x", "partition": -1}', "line 2: partition must be a whole number, 0 or more, not -1"),
        (b'{"value": "x", "timestamp": true}', "line 2: timestamp must be a whole number, 0 or more, not true"),
        (b'{"value": "x", "headers": [["a"]]}', "line 2: headers must be an object, or a list of pairs"),
        (b"\xff", "line 2: 'utf-8' codec can't decode"),
    ],
)
def test_a_line_that_is_no_record_is_named(read, line, sentence):
    with pytest.raises(BadInput) as caught:
        read(b'{"value": "fine"}\n' + line, Given(JSON))
    assert str(caught.value).startswith(sentence)


def test_a_whole_input_is_one_record(read):
    data = b"a\nb\n" * 50_000
    assert read(data, Given(RAW, key=b"k")) == [Item(Outgoing(b"k", data))]
