"""The broker of tests: which processes it waits for, and whom it never signals."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.shm.process_table import ProcessState
from tests.harness.broker import LOG_KEEPER, Broker, all_run

pytestmark = pytest.mark.slow


def rows(*pids, role=LOG_KEEPER, state=ProcessState.RUNNING):
    return [SimpleNamespace(role=role, state=state, pid=pid) for pid in pids]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (rows(5, 6), True),
        (rows(5, 0), False),
        ([*rows(5), *rows(6, state=ProcessState.STARTING)], False),
        (rows(5, role=LOG_KEEPER + 1), False),
        ([], False),
    ],
    ids=["all", "one that nobody knows yet", "one that starts", "the late ones are not there", "nobody"],
)
def test_all_run_when_the_last_ones_do_and_are_known(found, wanted):
    assert all_run(found) is wanted


def test_a_process_that_is_not_there_is_not_signalled(tmp_path, monkeypatch):
    broker = Broker(tmp_path)
    monkeypatch.setattr(broker, "row", lambda role, index: {"pid": 0})
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("0 is everybody in the process group of the tests"))
    with pytest.raises(AssertionError, match="handler 3 does not run"):
        broker.kill("handler", 3)
