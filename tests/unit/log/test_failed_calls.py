"""Failed calls on log files are said, once a second at most, and only the new ones."""

from types import SimpleNamespace

from mpbroker.log.failed_calls import LOOK_EVERY_MS, WELL_AFTER_MS, FailedCalls
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.troubles import Trouble
from tests.harness.controller_world import Lines


def test_a_growing_number_of_failed_calls_is_said():
    clock, lines, failed = ManualClock(), Lines(), 5
    troubles = []
    keeper = SimpleNamespace(clock=clock, events=lines, data_dir="/data", io_errors=lambda: failed)
    keeper.trouble = lambda bit, there: troubles.append((bit, there))
    job = FailedCalls(keeper)
    job.do_work()
    assert lines.events == []  # those were there before
    failed = 7
    job.do_work()
    assert lines.events == [] and 0 < job.remaining_ms() <= LOOK_EVERY_MS
    clock.advance(LOOK_EVERY_MS)
    job.do_work()
    (said,) = lines.named("log_calls_failed")
    assert (said["directory"], said["calls"]) == ("/data", 2)
    clock.advance(LOOK_EVERY_MS)
    job.do_work()
    assert len(lines.events) == 1
    assert troubles == [(Trouble.LOG_CALLS_FAIL, there) for there in (False, True, True)]
    clock.advance(WELL_AFTER_MS)
    job.do_work()
    assert troubles[-1] == (Trouble.LOG_CALLS_FAIL, False)
