"""Every method of the log that is about one partition refuses arguments that are none, whichever it is."""

import pytest

from mpbroker import _native
from mpbroker.errors import ErrorCode
from tests.unit.native.test_log import NOW_MS, TOPIC_ID, make_batch
from tests.unit.native.test_log import log as log

OPTIONS = _native.LogOptions()
BATCH = make_batch([b"a"])
#: What follows the row's number.
CALLS = {
    "state": (),
    "publish": (TOPIC_ID, 0, 0, 0, "t-0", {}),
    "create": (TOPIC_ID, 0, 0, 0, "t-0", 5, NOW_MS),
    "set_flags": (0, 0),
    "set_high_watermark": (0,),
    "set_log_start": (0,),
    "is_busy": (),
    "append": (_native.NO_REQUEST, 0, BATCH, OPTIONS, NOW_MS, 7, -1, None, TOPIC_ID, 1),
    "become": (0, 6, 6, (1, 2), (1,), 1, 1, NOW_MS, 1),
    "stop": (),
    "replica_state": (),
    "load_epochs": ([],),
    "scan_epochs": (0,),
    "epochs": (),
    "epochs_written": ([],),
    "follower_fetched": (2, 1, 5, 0, -1, 0, NOW_MS, TOPIC_ID),
    "append_follower": (5, 0, BATCH, 0, 0, OPTIONS, NOW_MS, TOPIC_ID),
    "truncate_follower": (0, 5, NOW_MS),
    "start_at": (0, 5, NOW_MS),
    "isr_answered": (5, 5, (1,), 0),
    "refuse": (_native.NO_REQUEST, 0, 1, TOPIC_ID),
    "not_synced": (_native.NO_REQUEST, 0, 1),
    "roll": (NOW_MS,),
    "find": (0, 0, 100, True, TOPIC_ID),
    "find_time": (0, 0, TOPIC_ID),
    "largest_time": (TOPIC_ID,),
    "truncate": (0,),
    "ask_move": (TOPIC_ID, 0),
    "give_up_move": (1,),
    "move_of": (),
    "show_future": (0, 0),
    "end_move": (TOPIC_ID, 0, 1, 0, 1, 0, 0, 0, (0, 0, 0, 0), 0),
    "swap": (TOPIC_ID, 0, 0, 0),
    "retain": (-1, -1, NOW_MS, TOPIC_ID),
    "delete_records": (0, TOPIC_ID),
    "start_written": (0, TOPIC_ID),
    "flush": (),
    "set_flushed": (0,),
    "segments": (),
    "producers": (),
    "load_producers": ([],),
    "expire_producers": (0, 0),
    "close_cached": (),
    "verify": (7, 0, TOPIC_ID, -1),
    "guard": (7, 0, 0, TOPIC_ID),
    "load_ended": ([],),
    "append_marker": (7, 0, 0, True, OPTIONS, NOW_MS, -1, TOPIC_ID),
    "open_transactions": (),
    "producer_entries": (),
    "load_transactions": ([],),
}


def the_rows(log):
    return [(row.leo, row.hw, row.log_start, row.leader_epoch) for row in map(log.state, (2, 3, 4))]


@pytest.mark.parametrize("name", CALLS)
def test_arguments_that_are_none(log, name):
    method, good, before = getattr(log, name), CALLS[name], the_rows(log)
    for row in (4_000_000, 2**32 - 1):
        with pytest.raises(ValueError, match="no partition row"):
            method(row, *good)
    for wrong in ("3", None, 3.0):
        with pytest.raises(TypeError):
            method(wrong, *good)
    for place, value in enumerate(good):
        if type(value) is bool:
            continue  # everything is true or false
        with pytest.raises((TypeError, ValueError)):
            method(3, *good[:place], object(), *good[place + 1 :])
        if value is TOPIC_ID:
            with pytest.raises(ValueError, match="16 bytes"):
                method(3, *good[:place], bytes(15), *good[place + 1 :])
    with pytest.raises(TypeError):
        method(3, *good, *(0,) * 20)
    with pytest.raises(TypeError):
        method()
    assert the_rows(log) == before


@pytest.mark.parametrize("name", sorted(name for name in CALLS if TOPIC_ID in CALLS[name]))
def test_another_topics_row_is_left_alone(log, name):
    """All but the two that make the row another's; of those one makes a log, and none over records."""
    log.append(3, _native.NO_REQUEST, 0, BATCH, OPTIONS, NOW_MS)
    before = the_rows(log)
    found = getattr(log, name)(3, *(bytes(16) if value is TOPIC_ID else value for value in CALLS[name]))
    if name in ("create", "publish"):
        assert found == (ErrorCode.KAFKA_STORAGE_ERROR if name == "create" else 0)
        return
    code = found[0] if isinstance(found, tuple) else getattr(found, "error", found)
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert the_rows(log) == before


@pytest.mark.parametrize("name", CALLS)
def test_a_log_that_is_closed(log, name):
    log.close()
    with pytest.raises(ValueError, match="closed"):
        getattr(log, name)(3, *CALLS[name])
