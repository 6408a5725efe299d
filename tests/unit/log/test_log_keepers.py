"""Several directories as one process: troubles and gauges joined, a stop of each."""

from types import SimpleNamespace

from mpbroker.log.log_keepers import JoinedSigns, LogKeepers
from mpbroker.shm.troubles import Trouble


class Keeper:
    def __init__(self, due_ms, clean):
        self.due_ms, self.clean, self.seen = due_ms, clean, []

    def do_work(self):
        self.seen.append("work")

    def remaining_ms(self):
        return self.due_ms

    def use_config(self, config):
        self.seen.append(config)

    def stop(self):
        self.seen.append("stop")
        return self.clean


def test_each_has_its_turn_and_is_stopped_whatever_becomes_of_the_others():
    first, second = Keeper(200, False), Keeper(50, True)
    both = LogKeepers([first, second])
    both.do_work()
    both.use_config("config")
    assert both.remaining_ms() == 50
    assert not both.stop()
    assert first.seen == second.seen == ["work", "config", "stop"]


def test_a_flush_is_of_all_of_them_and_due_with_the_first():
    done = []
    keepers = [
        SimpleNamespace(flush=lambda at=at: done.append(at), flush_remaining_ms=lambda at=at: at) for at in (70, 30)
    ]
    both = LogKeepers(keepers)
    both.flush()
    assert done == [70, 30] and both.flush_remaining_ms() == 30


def test_a_trouble_stays_while_one_has_it_and_gauges_are_summed():
    said, gauges = [], {}
    signs = JoinedSigns(lambda trouble, there: said.append(there), gauges.__setitem__)
    first, second = signs.trouble_of(0), signs.trouble_of(1)
    first(Trouble.APPENDS_REFUSED, True)
    second(Trouble.APPENDS_REFUSED, True)
    first(Trouble.APPENDS_REFUSED, False)
    second(Trouble.APPENDS_REFUSED, False)
    assert said == [True, True, True, False]
    signs.gauge_of(0)("deleted_bytes_open", 5)
    signs.gauge_of(1)("deleted_bytes_open", 3)
    signs.gauge_of(0)("deleted_bytes_open", 1)
    assert gauges == {"deleted_bytes_open": 4}


def test_the_mover_has_its_turn_and_stops_first():
    order = []
    keeper = Keeper(200, True)
    keeper.do_work, keeper.stop = lambda: order.append("keeper"), lambda: order.append("stop keeper") or True
    mover = Keeper(50, True)
    mover.do_work, mover.stop = lambda: order.append("mover"), lambda: order.append("stop mover")
    both = LogKeepers([keeper], mover)
    both.do_work()
    assert both.remaining_ms() == 50 and both.stop() is True
    assert order == ["keeper", "mover", "stop mover", "stop keeper"]
    mover.due_ms = 500
    assert both.remaining_ms() == 200
