"""An answer counts when it arrived, as client log and trace together know it; a place in flight likewise."""

import numpy as np

from mpbroker.analysis.lab import arrivals

NEVER = -1


def _ints(*values):
    return np.array(values, np.int64)


def test_the_earlier_of_both_clocks_counts():
    """Stamped with what came later; not stamped; no record; neither; never answered; stamped earlier."""
    found = arrivals.arrived_ns(
        stamped=_ints(900, NEVER, 300, NEVER, NEVER, 250),
        done=_ints(1000, 1000, 1000, 1000, NEVER, 1000),
        sent=_ints(100, 100, 100, 100, 100, 100),
        send_done=_ints(200, 200, NEVER, NEVER, 200, 300),
    )
    assert found.tolist() == [200, 200, 300, NEVER, NEVER, 250]


def test_nothing_arrives_before_it_was_asked_for():
    assert arrivals.arrived_ns(_ints(NEVER), _ints(500), _ints(400), _ints(390)).tolist() == [400]


def test_a_place_is_free_when_its_answer_arrived():
    """Two in flight. A stalled generator read both answers at 1000 and took them for 1000; they came at 300 and 400."""
    ready = arrivals.ready_ns(
        connection=_ints(0, 0, 0, 0, 1),
        corr_id=_ints(1, 2, 3, 4, 5),
        in_flight=2,
        ready=_ints(10, 20, 1000, 1000, 50),
        stamped=_ints(1000, 1000, 2000, 2000, 2000),
        arrived=_ints(300, 400, 1500, 1600, 70),
        least=_ints(10, 20, 350, 350, 50),
    )
    assert ready.tolist() == [10, 20, 350, 400, 50]


def test_what_the_socket_held_back_stays_held_back():
    ready = arrivals.ready_ns(
        _ints(0, 0), _ints(1, 2), 1, _ints(10, 1700), _ints(1000, 2000), _ints(300, 1900), _ints(10, 20)
    )
    assert ready.tolist() == [10, 1700]
