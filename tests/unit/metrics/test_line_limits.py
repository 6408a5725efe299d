"""How often lines are written: one kind and peer, one kind, all; whatever is held back is counted somewhere."""

from mpbroker.metrics.line_limits import KIND_BURST, LINES_BURST, MAX_PEERS, PEER_PAUSE_S, LineLimits


def test_one_peer_is_heard_once_in_a_while():
    limits = LineLimits(0.0)
    assert [limits.allow("kind", "a", "WARN", now) for now in (0, 1, 2, PEER_PAUSE_S)] == [0, None, None, 2]


def test_other_kinds_and_peers_are_heard_meanwhile():
    limits = LineLimits(0.0)
    assert [limits.allow(*who, "WARN", 0.0) for who in (("k", "a"), ("k", "b"), ("m", "a"), ("k", "a"))] == [
        0,
        0,
        0,
        None,
    ]


def test_many_peers_of_one_kind_leave_room_for_other_kinds():
    limits = LineLimits(0.0)
    heard = [limits.allow("scan", str(number), "WARN", 0.0) for number in range(1000)]
    assert heard.count(0) == KIND_BURST and heard.count(None) == 1000 - KIND_BURST
    assert limits.allow("other", "a", "WARN", 0.0) == 0
    assert limits.allow("scan", "late", "WARN", 60.0) == 1000 - KIND_BURST


def test_nothing_held_back_is_forgotten():
    """Every line is written, said to be suppressed by one that is, or named when its flood has ended."""
    limits, said, sent = LineLimits(0.0), 0, 0
    for turn in range(50):
        for number in range(3 * MAX_PEERS):
            sent += 1
            allowed = limits.allow("k", str(number), "WARN", turn * 0.5)
            said += 0 if allowed is None else 1 + allowed
    said += sum(held.lines for held in limits.ended(10_000.0)) + limits.held_over_all
    assert said == sent
    assert limits.ended(20_000.0) == []


def test_the_table_of_peers_is_bounded():
    limits = LineLimits(0.0)
    for number in range(5 * MAX_PEERS):
        limits.allow("k", str(number), "WARN", number * 1.0)
    assert len(limits._peers) <= MAX_PEERS


def test_a_line_about_nobody_knows_only_the_bound_over_all():
    limits = LineLimits(0.0)
    heard = [limits.allow("k", None, "INFO", 0.0) for _ in range(LINES_BURST + 5)]
    assert heard == [0] * LINES_BURST + [None] * 5
    assert limits.held_over_all == 5
