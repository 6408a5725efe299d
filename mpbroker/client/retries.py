"""How long a client waits before it tries again, and when it gives up. Any process; no state."""

from collections.abc import Iterator

FIRST_PAUSE_S, MAX_PAUSE_S, PAUSES = 0.05, 2.0, 8


def pauses() -> Iterator[float]:
    """Seconds before each further try: 8 of them, from 50 ms doubling to 2 s, about 7 s together."""
    for number in range(PAUSES):
        yield min(FIRST_PAUSE_S * 2**number, MAX_PAUSE_S)
