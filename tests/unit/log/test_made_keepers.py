"""The log keepers that the process makes: one for each usable directory, what each works with, what turns do."""

import resource
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.log import log_keeper as module
from mpbroker.log.keeper_context import IoFailures
from mpbroker.log.log_keeper import (
    DESCRIPTORS_A_SEGMENT,
    EXIT_NOT_CLEAN,
    OPEN_SEGMENTS,
    WAIT_MS,
    context_of,
    keepers,
    open_segments,
)
from mpbroker.shm.clock import Began
from mpbroker.shm.layout import MAX_SLOTS
from mpbroker.shm.process_table import ProcessState
from mpbroker.shm.troubles import Trouble

SLOT = 6
BEGAN = Began(9_000, 7)


class World:
    """A log keeper's process; `offline`: directories that cannot be used."""

    def __init__(self, monkeypatch, *directories, offline=(), incarnation=1):
        self.done, self.troubles, self.counters, self.made, self.moved = [], [], {}, [], []
        monkeypatch.setattr(module, "Log", lambda *words: ("log", *words))
        monkeypatch.setattr(module, "LogKeeper", self.keeper)
        monkeypatch.setattr(module, "ReplicaMover", lambda *words: self.moved.append(words) or "mover")
        monkeypatch.setattr(module, "LogKeepers", lambda made, mover: (made, mover))
        monkeypatch.setattr(module, "KeptPartitions", lambda core, config, log_dir: ("partitions", log_dir))
        monkeypatch.setattr(module, "partition_who", lambda core, ordinal: SimpleNamespace(log_dir=ordinal % 2))
        monkeypatch.setattr(module, "ProcessRow", self.row_of)
        monkeypatch.setattr(module, "counter_id", lambda name: name)
        self.log = SimpleNamespace(log_dir_online=lambda number: number not in offline)
        told = lambda event, **_: self.done.append(event)  # noqa: E731
        self.row = SimpleNamespace(
            set_trouble=lambda *words: self.troubles.append(words), set_counter=self.counters.__setitem__,
            set_wait=None, count=None, beat=lambda: self.done.append("beat"), set_state=self.done.append,
        )  # fmt: skip
        core = SimpleNamespace(
            moves=3, crash_point=None, ring_service=lambda slot: self.done.append(("ring", slot)),
            notify_partition=lambda *words: self.done.append(("notify", *words)),
        )  # fmt: skip
        self.ctx = SimpleNamespace(
            core=core, slot=SLOT, data_dirs=directories, process_row=self.row, incarnation=incarnation, began=BEGAN,
            log=SimpleNamespace(error=told, tick=lambda: self.done.append("tick")),
            config=load_broker_config(overrides=["log.initial.task.delay.ms=77"], environ={}, cores=2),
        )  # fmt: skip

    def row_of(self, _core, slot):
        return SimpleNamespace(
            pid=slot if slot < 2 else 0, counter=lambda _: 10 + slot, log_errno=5, log_errno_row=slot
        )

    def keeper(self, context, make_log, ring, flush_log):
        self.made.append(SimpleNamespace(keeper=context, make_log=make_log, ring=ring, flush_log=flush_log))
        return self.made[-1]


def test_a_broker_with_one_directory_has_one_keeper_and_no_mover(monkeypatch):
    world = World(monkeypatch, "/a")
    made, mover = keepers(world.ctx, world.log)
    assert mover is None and [one.keeper.data_dir for one in made] == ["/a"]
    context = made[0].keeper
    assert context.trouble == world.row.set_trouble and context.partitions == ("partitions", None)
    assert context.cleaning is made[0].flush_log is None
    made[0].ring()
    assert world.done == [("ring", SLOT)] and made[0].make_log()[:4] == ("log", world.ctx.core, ["/a"], SLOT)


def test_of_several_directories_each_has_its_own_and_a_mover_between_them(monkeypatch):
    world = World(monkeypatch, "/a", "/b")
    made, mover = keepers(world.ctx, world.log)
    assert mover == "mover" and [one.keeper.log_dir for one in made] == [0, 1]
    assert [one.keeper.partitions for one in made] == [("partitions", 0), ("partitions", 1)]
    first, second = (one.keeper for one in made)
    assert first.cleaning is second.cleaning is not None
    assert made[0].flush_log is made[1].flush_log and made[0].flush_log[0] == "log", "one thread has it"
    assert [first.is_mine(ordinal) for ordinal in (4, 5)] == [True, False] == [not second.is_mine(o) for o in (4, 5)]
    first.trouble(Trouble.APPENDS_REFUSED, True)
    second.trouble(Trouble.APPENDS_REFUSED, False)
    assert world.troubles == [(Trouble.APPENDS_REFUSED, True)] * 2, "it is there while one has it"
    first.set_gauge("deleted_bytes_open", 5)
    second.set_gauge("deleted_bytes_open", 3)
    assert world.counters == {"deleted_bytes_open": 8}
    [(log, found, moves, make_log, ring)] = world.moved
    assert log is world.log and found == {0: made[0], 1: made[1]} and moves() == 3
    assert make_log()[2] == ["/a", "/b"] and ring() is None and world.done == [("ring", SLOT)]


@pytest.mark.parametrize(("offline", "kept", "told"), [({1}, [0, 2], 1), ({0}, [0, 1, 2], 0), ({1, 2}, [0], 2)])
def test_a_directory_that_could_not_be_used_is_told_and_has_none(monkeypatch, offline, kept, told):
    """The first one's keeper says it itself."""
    world = World(monkeypatch, "/a", "/b", "/c", offline=offline)
    made, _ = keepers(world.ctx, world.log)
    assert [one.keeper.log_dir for one in made] == kept
    assert world.done == ["log_directory_offline"] * told
    assert world.troubles == [(Trouble.LOG_DIRECTORY_OFFLINE, True)] * told


