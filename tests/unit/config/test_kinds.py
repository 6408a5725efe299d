"""Parsing and printing of values as Kafka's ConfigDef does it."""

import pytest

from mpbroker.config.kinds import BadValue, Kind, parse, render


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.INT, " +5 ", 5),
        (Kind.INT, "-2147483648", -(2**31)),
        (Kind.LONG, "9223372036854775807", 2**63 - 1),
        (Kind.LONG, "-9223372036854775808", -(2**63)),
        (Kind.SHORT, "32767", 32767),
        (Kind.SHORT, "-32768", -32768),
        (Kind.BOOLEAN, " TRUE", True),
        (Kind.BOOLEAN, "False", False),
        (Kind.DOUBLE, ".5f", 0.5),
        (Kind.DOUBLE, "1e-1", 0.1),
        (Kind.LIST, "", ()),
        (Kind.LIST, " a , b ", ("a", "b")),
        (Kind.STRING, "  x y ", "x y"),
        (Kind.STRING, "\t!x!\x00 ", "!x!"),
    ],
)
def test_parse(kind, text, value):
    assert parse(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (Kind.INT, "2147483648", "Not a number of type INT"),
        (Kind.LONG, "1_000", "Not a number of type LONG"),
        (Kind.LONG, "", "Not a number of type LONG"),
        (Kind.LONG, "0x10", "Not a number of type LONG"),
        (Kind.LONG, "5.0", "Not a number of type LONG"),
        (Kind.INT, "-2147483649", "Not a number of type INT"),
        (Kind.LONG, "9223372036854775808", "Not a number of type LONG"),
        (Kind.LONG, "-9223372036854775809", "Not a number of type LONG"),
        (Kind.SHORT, "32768", "Not a number of type SHORT"),
        (Kind.SHORT, "-32769", "Not a number of type SHORT"),
        (Kind.LONG, "9" * 100_000, "Not a number of type LONG"),
        (Kind.DOUBLE, "x", "Not a number of type DOUBLE"),
        (Kind.DOUBLE, "nan", "Not a number of type DOUBLE"),
        (Kind.BOOLEAN, "1", "Expected value to be either true or false"),
    ],
)
def test_parse_refuses(kind, text, sentence):
    with pytest.raises(BadValue) as caught:
        parse(kind, text)
    assert caught.value.sentence == sentence
    assert caught.value.shown == text and str(caught.value) == f"{text}: {sentence}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.25, "0.25"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-2.5e-7, "-2.5E-7"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (0.0, "0.0"),
        (123456789012.0, "1.23456789012E11"),
    ],
)
def test_doubles_are_printed_as_java_does(value, text):
    assert render(Kind.DOUBLE, value) == text


def test_render():
    assert render(Kind.BOOLEAN, True) == "true"
    assert render(Kind.LIST, ("compact", "delete")) == "compact,delete"
    assert render(Kind.LIST, ()) == ""
    assert render(Kind.LONG, None) is None
    assert render(Kind.LONG, -1) == "-1"


def test_the_codes_of_kinds_are_those_of_describe_configs():
    codes = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8}
    assert {kind.name: int(kind) for kind in Kind} == codes | {"PASSWORD": 9}


@pytest.mark.parametrize(("length", "allowed"), [(399, True), (400, True), (401, False)])
@pytest.mark.parametrize(("kind", "value"), [(Kind.LONG, 7), (Kind.DOUBLE, 7.0)])
def test_a_number_has_at_most_four_hundred_characters(kind, value, length, allowed):
    text = "7".rjust(length, "0")
    if allowed:
        assert parse(kind, text) == value
        return
    with pytest.raises(BadValue, match="Not a number"):
        parse(kind, text)
