"""The way to one leader: when an answer is waited for in vain."""

from types import SimpleNamespace

from mpbroker.replication.leader_link import LeaderLink
from mpbroker.shm.clock import ManualClock


def test_an_answer_is_overdue_behind_its_time():
    """Nothing is, before anything was asked."""
    clock, asked = ManualClock(), []
    fetch = SimpleNamespace(next_request=lambda now_ms: asked.append(now_ms) or "fetch")
    link = LeaderLink(2, fetch, None, clock, rescan=lambda: None)
    link.connection = SimpleNamespace(is_idle=True, ask=lambda *request: None)
    clock.advance(700)
    assert not link.is_overdue(500)
    assert link.ask() and asked == [link.asked_ms]
    clock.advance(500)
    assert not link.is_overdue(500)
    clock.advance(1)
    assert link.is_overdue(500)
