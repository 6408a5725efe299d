"""What --from and --timestamp understand."""

import pytest

from mpbroker.cli import moments, start_offsets
from mpbroker.errors import ConfigError


@pytest.fixture
def reads(monkeypatch):
    """start_offsets of a topic whose partition 0 holds 100 to 200 and 1 is empty; a time is its own offset."""

    def offsets_for(client, topic, partitions, timestamp):
        known = {start_offsets.EARLIEST: {0: 100, 1: 0}, start_offsets.LATEST: {0: 200, 1: 0}}
        return {number: known.get(timestamp, {}).get(number, timestamp) for number in partitions}

    monkeypatch.setattr(start_offsets, "offsets_for", offsets_for)
    return lambda text: start_offsets.start_offsets(None, "t", [0, 1], start_offsets.check(text))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("earliest", {0: 100, 1: 0}),
        ("beginning", {0: 100, 1: 0}),
        ("latest", {0: 200, 1: 0}),
        ("end", {0: 200, 1: 0}),
        ("150", {0: 150, 1: 150}),
        ("-10", {0: 190, 1: 0}),
        ("-500", {0: 100, 1: 0}),
        ("@1764000000000", {0: 1764000000000, 1: 1764000000000}),
        ("s@1764000000000", {0: 1764000000000, 1: 1764000000000}),
        ("2025-11-24T16:00:00", {0: 1764000000000, 1: 1764000000000}),
        ("@2025-11-24T17:00:00+01:00", {0: 1764000000000, 1: 1764000000000}),
        ("2025-11-24", {0: 1763942400000, 1: 1763942400000}),
    ],
)
def test_where_to_begin(reads, text, found):
    assert reads(text) == found


@pytest.mark.parametrize("text", ["noon", "", "-", "@", "--5", "1" * 20, "e@5", "20251124", "2025-13-01", "@-5", "²"])
def test_what_cannot_be_meant(reads, text):
    if text == "20251124":  # an offset, not a date
        assert reads(text) == {0: 20251124, 1: 20251124}
        return
    with pytest.raises(ConfigError, match="--from"):
        reads(text)


@pytest.mark.parametrize("text", ["yesterday", "-5", "1969-12-31", "9" * 19, ""])
def test_a_moment_that_is_none(text):
    with pytest.raises(ConfigError, match="--timestamp"):
        moments.epoch_ms("--timestamp", text)


def test_moments():
    assert moments.epoch_ms("t", "5") == 5
    assert moments.epoch_ms("t", "1970-01-01T00:00:01.5") == 1500
