"""All 5 states times 4 events: the seven allowed moves, everything else raises."""

import itertools

import pytest

from mpbroker.network.mute_state import IllegalMuteEvent, MuteEvent, MuteState, after_mute, after_unmute, next_state

E, S = MuteEvent, MuteState
ALLOWED = {
    (S.MUTED, E.REQUEST_RECEIVED): S.MUTED_AND_RESPONSE_PENDING,
    (S.MUTED_AND_RESPONSE_PENDING, E.RESPONSE_SENT): S.MUTED,
    (S.MUTED_AND_RESPONSE_PENDING, E.THROTTLE_STARTED): S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
    (S.MUTED_AND_THROTTLED, E.THROTTLE_ENDED): S.MUTED,
    (S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, E.RESPONSE_SENT): S.MUTED_AND_THROTTLED,
    (S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, E.THROTTLE_ENDED): S.MUTED_AND_RESPONSE_PENDING,
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(S, E)))
def test_every_state_and_event(state, event):
    if (state, event) in ALLOWED:
        assert next_state(state, event) is ALLOWED[state, event]
    else:
        with pytest.raises(IllegalMuteEvent):
            next_state(state, event)


@pytest.mark.parametrize("state", list(S))
def test_unmute_works_from_muted_only(state):
    assert after_unmute(state) is (S.NOT_MUTED if state is S.MUTED else state)
    assert after_mute(state) is (S.MUTED if state is S.NOT_MUTED else state)
