"""The colours of every figure: warm is waiting, cool is working, grey-violet waits on purpose. Pure data.

Runs in the process of a command. Each name has two shades, one for light and one for dark ground. Warm against cool,
with lightness alternating along a request's way, keeps the stages apart for readers who see red and green alike.
"""

import re
from typing import NamedTuple

from mpbroker.analysis.engine.running.wording import STAGE_NAMES


class Shade(NamedTuple):
    """One colour on light and on dark ground, `#rrggbb`."""

    light: str
    dark: str


SURFACE = {
    "ground": Shade("#f6f7f9", "#0e131a"),
    "paper": Shade("#ffffff", "#161d27"),
    "ink": Shade("#18212d", "#e7ecf3"),
    "muted": Shade("#566273", "#9aa7b8"),
    "line": Shade("#dde3ea", "#2a3442"),
    "grid": Shade("#e8ecf1", "#252f3c"),
    "accent": Shade("#1f5fa8", "#7fb4ee"),
    "good": Shade("#1f7a72", "#4db3a7"),
    "bad": Shade("#b5470f", "#e0702f"),
    "wash": Shade("#eef2f7", "#1c2531"),
}

#: In the order of a request's way; (shade, what it is).
STAGES = {
    "rx_wait": (Shade("#7a2e0e", "#c05a2e"), "in the socket's buffer, before the broker read it"),
    "read": (Shade("#9ccbc5", "#9fd8d1"), "behind earlier requests of its connection, and its frame itself"),
    "parse": (Shade("#5fa39c", "#2f7d75"), "header, checks, into shared memory"),
    "ring_block": (Shade("#b5470f", "#e0702f"), "held back, because the request ring was full"),
    "queue": (Shade("#e8731a", "#ff9440"), "in the request ring, until a handler took it"),
    "dispatch": (Shade("#a9c6e8", "#bcd6f5"), "taken, until its handler began"),
    "io": (Shade("#123f78", "#3c6eb4"), "reading or appending to the log"),
    "local": (Shade("#3a7bc8", "#6aa5ea"), "the rest of the handler's work"),
    "purgatory": (Shade("#a39bb8", "#8a83a1"), "parked on purpose: for data, for acks, for a group"),
    "resp_prep": (Shade("#6f8fb0", "#7f9cc0"), "encoding the answer"),
    "resp_queue": (Shade("#f3a13c", "#ffb85c"), "in the response ring"),
    "send_wait": (Shade("#f2cb6c", "#ffe08f"), "until the socket took the first byte"),
    "send": (Shade("#1f7a72", "#4db3a7"), "the answer's first byte to its last"),
}
WAITING = ("rx_wait", "ring_block", "queue", "resp_queue", "send_wait")

#: Kafka's own names, where they mean one of ours or a sum led by it.
STAGE_ALIASES = {
    "request_queue": "queue",
    "local_time": "local",
    "remote": "purgatory",
    "response_queue": "resp_queue",
    "response_send": "send",
    "response_preparation": "resp_prep",
    "off_cpu": "queue",
    "queued": "queue",
    "in_the_rest_of_the_broker": "local",
}

#: Percentiles get darker (lighter on dark ground) the farther out they are.
PERCENTILES = {
    "p50": Shade("#9fb6d0", "#587397"),
    "p90": Shade("#7a9cc6", "#6486b5"),
    "p95": Shade("#5f88bb", "#7b9ccb"),
    "p99": Shade("#3f6ea8", "#94b4e0"),
    "p999": Shade("#6b4a97", "#c2a8e8"),
    "p9999": Shade("#8a2f6b", "#ec9fd0"),
    "max": Shade("#18212d", "#e7ecf3"),
    "mean": Shade("#1f7a72", "#4db3a7"),
}

NAMED = {
    "total": SURFACE["ink"],
    "active_total": SURFACE["ink"],
    "true_total": SURFACE["ink"],
    "kafka_total": Shade("#6b7f96", "#8fa3ba"),
    "control": Shade("#e8731a", "#ff9440"),
    "data": Shade("#3a7bc8", "#6aa5ea"),
    "errors": Shade("#b5470f", "#e0702f"),
    "produce": Shade("#3a7bc8", "#6aa5ea"),
    "fetch": Shade("#1f7a72", "#4db3a7"),
    "metadata": Shade("#c9628f", "#ec93b8"),
    "baseline": Shade("#6b7f96", "#8fa3ba"),
    "candidate": Shade("#e8731a", "#ff9440"),
    "steady": Shade("#3a7bc8", "#6aa5ea"),
    "requests_s": Shade("#3a7bc8", "#6aa5ea"),
    "in_flight": Shade("#c9628f", "#ec93b8"),
    "other": Shade("#a39bb8", "#8a83a1"),
}

#: For everything without a colour of its own, in order of appearance.
CATEGORIES = (
    Shade("#3a7bc8", "#6aa5ea"),
    Shade("#1f7a72", "#4db3a7"),
    Shade("#c9628f", "#ec93b8"),
    Shade("#d9a514", "#f0c95a"),
    Shade("#8662b3", "#b596e0"),
    Shade("#6b7f96", "#8fa3ba"),
    Shade("#7a2e0e", "#c05a2e"),
    Shade("#12a0c4", "#5fcdea"),
)

#: Sequential scale of heat maps, from nothing to much.
HEAT = (
    Shade("#f3f6fa", "#1a2430"),
    Shade("#cfe0f0", "#213f63"),
    Shade("#8fb8de", "#2f69a5"),
    Shade("#4a8ac6", "#5fa0df"),
    Shade("#1f5c9e", "#a8cdf2"),
    Shade("#0d2f5c", "#f4f8fd"),
)
#: Diverging scale: less, nothing, more.
DIVERGING = (Shade("#2a63a3", "#6aa5ea"), Shade("#e8ecf1", "#252f3c"), Shade("#b5470f", "#e0702f"))


_OF_PLAIN_NAME = {plain: stage for stage, plain in STAGE_NAMES.items() if stage in STAGES}


def _key(name: str) -> str:
    """A name as the tables here have it."""
    key = (
        re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_").removesuffix("_ns").removesuffix("_us").removesuffix("_ms")
    )
    return _OF_PLAIN_NAME.get(name, STAGE_ALIASES.get(key, key))


def stage_of(name: str) -> str | None:
    """The stage that a series' name stands for."""
    key = _key(name)
    return key if key in STAGES else None


def named_shade(name: str) -> Shade | None:
    """The colour that a stage, percentile, plane or well-known API has in every figure; None for other names."""
    key = _key(name)
    if key in STAGES:
        return STAGES[key][0]
    if re.fullmatch(r"p\d\d_9+", key):
        key = key.replace("_", "")
    return PERCENTILES.get(key) or NAMED.get(key)


def all_shades() -> list[Shade]:
    """Every colour once."""
    stages = [shade for shade, _ in STAGES.values()]
    return list(
        dict.fromkeys(
            [*SURFACE.values(), *stages, *PERCENTILES.values(), *NAMED.values(), *CATEGORIES, *HEAT, *DIVERGING]
        )
    )


def dark_of_light() -> dict[str, str]:
    """Light colour → dark colour, as the page's script repaints data with it: no light colour has two dark ones."""
    return {shade.light: shade.dark for shade in all_shades()}
