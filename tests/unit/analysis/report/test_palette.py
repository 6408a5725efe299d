"""One colour per meaning, on both grounds, told apart by people who see red and green alike."""

import itertools

from mpbroker.analysis.engine.input.durations import PIPELINE
from mpbroker.analysis.report import palette


def _linear(color: str) -> tuple[float, ...]:
    values = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return tuple(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values)


def _luminance(color: str) -> float:
    return sum(part * value for part, value in zip((0.2126, 0.7152, 0.0722), _linear(color), strict=True))


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _as_deuteranope(color: str) -> tuple[float, ...]:
    """What red-green blindness leaves of a colour (Machado's matrix for deuteranopia)."""
    r, g, b = _linear(color)
    return (0.367 * r + 0.861 * g - 0.228 * b, 0.280 * r + 0.673 * g + 0.047 * b, -0.012 * r + 0.043 * g + 0.969 * b)


def test_every_stage_has_a_colour_in_its_order():
    assert tuple(palette.STAGES) == PIPELINE


def test_a_light_colour_has_one_dark_one():
    lights = [shade.light for shade in palette.all_shades()]
    assert len(lights) == len(set(lights)) == len(palette.dark_of_light())


def test_text_can_be_read_on_both_grounds():
    for name in ("ink", "muted", "accent", "good", "bad"):
        for ground in ("light", "dark"):
            for under in ("ground", "paper"):
                pair = getattr(palette.SURFACE[name], ground), getattr(palette.SURFACE[under], ground)
                assert _contrast(*pair) >= 4.5, (name, under, ground)


def test_neighbouring_stages_differ_without_red_and_green():
    for ground in ("light", "dark"):
        for one, other in itertools.pairwise(palette.STAGES.values()):
            a, b = (_as_deuteranope(getattr(shade, ground)) for shade, _ in (one, other))
            assert sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5 > 0.1, (one, other, ground)


def test_names_are_found_however_they_are_written():
    assert palette.named_shade("queue_ns") == palette.named_shade("Queue") == palette.STAGES["queue"][0]
    assert palette.named_shade("p99.9") == palette.PERCENTILES["p999"] == palette.named_shade("p999_us")
    assert palette.named_shade("remote") == palette.STAGES["purgatory"][0]
    assert palette.named_shade("waiting in the socket") == palette.STAGES["rx_wait"][0]
    assert palette.named_shade("my-client") is None
