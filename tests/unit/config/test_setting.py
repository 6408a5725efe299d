"""One row of the table: what it allows, how it says so, what a wrong value gets."""

import pytest

from mpbroker.config.kinds import BadValue, Kind
from mpbroker.config.setting import Change, Setting, check_allowed, check_bounds
from mpbroker.errors import ConfigError

RATIO = Setting("some.ratio", Kind.DOUBLE, 0.5, "x.", least=0, most=1)
COUNT = Setting("some.count", Kind.INT, 1, "x.", least=1)
POLICY = Setting("some.policy", Kind.LIST, ("a",), "x.", allowed=("a", "b"))


@pytest.mark.parametrize(
    ("row", "text", "allowed"),
    [
        (RATIO, "1.5", "a number from 0 to 1"),
        (COUNT, "0", "a whole number, at least 1"),
        (COUNT, "one", "a whole number, at least 1"),
        (POLICY, "a,c", "one of a, b, separated by commas"),
        (Setting("s.on", Kind.BOOLEAN, True, "x."), "yes", "true or false"),
        (Setting("s.most", Kind.INT, 1, "x.", most=9), "10", "a whole number, at most 9"),
        (Setting("s.one", Kind.STRING, "a", "x.", allowed=("a",)), "b", "a"),
        (Setting("s.two", Kind.STRING, "a", "x.", allowed=("a", "b")), "c", "one of a, b"),
        (Setting("s.items", Kind.LIST, ("a",), "x.", allowed=("a",)), "b", "a, separated by commas"),
    ],
)
def test_a_wrong_value_names_key_value_and_what_is_allowed(row, text, allowed):
    with pytest.raises(ConfigError) as caught:
        row.parse(text)
    assert (caught.value.key, caught.value.value, caught.value.allowed) == (row.name, text, allowed)
    assert str(caught.value) == f"{row.name}={text}: must be {allowed}"


def test_right_values():
    assert RATIO.parse(" .75 ") == 0.75
    assert POLICY.parse("b, a") == ("b", "a")


def test_units_are_read_off_the_name():
    def unit(name):
        return Setting(name, Kind.INT, 1, "x.").unit

    assert [unit(name) for name in ("a.ms", "a.bytes", "log.roll.hours", "a.buffer.size", "num.partitions")] == [
        "milliseconds",
        "bytes",
        "hours",
        "bytes",
        "",
    ]


def test_reloadable_needs_a_dynamic_setting_that_asks_for_no_restart():
    def reloadable(**more):
        return Setting("a", Kind.INT, 1, "x.", **more).reloadable

    assert [
        reloadable(),
        reloadable(change=Change.CLUSTER_WIDE),
        reloadable(change=Change.PER_BROKER, restart=True),
    ] == [False, True, False]


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (Kind.LIST, "a list separated by commas"),
        (Kind.STRING, "a text"),
        (Kind.CLASS, "a text"),
        (Kind.PASSWORD, "a text"),
        (Kind.SHORT, "a whole number"),
        (Kind.LONG, "a whole number"),
        (Kind.DOUBLE, "a number"),
        (Kind.BOOLEAN, "true or false"),
    ],
)
def test_what_a_row_without_bounds_allows(kind, allowed):
    assert Setting("a", kind, None, "x.").allowed_text() == allowed


@pytest.mark.parametrize(
    ("least", "most", "fitting", "wrong"),
    [
        (1, 9, (1, 9, None), {0: "at least 1", 10: "no more than 9"}),
        (None, 0, (-5, 0), {1: "no more than 0"}),
        (0, None, (0, 5), {-1: "at least 0"}),
    ],
)
def test_both_bounds_are_allowed_and_nothing_beyond_them(least, most, fitting, wrong):
    for value in fitting:
        check_bounds(value, least, most)
    for value, sentence in wrong.items():
        with pytest.raises(BadValue, match=f"^{value}: Value must be {sentence}$"):
            check_bounds(value, least, most)


def test_each_item_of_a_list_is_one_of_those_allowed():
    for value in (None, (), ("a", "b"), "b"):
        check_allowed(value, ("a", "b"))
    check_allowed("anything", ())
    for value, item in ((("a", "c"), "c"), ("ab", "ab"), (("x", "y"), "x")):
        with pytest.raises(BadValue, match=f"^{item}: String must be one of: a, b$"):
            check_allowed(value, ("a", "b"))


def test_a_row_says_nothing_of_what_was_not_told():
    row = Setting("a", Kind.INT, 5, "x.")
    assert (row.scoped, row.restart, row.later, row.internal, row.change) == (
        False,
        False,
        False,
        False,
        Change.READ_ONLY,
    )
    assert (row.default_for(7), row._replace(from_cores=lambda cores: 3 * cores).default_for(7)) == (5, 21)
