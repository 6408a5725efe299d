"""One row of the table: what it allows, how it says so, what a wrong value gets."""

import pytest

from mpbroker.config.kinds import Kind
from mpbroker.config.setting import Change, Setting
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
