"""Numbers in sentences."""

import pytest

from mpbroker.analysis.engine.input.durations import PIPELINE
from mpbroker.analysis.engine.running import wording


@pytest.mark.parametrize(
    "nanoseconds,words",
    [
        (0, "0 ns"),
        (640, "640 ns"),
        (4_200, "4.2 µs"),
        (4_200_000, "4.2 ms"),
        (123_456_789, "123 ms"),
        (999_999, "1 ms"),
        (61e9, "61 s"),
    ],
)
def test_durations(nanoseconds, words):
    assert wording.duration(nanoseconds) == words


def test_shares_counts_lists():
    assert [wording.share(each) for each in (0.714, 0.004, 0, 1)] == ["71 %", "0.4 %", "0 %", "100 %"]
    assert wording.counted(1, "request") == "1 request" and wording.counted(12_345, "request") == "12,345 requests"
    assert wording.listed(["a"]) == "a" and wording.listed(["a", "b", "c"]) == "a, b and c"
    assert wording.percentile_name(0.999) == "p99.9" and wording.percentile_name(0.5) == "p50"


def test_every_stage_has_words():
    assert set(PIPELINE) <= wording.DOING.keys()
