"""How often a process may write log lines: over all, of one kind, and of one kind about one peer; what is held back is
counted. Pure but for the clock that is handed in; every table is bounded. Used by event_log.py.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

LINES_PER_SECOND: Final = 50
LINES_BURST: Final = 200
KIND_LINES_PER_SECOND: Final = 2
KIND_BURST: Final = 20  # of one kind, about whichever peers
PEER_PAUSE_S: Final = 10.0  # between two lines of one kind about one peer
MAX_PEERS: Final = 256  # (kind, peer) pairs remembered
MAX_KINDS: Final = 256


class Allowance:
    """A token bucket: `burst` lines at once, then `per_second`."""

    def __init__(self, per_second: float, burst: float, now_s: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._left, self._filled_s = burst, now_s

    def take(self, now_s: float) -> bool:
        """Whether one more line may be written now."""
        self._left = min(self._burst, self._left + (now_s - self._filled_s) * self._per_second)
        self._filled_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Held(NamedTuple):
    """Lines that were held back: `lines` of one kind about one peer."""

    kind: str
    peer: str
    level: str
    lines: int


class LineLimits:
    """Decides line by line. `allow` answers how many lines of the same kind and peer were held back before, or None."""

    def __init__(self, now_s: float) -> None:
        self._all = Allowance(LINES_PER_SECOND, LINES_BURST, now_s)
        self._kinds: dict[str, Allowance] = {}
        self._peers: OrderedDict[tuple[str, str], tuple[float, int, str]] = OrderedDict()
        self.held_over_all = 0  # by the bound over all lines, not reported yet
        self._held_of_kind: dict[str, tuple[int, float, str]] = {}

    def allow(self, kind: str, peer: str | None, level: str, now_s: float) -> int | None:
        """None: hold the line back. `peer`: whom it is about; None: every such line counts as news."""
        held = 0
        if peer is not None:
            last_s, held, _ = self._peers.get((kind, peer), (-PEER_PAUSE_S, 0, ""))
            if now_s - last_s < PEER_PAUSE_S:
                self._peers[kind, peer] = (last_s, held + 1, level)
                return None
            if not self._allow_kind(kind, now_s):
                self._hold_kind(kind, 1, level, now_s)
                return None
            held += self._held_of_kind.pop(kind, (0, 0.0, ""))[0]
        if not self._all.take(now_s):
            self.held_over_all += 1
            return None
        if peer is not None:
            self._remember(kind, peer, level, now_s)
        return held

    def _allow_kind(self, kind: str, now_s: float) -> bool:
        """Many peers, one each: a scan from a thousand addresses is a few lines, too."""
        if kind not in self._kinds:
            if len(self._kinds) == MAX_KINDS:
                self._kinds.clear()
            self._kinds[kind] = Allowance(KIND_LINES_PER_SECOND, KIND_BURST, now_s)
        return self._kinds[kind].take(now_s)

    def _hold_kind(self, kind: str, count: int, level: str, now_s: float) -> None:
        self._held_of_kind[kind] = (self._held_of_kind.get(kind, (0, 0.0, ""))[0] + count, now_s, level)

    def _remember(self, kind: str, peer: str, level: str, now_s: float) -> None:
        self._peers[kind, peer] = (now_s, 0, level)
        self._peers.move_to_end((kind, peer))
        if len(self._peers) > MAX_PEERS:
            (kind, _), (_, held, level) = self._peers.popitem(last=False)
            if held:
                self._hold_kind(kind, held, level, now_s)

    def ended(self, now_s: float) -> list[Held]:
        """What was held back of floods that are over: for a line about each; then it is forgotten."""
        found = []
        while self._peers:
            (kind, peer), (last_s, held, level) = next(iter(self._peers.items()))
            if now_s - last_s < PEER_PAUSE_S:
                break
            del self._peers[kind, peer]
            if held:
                found.append(Held(kind, peer, level, held))
        for kind, (held, last_s, level) in list(self._held_of_kind.items()):
            if now_s - last_s >= PEER_PAUSE_S:
                del self._held_of_kind[kind]
                found.append(Held(kind, "others", level, held))
        return found
