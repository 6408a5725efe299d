"""Limits per address close, limits per listener, broker and rate make the acceptor wait."""

from mpbroker.config.load_config import load_broker_config
from mpbroker.network import connection_quotas, listener_acceptor
from mpbroker.network.connection_quotas import UNLIMITED, ConnectionQuotas, Limits, Verdict

A, B = bytes(15) + b"\x01", bytes(15) + b"\x02"


def test_an_address_over_its_limit_is_closed_and_not_counted():
    quotas = ConnectionQuotas(Limits(per_ip=2))
    assert [quotas.admit(A, 0) for _ in range(3)] == [Verdict.ADMIT, Verdict.ADMIT, Verdict.CLOSE]
    assert quotas.connections_from(A) == 2
    assert quotas.admit(B, 0) is Verdict.ADMIT
    quotas.dropped(A)
    assert quotas.admit(A, 0) is Verdict.ADMIT


def test_an_override_replaces_the_limit_both_ways():
    quotas = ConnectionQuotas(Limits(per_ip=1, per_ip_overrides={A: 2, B: 0}))
    assert [quotas.admit(A, 0) for _ in range(3)] == [Verdict.ADMIT, Verdict.ADMIT, Verdict.CLOSE]
    assert quotas.admit(B, 0) is Verdict.CLOSE


def test_listener_and_broker_limits_wait_and_a_protected_listener_ignores_the_broker():
    quotas = ConnectionQuotas(Limits(listener=5, broker=8))
    assert quotas.may_accept(4, 7)
    assert not quotas.may_accept(5, 7)
    assert not quotas.may_accept(4, 8)
    assert ConnectionQuotas(Limits(listener=5, broker=8, protected=True)).may_accept(4, 100)


def test_closed_connections_come_back_to_the_quota():
    quotas = ConnectionQuotas(Limits(per_ip=2))
    quotas.admit(A, 0)
    quotas.admit(A, 0)
    quotas.handed_over(7, A)
    quotas.handed_over(7, A)
    quotas.closed(7, A, 1)
    assert quotas.connections_from(A) == 1
    quotas.closed(7, A, 5)
    assert quotas.connections_from(A) == 0
    quotas.closed(9, A, 1)
    assert quotas.connections_from(A) == 0


def test_a_dead_processor_takes_its_connections_along():
    quotas = ConnectionQuotas(Limits())
    for processor, address in ((0, A), (0, B), (1, A)):
        quotas.admit(address, 0)
        quotas.handed_over(processor, address)
    quotas.processor_died(0)
    assert (quotas.connections_from(A), quotas.connections_from(B)) == (1, 0)


def test_a_new_acceptor_learns_what_there_is():
    quotas = ConnectionQuotas(Limits(per_ip=3))
    quotas.found(0, A, 3)
    assert quotas.admit(A, 0) is Verdict.CLOSE
    quotas.closed(0, A, 1)
    assert quotas.admit(A, 0) is Verdict.ADMIT


def test_the_creation_rate_makes_wait_and_lets_go_on():
    quotas = ConnectionQuotas(Limits(listener_rate=10, window_s=2))
    for n in range(20):
        assert quotas.rate_delay_ms(n) == 0
        quotas.admit(A, n)
    delay = quotas.rate_delay_ms(20)
    assert 0 < delay <= 2000
    assert quotas.rate_delay_ms(2500) == 0


def test_it_waits_no_longer_than_until_the_rate_is_kept():
    quotas = ConnectionQuotas(Limits(listener_rate=1000, window_s=1))
    for _ in range(1000):
        quotas.admit(A, 0)
    assert quotas.rate_delay_ms(0) == 1
    quotas.admit(A, 0)
    assert quotas.rate_delay_ms(0) == 2
    odd = ConnectionQuotas(Limits(listener_rate=7, window_s=2))
    for _ in range(16):
        odd.admit(A, 0)
    assert odd.rate_delay_ms(0) == 3000 // 7
    slow = ConnectionQuotas(Limits(listener_rate=5, window_s=1))
    for _ in range(7):
        slow.admit(A, 0)
    assert slow.rate_delay_ms(0) == 600


