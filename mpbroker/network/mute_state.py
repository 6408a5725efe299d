"""Whether a connection may be read: Kafka's mute state machine as a table; a processor keeps one state per connection.

One request of a connection is in flight at a time. Receiving it mutes the connection, its answer unmutes it, and a
throttled client stays muted for the throttle time after its answer (KIP-219).
"""

from enum import IntEnum


class MuteState(IntEnum):
    """What a connection waits for."""

    NOT_MUTED = 0
    MUTED = 1
    MUTED_AND_RESPONSE_PENDING = 2
    MUTED_AND_THROTTLED = 3
    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING = 4


class MuteEvent(IntEnum):
    """What happens to it."""

    REQUEST_RECEIVED = 0
    RESPONSE_SENT = 1
    THROTTLE_STARTED = 2
    THROTTLE_ENDED = 3


class IllegalMuteEvent(Exception):
    """An event that cannot happen in this state: a defect of the broker; the connection is closed."""


_S, _E = MuteState, MuteEvent
_TABLE: dict[MuteState, dict[MuteEvent, MuteState]] = {
    _S.NOT_MUTED: {},
    _S.MUTED: {_E.REQUEST_RECEIVED: _S.MUTED_AND_RESPONSE_PENDING},
    _S.MUTED_AND_RESPONSE_PENDING: {
        _E.RESPONSE_SENT: _S.MUTED,
        _E.THROTTLE_STARTED: _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
    },
    _S.MUTED_AND_THROTTLED: {_E.THROTTLE_ENDED: _S.MUTED},
    _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING: {
        _E.RESPONSE_SENT: _S.MUTED_AND_THROTTLED,
        _E.THROTTLE_ENDED: _S.MUTED_AND_RESPONSE_PENDING,
    },
}


def next_state(state: MuteState, event: MuteEvent) -> MuteState:
    """The state after an event."""
    try:
        return _TABLE[state][event]
    except KeyError:
        raise IllegalMuteEvent(f"{event.name} in state {state.name}") from None


def after_mute(state: MuteState) -> MuteState:
    """The selector stops reading: only an unmuted connection changes."""
    return _S.MUTED if state is _S.NOT_MUTED else state


def after_unmute(state: MuteState) -> MuteState:
    """The selector may read again: succeeds only from MUTED, every other state stays."""
    return _S.NOT_MUTED if state is _S.MUTED else state
