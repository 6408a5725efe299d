"""A command of the controller, from its claim to its answer; what it gives back; ids of topics."""

from types import SimpleNamespace

import pytest

from mpbroker.controller import controller
from mpbroker.controller.controller import Controller, new_topic_id, serve_one
from mpbroker.controller.partition_logs import PartitionLogs


@pytest.mark.parametrize("claimed", [None, (3, 9, b"command")])
def test_a_command_is_shown_before_it_is_answered(claimed):
    done = []
    parts = SimpleNamespace(
        claim=lambda wait_ms: done.append(("claim", wait_ms)) or claimed,
        complete=lambda *words: done.append(("complete", *words)),
        tidy=lambda: done.append("tidy"),
        execute=lambda payload, operation: done.append((payload, operation)) or b"answer",
    )
    found = serve_one(parts, parts, lambda: done.append("generation") or 7, 250, done.append)
    if claimed is None:
        assert found is False and done == [("claim", 250), "tidy"]
        return
    assert found is True and done == [
        ("claim", 250), (b"command", 9), "controller.answer_ready", "generation", ("complete", 3, b"answer", 7),
        "controller.answered",
    ]  # fmt: skip


def test_a_new_topic_has_a_random_uuid(monkeypatch):
    monkeypatch.setattr(controller.os, "urandom", lambda count: bytes(range(count)))
    assert new_topic_id() == bytes([0, 1, 2, 3, 4, 5, 0x46, 7, 0x88, *range(9, 16)])
    monkeypatch.setattr(controller.os, "urandom", lambda count: b"\xff" * count)
    assert new_topic_id() == b"\xff" * 6 + b"\x4f\xff\xbf" + b"\xff" * 7


def test_it_gives_back_what_its_own_log_has_open():
    closed, made = [], Controller.__new__(Controller)
    made._logs = PartitionLogs(SimpleNamespace(close_stale=lambda: closed.append(1)), "/d", None, None, None)
    made.close_stale()
    assert closed == [1]
