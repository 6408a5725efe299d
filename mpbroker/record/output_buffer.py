"""The bounded buffer that decompressed bytes go into; one per request handler, reader or tool, never shared.

A limit is set before anything is written and nothing is allocated beyond it, whatever the compressed bytes claim.
"""

#: Kept between uses; what a large batch needed beyond this is given back at once.
KEPT_BYTES = 1 << 20
GROWTH = 4


class OutputTooLargeError(Exception):
    """The decompressed bytes would not fit the limit."""


class CorruptInputError(Exception):
    """The compressed bytes are no valid stream of their codec."""


class OutputBuffer:
    """Bytes written so far, at most `max_bytes`. A view handed out is valid until the next `begin` or `release`."""

    def __init__(self) -> None:
        self._bytes = bytearray(0)
        self._used = 0
        self._max_bytes = 0

    def begin(self, max_bytes: int) -> None:
        """Forget what was written and set the limit for what comes."""
        self._used = 0
        self._max_bytes = max_bytes

    def release(self) -> None:
        """Give back memory that only a large batch needed."""
        if len(self._bytes) > KEPT_BYTES:
            self._bytes = bytearray(0)
        self._used = 0

    def room(self, wanted_bytes: int) -> memoryview:
        """Writable bytes after those written: at least `wanted_bytes`, or all up to the limit if that is less."""
        wanted = min(self._used + wanted_bytes, self._max_bytes)
        if wanted > len(self._bytes):
            self._grow(wanted)
        return memoryview(self._bytes)[self._used : self._max_bytes]

    def _grow(self, wanted: int) -> None:
        size = min(max(wanted, GROWTH * len(self._bytes), 1 << 16), max(self._max_bytes, wanted))
        written = bytes(memoryview(self._bytes)[: self._used])
        self._bytes = bytearray(0)
        self._bytes = bytearray(size)
        self._bytes[: len(written)] = written

    @property
    def left_bytes(self) -> int:
        """How much may still be written."""
        return self._max_bytes - self._used

    def advance(self, count: int) -> None:
        """Take the first `count` bytes of the last `room` as written."""
        self._used += count

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`; raises OutputTooLargeError if the limit would be passed."""
        count = len(data)
        if count > self.left_bytes:
            raise OutputTooLargeError
        self.room(count)[:count] = data
        self._used += count

    def view(self) -> memoryview:
        """What has been written."""
        return memoryview(self._bytes)[: self._used]