def test_the_smaller_rate_counts_unless_protected():
    limits = Limits(listener_rate=1000, broker_rate=1, window_s=1)
    for protected, waits in ((False, True), (True, False)):
        quotas = ConnectionQuotas(limits._replace(protected=protected))
        quotas.admit(A, 0)
        assert bool(quotas.rate_delay_ms(1)) is waits


def test_a_rate_of_zero_waits_for_the_window():
    quotas = ConnectionQuotas(Limits(listener_rate=0, window_s=3))
    quotas.admit(A, 0)
    assert quotas.rate_delay_ms(0) == 3000


def test_connections_are_counted_by_the_second_in_which_they_came():
    quotas = ConnectionQuotas(Limits(listener_rate=2, window_s=3))
    for now_ms in (0, 999, 1000, 2000, 2500):
        assert quotas.rate_delay_ms(now_ms) == 0
        quotas.admit(A, now_ms)
    assert quotas._accepted == [(0, 2), (1, 1), (2, 2)]
    assert quotas.rate_delay_ms(2500) == 0
    quotas.admit(A, 2600)
    assert 0 < quotas.rate_delay_ms(2600) <= 3000
    assert quotas.rate_delay_ms(2999) > 0 and quotas.rate_delay_ms(3000) == 0, "the first two are old"
    assert quotas._accepted == [(1, 1), (2, 3)]


def test_an_end_that_a_processor_tells_twice_takes_nothing_from_another_one():
    quotas = ConnectionQuotas(Limits())
    for processor in (0, 1):
        quotas.admit(A, 0)
        quotas.handed_over(processor, A)
    for _ in range(2):
        quotas.closed(0, A, 1)
        assert quotas.connections_from(A) == 1


def test_what_is_dropped_is_one_connection():
    quotas = ConnectionQuotas(Limits())
    for _ in range(3):
        quotas.admit(A, 0)
    quotas.dropped(A)
    assert quotas.connections_from(A) == 2


def test_so_many_addresses_are_remembered_and_no_more(monkeypatch):
    """Those that are known go on, and one whose connections ended makes room."""
    monkeypatch.setattr(connection_quotas, "MAX_TRACKED_ADDRESSES", 2)
    quotas, other = ConnectionQuotas(Limits()), bytes(16)
    assert [quotas.admit(address, 0) for address in (A, B, other, A, B)] == [
        Verdict.ADMIT,
        Verdict.ADMIT,
        Verdict.CLOSE,
        Verdict.ADMIT,
        Verdict.ADMIT,
    ]
    quotas.dropped(A)
    assert quotas.admit(other, 0) is Verdict.CLOSE, "one of them is still there"
    quotas.dropped(A)
    assert quotas.admit(other, 0) is Verdict.ADMIT


def test_no_pause_is_longer_than_the_window():
    quotas = ConnectionQuotas(Limits(listener_rate=1, window_s=2))
    for _ in range(10):
        quotas.admit(A, 0)
    assert quotas.rate_delay_ms(0) == 2000


def test_without_a_rate_nobody_waits_and_nothing_is_remembered_for_longer_than_the_window():
    quotas = ConnectionQuotas(Limits(window_s=3))
    for second in range(100):
        quotas.admit(A, second * 1000)
        assert quotas.rate_delay_ms(second * 1000) == 0
    assert quotas._accepted == [(97, 1), (98, 1), (99, 1)]


def test_what_is_not_limited_is_what_kafka_has_without_a_limit():
    defaults = listener_acceptor.limits_of(load_broker_config(overrides=[], environ={}, cores=2), "PLAINTEXT")
    assert defaults == Limits() and not defaults.protected
    assert {*defaults[2:6], defaults.per_ip} == {UNLIMITED} == {2**31 - 1}
    assert not ConnectionQuotas(Limits(broker=1)).may_accept(0, 1)
