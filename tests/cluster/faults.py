"""What fails while a cluster is under load: drawn from a seed, begun, and after a while undone.

At most one broker is away at a time, now and then two: then nothing can be acknowledged, and nothing may be lost
either. Single processes die at any time.
"""

import random
import signal
import time
from collections import Counter
from contextlib import suppress
from os import kill

WEIGHTS = {
    "process": 10,
    "tree": 2,
    "supervisor": 1,
    "suspend": 3,
    "cut_one_way": 3,
    "cut": 3,
    "isolate": 2,
    "clock": 2,
}
ROLES = {
    "fetcher": 4,
    "controller": 4,
    "cluster-controller": 4,
    "handler": 4,
    "log-keeper": 2,
    "processor": 3,
    "coordinator": 1,
    "acceptor": 1,
    "tracer": 0.5,
    "admin": 0.5,
}
OF_THE_NETWORK = ("cut", "cut_one_way", "isolate")
TWO_AWAY = 0.1


class Faults:
    """`store`: an object whose `fail(random)` returns what failed and what mends it, None: it never fails. `session_s`:
    how long a broker may be silent before it counts as dead."""

    def __init__(self, nodes, network, seed, session_s, store=None, clocks=None, kinds=()):
        self._nodes, self._network, self._store, self._clocks = nodes, network, store, clocks
        self._random = random.Random(seed)
        self._session_s = session_s
        self._active = []  # (undo at, broker or None, undo)
        weights = {kind: weight for kind, weight in WEIGHTS.items() if not kinds or kind in kinds}
        if network is None:
            weights = {
                kind: weight for kind, weight in weights.items() if kind not in ("cut", "cut_one_way", "isolate")
            }
        if clocks is None:
            weights.pop("clock", None)
        if store is not None:
            weights["store_fails"] = 4
        self._weights = weights
        self._store_fails_now = False
        self.done = Counter()
        self.trail = []

    def run(self, seconds, say=lambda line: None):
        """Fail and mend for so long, then mend everything."""
        begun = time.monotonic()
        next_at = begun
        while (now := time.monotonic()) - begun < seconds:
            self._undo(now)
            if now >= next_at:
                self._begin(say)
                next_at = time.monotonic() + self._random.expovariate(1 / 0.4)
            time.sleep(0.02)
        self.mend()

    def mend(self):
        """Everything runs again."""
        self._undo(float("inf"))
        for node in self._nodes:
            if not node.is_up:
                node.start()

    def _undo(self, now):
        due = [one for one in self._active if one[0] <= now]
        self._active = [one for one in self._active if one[0] > now]
        for _, _, undo in due:
            undo()

    def _begin(self, say):
        away = {broker for _, broker, _ in self._active if broker is not None}
        (kind,) = self._random.choices(list(self._weights), list(self._weights.values()))
        number = self._random.choice((1, 2, 3))
        if kind not in ("process", "clock", "store_fails") and (
            number in away or (away and (len(away) > 1 or self._random.random() > TWO_AWAY))
        ):
            return
        node = self._nodes[number]
        if not node.is_up or node.stopped:
            return
        what = getattr(self, f"_{kind}")(node)
        if what:
            self.done[what] += 1
            self.trail.append((time.monotonic_ns(), number, what))
            say(f"{what} of {number}")

    def _for(self, shortest, longest, broker, undo):
        self._active.append((time.monotonic() + self._random.uniform(shortest, longest), broker, undo))

    def _process(self, node):
        workers = node.workers()
        roles = {title: _weight(title) for title in workers}
        if not any(roles.values()):
            return None
        (title,) = self._random.choices(list(roles), list(roles.values()))
        with suppress(ProcessLookupError):
            kill(self._random.choice(workers[title]), signal.SIGKILL)
        return f"kill {_role(title)}"

    def _tree(self, node):
        node.kill()
        self._for(0, 2 * self._session_s, node.number, lambda: self._start(node))
        return "kill tree"

    def _supervisor(self, node):
        node.kill_supervisor()
        self._for(0, self._session_s, node.number, lambda: self._start(node))
        return "kill supervisor"

    def _start(self, node):
        node.start()

    def _suspend(self, node):
        node.suspend()
        self._for(0.1, 2.5 * self._session_s, node.number, node.resume)
        return "suspend"

    def _cut_one_way(self, node):
        other = self._random.choice([n for n in (1, 2, 3) if n != node.number])
        self._network.cut(node.number, other)
        self._for(0.2, 3 * self._session_s, node.number, lambda: self._network.mend(node.number, other))
        return "cut one way"

    def _cut(self, node):
        other = self._random.choice([n for n in (1, 2, 3) if n != node.number])
        return self._apart(node.number, [other], "cut both ways")

    def _isolate(self, node):
        return self._apart(node.number, [n for n in (1, 2, 3) if n != node.number], "isolate")

    def _apart(self, number, others, name):
        def mend():
            for other in others:
                self._network.mend(number, other)
                self._network.mend(other, number)

        for other in others:
            self._network.cut(number, other)
            self._network.cut(other, number)
        self._for(0.2, 3 * self._session_s, number, mend)
        return name

    def _clock(self, node):
        self._clocks.set(node.number, self._random.choice((-3600, -5, 0, 5, 3600, 86400)))
        return "clock step"

    def _store_fails(self, node):
        if self._store_fails_now:
            return None
        what, undo = self._store.fail(self._random)
        self._store_fails_now = True

        def mend():
            undo()
            self._store_fails_now = False

        self._for(0.2, 2 * self._session_s, None, mend)
        return what


def _role(title):
    return title.removeprefix("mpbroker: ").rstrip("0123456789 ")


def _weight(title):
    return ROLES.get(_role(title), 0)
