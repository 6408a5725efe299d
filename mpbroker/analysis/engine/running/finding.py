"""What a study found, as a reader acts on it: a sentence, the request time it explains, and what to change. Pure.

Findings of all studies of a run make one list, the dearest first (`leading`). What has the same kind and subject is
one finding, however many studies saw it; what another one says more closely gives way to that. What to change stands in
actions.py, by kind.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from mpbroker.analysis.engine.running import wording
from mpbroker.analysis.engine.running.actions import ACTIONS

MAX_LEADING = 5
#: Of all request time. What explains less is not worth a reader's change; it stays in the sentences of its study.
MIN_SHARE = 0.03
#: Of what a finding explains: from here on one that says it more closely stands in its place.
MOST_OF_IT = 0.5


@dataclass(frozen=True)
class Finding:
    """One cause.

    kind        names the action (a key of ACTIONS)
    sentence    what was seen, with its figures; whole, ends with a full stop
    cost_s      seconds of request time that it explains, summed over requests
    of_s        seconds that all requests took, without waiting that their clients asked for
    subject     whom it is about, where there may be several of a kind (a client, a handler)
    refines     kinds that say the same less closely
    """

    kind: str
    sentence: str
    cost_s: float
    of_s: float
    subject: str = ""
    refines: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Of all request time."""
        return min(1.0, self.cost_s / self.of_s) if self.of_s > 0 else 0.0

    @property
    def change(self) -> str:
        """What to change, or that nothing helps."""
        return ACTIONS[self.kind].change

    @property
    def cost(self) -> str:
        """`explains 61 % of all request time (39 s)`."""
        return f"explains {wording.share(self.share)} of all request time ({wording.duration(self.cost_s * 1e9)})"

    def to_json(self) -> dict[str, Any]:
        """As meta.json has it: everything a program needs to act on it."""
        return asdict(self) | {
            "share": round(self.share, 6),
            "change": self.change,
            "settings": list(ACTIONS[self.kind].settings),
        }


def from_json(data: dict[str, Any]) -> Finding:
    """What to_json made."""
    kind, sentence, cost_s, of_s, subject = (data[name] for name in ("kind", "sentence", "cost_s", "of_s", "subject"))
    return Finding(kind, sentence, cost_s, of_s, subject, tuple(data.get("refines", ())))


class HasFindings(Protocol):
    """A StudyResult, which this file must not know: it holds what this file defines."""

    findings: list[Finding]


def leading(results: Iterable[HasFindings], most: int = MAX_LEADING) -> list[Finding]:
    """The findings that explain most request time, over all studies: at most `most`, the dearest first."""
    known: dict[tuple[str, str], Finding] = {}
    for result in results:
        for one in result.findings:
            before = known.get((one.kind, one.subject))
            if before is None or before.cost_s < one.cost_s:
                known[one.kind, one.subject] = one
    worth = [one for one in known.values() if one.share >= MIN_SHARE]
    ranked = sorted(worth, key=lambda one: (-one.cost_s, one.kind, one.subject))
    return [one for one in ranked if not _said_closer(one, ranked)][:most]


def _said_closer(one: Finding, others: Iterable[Finding]) -> bool:
    """Whether others say it for the most part; two that refine the same do not say each other."""
    closer = [other.cost_s for other in others if one.kind in other.refines]
    return one.kind not in one.refines and sum(closer) >= MOST_OF_IT * one.cost_s > 0


def lines(found: Sequence[Finding]) -> list[str]:
    """For a terminal: two lines a finding, numbered."""
    written = []
    for number, one in enumerate(found, 1):
        written += [f"{number}. {one.sentence} ({one.cost})", f"   → {one.change}"]
    return written
