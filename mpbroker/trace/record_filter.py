"""Which requests of a trace somebody wants to see: by time, API and client. The standard library alone; pure.

Times are those of the segment's first clock sample, as `trace tail` shows them.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from mpbroker.trace import segment
from mpbroker.trace.record import RECORD_BYTES, REQUEST, layout

_FIELDS = ("t0_ns", "client_hash", "kind", "api_key")


def _row() -> struct.Struct:
    """Of a record the fields above, the rest skipped."""
    codes, at, places = "<", 0, layout()
    for name in _FIELDS:
        offset, size = places[name]
        codes += f"{offset - at}x{ {1: 'B', 2: 'h', 4: 'I', 8: 'Q'}[size] }"
        at = offset + size
    return struct.Struct(f"{codes}{RECORD_BYTES - at}x")


_ROW = _row()


class RecordFilter(NamedTuple):
    """from_ns <= begin < to_ns (nanoseconds since 1970), API keys, client ids; None: all."""

    from_ns: int | None = None
    to_ns: int | None = None
    api_keys: frozenset[int] | None = None
    clients: frozenset[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it lets everything through."""
        return self == RecordFilter()

    def kept(self, records: bytes, info: segment.SegmentInfo, client_names: Mapping[int, str]) -> bytes:
        """Whole records of a segment: the requests wanted, nothing of other kinds."""
        offset_ns = info.opened.clock.offset_ns
        hashes = self._hashes(client_names)
        found = []
        for place, (t0_ns, client_hash, kind, api_key) in enumerate(_ROW.iter_unpack(records)):
            if (
                kind == REQUEST
                and (self.from_ns is None or t0_ns + offset_ns >= self.from_ns)
                and (self.to_ns is None or t0_ns + offset_ns < self.to_ns)
                and (self.api_keys is None or api_key in self.api_keys)
                and (hashes is None or client_hash in hashes)
            ):
                found.append(records[place * RECORD_BYTES : (place + 1) * RECORD_BYTES])
        return b"".join(found)

    def _hashes(self, client_names: Mapping[int, str]) -> frozenset[int] | None:
        if self.clients is None:
            return None
        return frozenset(number for number, name in client_names.items() if name in self.clients)
