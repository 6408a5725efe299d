"""One Fetch request served twice: by a broker whose native path knows the topics, and by one whose handler is Python.

As produce_ways.py: both are in-process brokers with the same topics and records, and everything that a request leaves
behind is compared: the answer's bytes, the trace record, the counters, and the session that it goes on with.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

from mpbroker.protocol.headers import encode_request_frame
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.produce_ways import counters_of, traced_as

FIRST_WITH_SESSIONS, FIRST_FLEXIBLE = 7, 12
SESSION = 0x5E5510  # stands for the session's id, which is another one on each broker


class Outcome(NamedTuple):
    """What a request came to."""

    kind: int
    frame: bytes
    trace: dict[str, object]
    counted: dict[str, int]
    session: object


class FetchWays:
    """The two brokers. `both` sends a request to each and returns the decoded answer; they differ: AssertionError."""

    def __init__(self, directory, make_topics, **overrides) -> None:
        self.brokers: list[InProcessBroker] = []
        for name in ("native", "python"):
            (directory / name).mkdir()
            broker = InProcessBroker(directory / name, is_traced=True, **overrides)
            broker.handler.context.native_topics.fetch.off = name == "python"
            make_topics(broker)
            broker.traced()
            self.brokers.append(broker)
        self.native, self.python = self.brokers
        self._sessions: dict[InProcessBroker, dict[int, int]] = {broker: {} for broker in self.brokers}
        self._number = 0

    def served_natively(self) -> int:
        """Requests that the native path served; the Python broker's has none."""
        assert self.python.handler.context.native_topics.fetch.served == 0
        return self.native.handler.context.native_topics.fetch.served

    def quietly(self, message, version: int):
        """The same request to both, compared by what was decoded alone."""
        native, python = (broker.call(message, version) for broker in self.brokers)
        for broker in self.brokers:
            broker.traced()
        assert native == python
        return native

    def both(self, message, version: int, wake=None):
        """The answer to a request whose session id is one that an answer of this object had. `wake(broker)`: for one
        that waits."""
        self._number += 1
        asked = message.session_id
        native, python = (self._outcome(broker, message, version, asked, wake) for broker in self.brokers)
        message.session_id = asked
        for what in Outcome._fields:
            mine, other = getattr(native, what), getattr(python, what)
            assert mine == other, f"v{version} {what}: native {mine}, Python {other}"
        return self.native.decode(message, version, native.frame) if native.frame else None

    def _outcome(self, broker: InProcessBroker, message, version: int, asked: int, wake) -> Outcome:
        sessions = self._sessions[broker]
        message.session_id = sessions.get(asked, asked)
        frame = encode_request_frame(message, version, 7, "ways")[4:]
        before = counters_of(broker)
        entry = broker.processor.submit(0, 1, 1, 0, frame, time.monotonic_ns())
        assert entry >= 0
        broker.step()
        found = broker.processor.collect(100)
        if not found and wake is not None:
            wake(broker)
            broker.step()
            broker.step()
            found = list(broker.processor.collect(100))
        [(entry, _connection, _generation, kind, view)] = found
        answer = b"" if view is None else bytes(view)
        broker.processor.sent(entry, time.monotonic_ns())
        after = counters_of(broker)
        counted = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        record = broker.traced()[-1]
        answer, named = self._masked(sessions, answer, version)
        return Outcome(kind, answer, traced_as(record), counted, self._row(broker, named or message.session_id))

    def _masked(self, sessions: dict[int, int], answer: bytes, version: int) -> tuple[bytes, int]:
        """The answer with its session's id replaced by one that is the same on both brokers, and that id."""
        if version < FIRST_WITH_SESSIONS or not answer:
            return answer, 0
        at = 14 + (version >= FIRST_FLEXIBLE)
        (session_id,) = struct.unpack_from(">i", answer, at)
        if session_id <= 0:
            return answer, 0
        known = next((ours for ours, theirs in sessions.items() if theirs == session_id), SESSION + self._number)
        sessions[known] = session_id
        return answer[:at] + struct.pack(">i", known) + answer[at + 4 :], session_id

    def _row(self, broker: InProcessBroker, session_id: int) -> object:
        """The session as it is stored, but for the number of its last request."""
        table = broker.handler.context.fetch_sessions
        if session_id <= 0 or table.hold(session_id) != 0:
            return None
        row = table.row()
        table.release()
        return row._replace(fill_number=0)