@pytest.mark.parametrize(("incarnation", "is_successor", "delay_ms"), [(1, False, 77), (2, True, 0)])
def test_a_successor_does_not_wait_before_its_first_round(monkeypatch, incarnation, is_successor, delay_ms):
    world = World(monkeypatch, "/a", incarnation=incarnation)
    context = context_of(world.ctx, world.log)
    assert (context.is_successor, context.first_delay_ms, context.began) == (is_successor, delay_ms, BEGAN)
    assert context.pids() == [1] and context.data_dir == "/a" and context.log_dir == 0
    failures = context.io_failures()
    assert len(failures) == MAX_SLOTS and failures[3] == IoFailures(13, 5, 2)
    context.notify(9)
    assert world.done == [("notify", 9, SLOT)]


@pytest.mark.parametrize(
    ("allowed", "segments"),
    [
        (resource.RLIM_INFINITY, OPEN_SEGMENTS),
        (1 << 30, OPEN_SEGMENTS),
        (2 * DESCRIPTORS_A_SEGMENT * 5, 5),
        (2 * DESCRIPTORS_A_SEGMENT * 5 - 1, 4),
        (3, 1),
    ],
)
def test_half_of_the_descriptors_are_for_open_segments(monkeypatch, allowed, segments):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    assert open_segments() == segments


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("incarnation", [1, 2])
def test_the_process_works_until_it_is_asked_to_stop_and_then_stops_cleanly(monkeypatch, clean, incarnation):
    world = World(monkeypatch, "/a", incarnation=incarnation)
    note, ctx = world.done.append, world.ctx
    log = SimpleNamespace(repair_slot=lambda slot: note(("repair", slot)), close=lambda: note("closed"))
    due = iter((0, 5, 10**9))
    keeper = SimpleNamespace(
        use_config=lambda config: note("config"), do_work=lambda: note("work"), remaining_ms=lambda: next(due),
        stop=lambda: note("stop") or clean,
    )  # fmt: skip
    monkeypatch.setattr(module, "keepers", lambda *_: keeper)
    monkeypatch.setattr(module, "Log", lambda *_: log)
    monkeypatch.setattr(
        module, "RemovedFiles", lambda given, _: given is log and SimpleNamespace(give_back=lambda: note("given back"))
    )
    monkeypatch.setattr(module, "open_log", lambda *_: log, raising=False)
    reloads = iter((None, "settings", None))
    stops = iter((False, False, False, True))
    ctx.stop_requested, ctx.take_reload = lambda: next(stops), lambda: next(reloads)
    ctx.running, ctx.core.ring_everybody = lambda: note("running"), lambda: note("ring all")
    ctx.core.wait_service = lambda slot, ms: note(("wait", slot, ms))
    if clean:
        module.main(ctx)
    else:
        with pytest.raises(SystemExit) as ended:
            module.main(ctx)
        assert ended.value.code == EXIT_NOT_CLEAN
    begun = [] if incarnation == 1 else [ProcessState.RECOVERING, ("repair", SLOT), "ring all"]
    turn = ["beat", "tick", "work", "given back"]
    assert world.done == [
        *begun, "running", *turn, ("wait", SLOT, 1), "beat", "config", *turn[1:], ("wait", SLOT, 5), *turn,
        ("wait", SLOT, WAIT_MS), ProcessState.STOPPING, "stop", "closed",
    ]  # fmt: skip


def test_of_several_directories_a_thread_flushes_and_waits_for_the_bell(monkeypatch):
    """The main thread waits for that one, and ends it before the logs are stopped."""
    world, given = World(monkeypatch, "/a", "/b"), []
    note, ctx = world.done.append, world.ctx
    log = SimpleNamespace(close=lambda: note("closed"), close_stale=lambda: None)
    keeper = SimpleNamespace(
        do_work=lambda: note("work"), remaining_ms=lambda: 7, stop=lambda: note("stop") or True,
        flush=lambda: note("flush"), flush_remaining_ms=lambda: 10**9,
    )  # fmt: skip
    thread = SimpleNamespace(
        start=lambda: note("begun"), wait=lambda ms: note(("waited", ms)), stop=lambda: note("ended")
    )
    monkeypatch.setattr(module, "keepers", lambda *_: keeper)
    monkeypatch.setattr(module, "Log", lambda *_: log)
    monkeypatch.setattr(module, "FlushThread", lambda *words: given.extend(words) or thread)
    stops = iter((False, True))
    ctx.stop_requested, ctx.take_reload, ctx.running = lambda: next(stops), lambda: None, lambda: note("running")
    ctx.core.wait_service = lambda slot, ms: note(("wait", slot, ms)) or 1
    ctx.wakeup_fd, ctx.drain_wakeups = 5, "drain"
    module.main(ctx)
    assert world.done == [
        "begun", "running", "beat", "tick", "work", ("waited", 7), ProcessState.STOPPING, "ended", "stop", "closed",
    ]  # fmt: skip
    flush, bell, ring, *signals = given
    world.done.clear()
    flush()
    assert bell() is True and ring() is None and signals == [5, "drain"]
    assert world.done == ["flush", ("wait", SLOT, WAIT_MS), ("ring", SLOT)]
