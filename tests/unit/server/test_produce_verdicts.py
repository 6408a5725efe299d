"""What becomes of one partition of a Produce that waits: by its state alone."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log.leadership import LEADER
from mpbroker.server.delayed_produce import DelayedProduce

SOUND = {"role": LEADER, "leader_since": 5, "hw": 20, "flushed_offset": 20, "maximal_isr": 0b111, "min_isr": 2}
AFTER_APPEND, MOVED = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("state", "acks", "on_commit", "kept", "settled", "code"),
    [
        ({}, -1, False, False, True, 0),
        ({}, -1, True, False, True, 0),
        ({"flushed_offset": 19}, -1, True, False, False, 0),
        ({"flushed_offset": 19}, -1, False, False, True, 0),
        ({"flushed_offset": 19}, 1, True, False, False, 0),
        ({"hw": 19}, -1, False, False, False, 0),
        ({"hw": 19}, 1, False, False, True, 0),
        ({"maximal_isr": 0b100}, -1, False, False, True, AFTER_APPEND),
        ({"maximal_isr": 0b100}, 1, False, False, True, 0),
        ({"maximal_isr": 0b101}, -1, False, False, True, 0),
        ({"maximal_isr": 0b100, "hw": 19}, -1, False, False, False, 0),
        ({"role": LEADER + 1}, -1, False, False, True, MOVED),
        ({"role": LEADER + 1}, 1, False, False, True, MOVED),
        ({"leader_since": 6}, -1, False, False, True, 0),
        ({"leader_since": 7}, -1, False, False, True, MOVED),
        ({"leader_since": 7}, -1, False, True, False, 0),
        (None, -1, False, False, True, ErrorCode.KAFKA_STORAGE_ERROR),
        (None, 1, True, True, True, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_partition_is_settled_as_in_kafka(state, acks, on_commit, kept, settled, code):
    """Its end is offset 20, appended in leader epoch 6. `kept`: the experiment in which a demotion is not told
    (KAFKA-4453), and who waits times out."""
    found = None if state is None else SimpleNamespace(**SOUND | state)
    made = DelayedProduce.__new__(DelayedProduce)
    made.acks = acks
    made.context = SimpleNamespace(
        log_manager=SimpleNamespace(state=lambda ordinal: found if ordinal == 3 else 1 // 0, flush_on_commit=on_commit),
        config=SimpleNamespace(mpbroker_experiment_keep_produces_at_demotion=kept),
    )
    result = SimpleNamespace(error_code=0)
    entry = SimpleNamespace(ordinal=3, required_offset=20, result=result, leader_epoch=6)
    assert made._settled(entry) is settled and result.error_code == code


def test_who_waited_too_long_is_told_of_each_partition_that_was_missing():
    """With no offset: whether it will be acknowledged by all is not known."""
    done = []
    made = DelayedProduce.__new__(DelayedProduce)
    made.request = SimpleNamespace(flag_timed_out=lambda: done.append("flagged"))
    made.context = SimpleNamespace(count=done.append)
    results = [SimpleNamespace(error_code=0, base_offset=7) for _ in range(2)]
    made.pending = [SimpleNamespace(result=result) for result in results]
    made.on_expiration()
    assert done == ["flagged", "purgatory_expired"]
    assert [(one.error_code, one.base_offset) for one in results] == [(ErrorCode.REQUEST_TIMED_OUT, -1)] * 2
