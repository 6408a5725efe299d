"""A regular expression that topics are looked up with: time and memory are bounded, whatever it is. Pure; in the
coordinator process.

The expression becomes an automaton without memory (Thompson's), of which the sets of states that occur are kept. A name
of n characters takes n steps, or at the first time n times the number of states; `steps` counts them, so that a caller
can stop for a while.
"""

from __future__ import annotations

from mpbroker.coordinator.consumer_groups.pattern_syntax import BadPattern, Node, Reader

__all__ = ["BadPattern", "TopicPattern"]
MAX_STATES, MAX_BUILT, MAX_SETS = 2000, 20_000, 500
_CHARS, _SPLIT, _BEGIN, _END, _ACCEPT = range(5)
_States = frozenset[int]


class TopicPattern:
    """Raises BadPattern for a text that is no regular expression, or one too large."""

    def __init__(self, pattern: str) -> None:
        self._states: list[tuple[int, int, int]] = [(_ACCEPT, 0, 0)]  # kind, next or mask, the other next
        self.steps = 0
        self._built = 0
        begin = self._build(Reader(pattern).read(), 0)
        self._start = self._closure({begin}, at_start=True, at_end=False)
        self._moves: dict[_States, dict[str, _States]] = {}
        self._ends: dict[_States, bool] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole name is one that the expression describes."""
        states = self._start
        if not name:
            return 0 in self._closure(set(states), at_start=True, at_end=True)
        for character in name:
            self.steps += 1
            found = self._moves.setdefault(states, {}).get(character)
            if found is None:
                found = self._move(states, character)
            if not found:
                return False
            states = found
        if states not in self._ends:
            self._ends[states] = 0 in self._closure(set(states), at_start=False, at_end=True)
        return self._ends[states]

    # the automaton

    def _add(self, kind: int, one: int = 0, other: int = 0) -> int:
        if len(self._states) >= MAX_STATES:
            raise BadPattern("expression too large")
        self._states.append((kind, one, other))
        return len(self._states) - 1

    def _build(self, node: Node, after: int) -> int:
        """The state in which what the node describes begins; `after` follows it."""
        self._built += 1
        if self._built > MAX_BUILT:  # repetitions of nothing make no states
            raise BadPattern("expression too large")
        if node.kind == "chars":
            return self._add(_CHARS, node.mask, after)
        if node.kind in ("begin", "end"):
            return self._add(_BEGIN if node.kind == "begin" else _END, after)
        if node.kind == "all":
            for part in reversed(node.parts):
                after = self._build(part, after)
            return after
        if node.kind == "any":
            first = self._build(node.parts[-1], after)
            for part in reversed(node.parts[:-1]):
                first = self._add(_SPLIT, self._build(part, after), first)
            return first
        return self._build_repeat(node, after)

    def _build_repeat(self, node: Node, after: int) -> int:
        part, first = node.parts[0], after
        if node.most is None:
            first = self._add(_SPLIT, after, after)
            self._states[first] = (_SPLIT, self._build(part, first), after)
        else:
            for _ in range(node.most - node.least):
                first = self._add(_SPLIT, self._build(part, first), after)
        for _ in range(node.least):
            first = self._build(part, first)
        return first

    # sets of states

    def _closure(self, states: set[int], at_start: bool, at_end: bool) -> _States:
        """These states and what can be reached without a character. An end that is not reached yet stays."""
        found: set[int] = set()
        open_states = list(states)
        while open_states:
            state = open_states.pop()
            if state in found:
                continue
            self.steps += 1
            found.add(state)
            kind, one, other = self._states[state]
            if kind == _SPLIT:
                open_states += (one, other)
            elif (kind == _BEGIN and at_start) or (kind == _END and at_end):
                open_states.append(one)
        return frozenset(found)

    def _move(self, states: _States, character: str) -> _States:
        code = ord(character)
        bit = 1 << code if code < 128 else 0
        rows = (self._states[state] for state in states)
        reached = {after for kind, mask, after in rows if kind == _CHARS and mask & bit}
        self.steps += len(states)
        found = self._closure(reached, at_start=False, at_end=False)
        if len(self._moves) > MAX_SETS:
            self._moves.clear()
            self._ends.clear()
        self._moves.setdefault(states, {})[character] = found
        return found
