"""Which records of a segment cannot be what a tracer wrote: the rules, and how what is left out is worded. Pure; for
whoever reads traces.

Studies apply them to whole columns (mpbroker/analysis/engine/input/soundness.py).
"""

from mpbroker.trace.segment import SegmentInfo

#: A record may stand for so many more requests than its lane sampled out until then; one in so many lanes is refused
#: wrongly for a moment, at its very first request.
CHANCE = 1024
#: Sequence numbers go on by less than this where records are missing; a greater step is no step.
MAX_STEP = 1 << 24

WRONG_KIND = "kind {kind}, which there is not"
WRONG_STEP = "a sequence number that cannot follow the one before"
WRONG_API = "API {api_key}, which there is not, and no error"
WRONG_WEIGHT = "a weight that sampling does not give"


def most_weight(info: SegmentInfo) -> int:
    """What a request before `told_until` stands for at most."""
    return 1 + CHANCE * (1 + info.progress.sampled_out)


def told_until(info: SegmentInfo) -> int:
    """Of the lane's requests before this number the counters say how many were sampled out among them.

    They are read after a drain, and a segment that is open, or was left so, may hold requests that came later: what was
    sampled out beside those stands nowhere yet, and it may be much. Nor is it known where the counters are damaged.
    """
    if info.closed is not None and info.damage:
        return 0
    return info.progress.written


def not_as_closed(info: SegmentInfo) -> str:
    """Of a segment whose checksum does not fit its records."""
    return f"{info.path}: its records are not those it was closed with; none of them is counted"


def damaged_from(info: SegmentInfo, record: int, reason: str) -> str:
    """Of one whose record of that number cannot be."""
    return f"{info.path}: record {record} has {reason}: it is damaged, and nothing from there on is counted"
