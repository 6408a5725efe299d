"""Lists of rows: what is no tuple, or another one, is a TypeError; a SystemError would speak of a fault of ours."""

import select

import pytest

from mpbroker import _native
from tests.harness.small_core import small_core
from tests.unit.log.test_followers_transactions import Replica

LARGE, LATE_MS = 1 << 40, 1 << 45
#: Method → rows that it takes.
LOADED = {
    "load_epochs": [(1, LARGE), (2, LARGE + 1)],
    "load_producers": [(LARGE, 5, 0, 1, LARGE, 1, LATE_MS)],
    "load_transactions": [(LARGE, 500, 700, LARGE, LATE_MS)],
    "load_ended": [(LARGE, LARGE + 1)],
}
NONE = ["x", b"x", None, 5, [1, 2], {}, (), (1,), ("x",) * 7, (1,) * 9]


@pytest.mark.parametrize("name", LOADED)
def test_of_a_log(tmp_path, name):
    log = Replica(tmp_path / "one").log
    method, good = getattr(log, name), LOADED[name]
    for row in NONE:
        for rows in ([row], [*good, row]):
            with pytest.raises(TypeError):
                method(0, rows)
    for rows in (None, tuple(good), iter(good)):
        with pytest.raises(TypeError):
            method(0, rows)
    assert method(0, []) == 0
    log.close()


def test_versions_of_a_turn():
    port = _native.ProcessorPort(small_core().core, 0)
    for versions in ({3: "x"}, {3: [0, 1]}, {3: (0,)}, {3: (0, 1, 2)}, {3: ("x", 1)}, {3: None}, {"x": (0, 1)}):
        with pytest.raises(TypeError):
            _native.NetworkTurn(port, -1, 0, 0, 100, -1, versions)
    for versions in ({-1: (0, 1)}, {1 << 20: (0, 1)}):
        with pytest.raises(ValueError, match="api key"):
            _native.NetworkTurn(port, -1, 0, 0, 100, -1, versions)
    _native.NetworkTurn(port, -1, 0, 0, 100, -1, {0: (0, 1)})


def test_partitions_of_a_follower(tmp_path):
    log, epoll = Replica(tmp_path / "one").log, select.epoll()
    fetches, session = _native.SteadyFetches(log, epoll.fileno()), (9, "c", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    good = (bytes(16), 0, 0, 1, 5, 1, 0, 5, _native.LogOptions())
    for row in [*NONE, list(good), good[:8], (*good, 1), (*good[:8], None), ("x", *good[1:])]:
        with pytest.raises(TypeError):
            fetches.begin(*session, [row])
    assert fetches.begin(*session, [good])
    epoll.close()
    log.close()


class _Slotted:
    __slots__ = ("field",)


def test_fields_of_a_plan():
    good = ("field", 1, 0, None, 0, 0)
    for row in [*NONE, list(good), good[:5], (*good, 1)]:
        for places in (((row,), (), ()), ((), (row,), ()), ((), (), (row,))):
            with pytest.raises(TypeError):
                _native.Plan(_Slotted, False, *places)
    assert _native.Plan(_Slotted, False, (good,), (), ()).min_bytes == 1
