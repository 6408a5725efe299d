"""Where reading begins: the text of --from, and the offsets it means. Runs in the process of `consume`."""

from __future__ import annotations

from mpbroker.cli import moments
from mpbroker.client.consumer import EARLIEST, LATEST, offsets_for
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.errors import ConfigError

NAMES = {"earliest": EARLIEST, "beginning": EARLIEST, "latest": LATEST, "end": LATEST}
ALLOWED = "earliest, latest, an offset, -N (the last N of each partition), or a time: @MS or 2026-11-21T17:00:00"
MAX_OFFSET = (1 << 63) - 1


def check(text: str) -> str:
    """For argparse: the text itself, if it means something; ConfigError."""
    if text not in NAMES and _count(text) is None:
        _moment_ms(text)
    return text


def start_offsets(leaders: PartitionLeaders, topic: str, partitions: list[int], text: str) -> dict[int, int]:
    """Partition → first offset to read."""
    if text in NAMES:
        return offsets_for(leaders, topic, partitions, NAMES[text])
    count = _count(text)
    if count is None:
        return offsets_for(leaders, topic, partitions, _moment_ms(text))
    if not text.startswith("-"):
        return dict.fromkeys(partitions, count)
    first = offsets_for(leaders, topic, partitions, EARLIEST)
    end = offsets_for(leaders, topic, partitions, LATEST)
    return {number: max(first[number], end[number] - count) for number in partitions}


def _count(text: str) -> int | None:
    """N of `N` and `-N`; None for anything else."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or int(digits) > MAX_OFFSET:
        return None
    return int(digits)


def _moment_ms(text: str) -> int:
    """Of `@MS`, `@TIME`, kcat's `s@MS`, or a date and time; ConfigError."""
    given = text.removeprefix("s").removeprefix("@") if "@" in text[:2] else text
    if given == text and (not text[:4].isdigit() or "-" not in text):
        raise ConfigError("--from", text, ALLOWED)
    try:
        return moments.epoch_ms("--from", given)
    except ConfigError:
        raise ConfigError("--from", text, ALLOWED) from None
