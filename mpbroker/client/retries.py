"""How long a client waits before it tries again, and when it gives up. Any process; no state."""

from collections.abc import Iterator

FIRST_PAUSE_S, MAX_PAUSE_S, PAUSES = 0.05, 2.0, 8
MORE_PAUSES = 6
"""Where there are several brokers: 12 s more, since one that fell silent is noticed when its session of 9 s is over."""


def pauses(count: int = PAUSES) -> Iterator[float]:
    """Seconds before each further try: 8 of them, from 50 ms doubling to 2 s, about 7 s together."""
    for number in range(count):
        yield min(FIRST_PAUSE_S * 2**number, MAX_PAUSE_S)
