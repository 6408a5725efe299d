"""The processor's end of the request path; one per processor process, which alone uses it.

A request frame becomes an entry (`submit`, or `reserve` and `submit_reserved` for frames received straight into the
arena), its answer comes back through `collect`, and `sent` ends it: trace record, memory, entry. Everything is a call
into the C core that waits for nobody. Codes below 0 are reasons, not errors:

NO_ENTRY    every entry of this processor is in use: stop reading, go on sending
NO_SPACE    no room in the arena for this frame now
POISON      this frame killed a worker before: close the connection
PLANE_FULL  the plane holds its bound; `parked_entry` keeps the request until `retry` takes it
"""

from typing import Final

from mpbroker._native import (
    ANSWER_CLOSE,
    ANSWER_EXTENT,
    ANSWER_INLINE,
    ANSWER_NONE,
    NO_ENTRY,
    NO_SPACE,
    PLANE_FULL,
    POISON,
    ProcessorPort,
)

__all__ = [
    "ANSWER_CLOSE",
    "ANSWER_EXTENT",
    "ANSWER_INLINE",
    "ANSWER_NONE",
    "INLINE_PAYLOAD_BYTES",
    "NO_ENTRY",
    "NO_SPACE",
    "PLANE_FULL",
    "POISON",
    "ProcessorPort",
]

INLINE_PAYLOAD_BYTES: Final = 320
"""Frames up to here lie in their entry and take no arena space."""
