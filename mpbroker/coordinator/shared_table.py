"""The group table in shared memory: what a successor of this process must know and the log does not say (GroupTable).

Runs in the coordinator process, which alone writes the rows (native/request/known_rows.h); they go with the broker, and
with a reset of all workers. Ids are kept as 128-bit digests; where each lies is known from a scan at the start.
"""

from __future__ import annotations

from hashlib import blake2b

from mpbroker.channel.known_rows import KnownRows
from mpbroker.coordinator.group_table import GroupRow, RowState, Seen
from mpbroker.shm.core import Core

_USED, _STATE_AT = 1 << 40, 32  # a group's word: used, state, generation
_SEEN, _SEEN_UNIT_MS = (
    0xFFFFFFFF,
    1000,
)  # a member's: used, seconds of the monotonic clock at its last sign of life or 0
_GRANTED = 1 << 41  # it gave none then: time it was granted


def _digest(*ids: str) -> bytes:
    digest = blake2b(digest_size=16)
    for one in ids:
        encoded = one.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return digest.digest()


class _Rows:
    """The rows of one kind: where each key lies, and which rows are free."""

    def __init__(self, rows: KnownRows) -> None:
        self._rows = rows
        self.words: dict[bytes, int] = {}
        self._places: dict[bytes, int] = {}
        for row, key, word in rows.rows():
            self.words[key], self._places[key] = word, row
        used = set(self._places.values())
        self._next = max(used, default=-1) + 1
        self._free = [row for row in range(self._next) if row not in used]

    def put(self, key: bytes, word: int) -> bool:
        """False: the key is new, and there is no room."""
        if self.words.get(key) == word:
            return True
        place = self._places.get(key)
        if place is None:
            place = self._free.pop() if self._free else self._next
            if place >= self._rows.count:
                return False
            self._next = max(self._next, place + 1)
            self._places[key] = place
        self._rows.put(place, key, word)
        self.words[key] = word
        return True

    def drop(self, key: bytes) -> None:
        """Forget a key; one that is not there is forgotten already."""
        place = self._places.pop(key, None)
        if place is not None:
            self._rows.drop(place)
            self._free.append(place)
            del self.words[key]


class SharedTable:
    """GroupTable over the rows of one broker."""

    def __init__(self, core: Core) -> None:
        self._groups = _Rows(KnownRows(core, False))
        self._members = _Rows(KnownRows(core, True))
        self._unconfirmed = set(self._members.words)
        self._keys: dict[tuple[str, str], bytes] = {}  # of those that gave a sign of life

    def group(self, group_id: str) -> GroupRow | None:
        word = self._groups.words.get(_digest(group_id))
        return None if word is None else GroupRow(word & 0xFFFFFFFF, RowState(word >> _STATE_AT & 0xFF))

    def put_group(self, group_id: str, row: GroupRow) -> bool:
        return self._groups.put(_digest(group_id), _USED | row.state << _STATE_AT | row.generation)

    def drop_group(self, group_id: str) -> None:
        self._groups.drop(_digest(group_id))

    def has_member(self, group_id: str, member_id: str) -> bool:
        return _digest(group_id, member_id) in self._members.words

    def put_member(self, group_id: str, member_id: str) -> bool:
        key = _digest(group_id, member_id)
        self._unconfirmed.discard(key)
        return self._members.put(key, self._members.words.get(key, _USED))

    def saw_member(self, group_id: str, member_id: str, now_ms: int) -> None:
        key = self._keys.get((group_id, member_id))
        if key is None:
            key = self._keys[group_id, member_id] = _digest(group_id, member_id)
        if key in self._members.words:
            self._members.put(key, _USED | now_ms // _SEEN_UNIT_MS & _SEEN)

    def last_seen(self, group_id: str, member_id: str) -> Seen | None:
        word = self._members.words.get(_digest(group_id, member_id), 0)
        return Seen((word & _SEEN) * _SEEN_UNIT_MS, bool(word & _GRANTED)) if word & _SEEN else None

    def grant(self, group_id: str, member_id: str, seen_ms: int) -> None:
        key = _digest(group_id, member_id)
        if key in self._members.words:
            self._members.put(key, _USED | _GRANTED | max(seen_ms // _SEEN_UNIT_MS, 1) & _SEEN)

    def drop_member(self, group_id: str, member_id: str) -> None:
        key = self._keys.pop((group_id, member_id), None) or _digest(group_id, member_id)
        self._unconfirmed.discard(key)
        self._members.drop(key)

    def drop_unconfirmed_members(self) -> None:
        for key in self._unconfirmed:
            self._members.drop(key)
        self._unconfirmed.clear()
