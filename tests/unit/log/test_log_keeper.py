"""All jobs together: one that fails stops no other, and the keeper knows when it has to look again."""

import resource
from types import SimpleNamespace

import pytest

from mpbroker._native import Log
from mpbroker.log import log_keeper
from mpbroker.log.log_keeper import LogKeeper
from tests.unit.log.log_world import config_of


def test_a_job_that_fails_is_said_and_counted_and_the_flush_goes_on(world, monkeypatch):
    partition = world.create()
    world.config = config_of("mpbroker.log.flush=commit")
    counted = []
    keeper = LogKeeper(world.keeper(config=world.config, count=lambda name, n=1: counted.append(name)))

    def fail():
        raise ValueError("a bug")

    monkeypatch.setattr(keeper.retention, "do_work", fail)
    world.fill(partition, 3)
    keeper.do_work()
    assert world.state(partition).flushed_offset == 3
    assert counted.count("log_keeper_failures") == 1 and "log_flushes" in counted
    assert world.events.named("log_keeper_job_failed")[0]["job"] == "LogRetention"
    assert (world.path / "replication-offset-checkpoint").exists(), "the jobs behind it had their turn"


def test_a_roll_is_followed_by_a_sync_and_a_snapshot(world):
    partition = world.create()
    keeper = LogKeeper(world.keeper())
    keeper.do_work()
    world.fill(partition, 3)
    world.roll(partition)
    world.fill(partition, 5)
    world.clock.advance(1000)
    keeper.do_work()
    assert world.state(partition).flushed_offset == 5
    assert world.files(partition, ".snapshot") == [f"{5:020d}.snapshot"]


def test_where_a_thread_flushes_the_jobs_do_not(world, monkeypatch):
    """But look whether what it synced has rolled; and time is up for either by itself."""
    partition, config = world.create(), config_of("mpbroker.log.flush=commit")
    flush_log = Log(world.core, [str(world.path)], 2)
    keeper = LogKeeper(world.keeper(), flush_log=flush_log)
    assert keeper.flusher._keeper.log is flush_log and keeper.flush_remaining_ms() < 1000
    keeper.use_config(config)
    assert keeper.flush_remaining_ms() == 1000
    world.fill(partition, 3)
    world.roll(partition)
    world.fill(partition, 5)
    keeper.do_work()
    assert world.state(partition).flushed_offset == 0
    keeper.flush()
    assert world.state(partition).flushed_offset == 5 and not world.files(partition, ".snapshot")
    keeper.do_work()
    assert world.files(partition, ".snapshot")
    monkeypatch.setattr(keeper.flusher, "remaining_ms", lambda: 0)
    assert keeper.remaining_ms() > 0 == keeper.flush_remaining_ms()
    world.fill(partition, 7)
    world.log.fail_log_dir(0)
    keeper.flush()
    assert keeper._synced.empty(), "of a directory that is offline nothing is synced"
    flush_log.close()


def test_it_need_not_look_again_at_once_when_nothing_is_due(world):
    world.create()
    keeper = LogKeeper(world.keeper())
    for _ in range(3):
        keeper.do_work()
    assert keeper.remaining_ms() == 1000
    world.clock.advance(999)
    assert keeper.remaining_ms() == 1


def test_partitions_are_known_from_the_beginning_and_after_each_change(world, monkeypatch):
    """At its start, when topics change, and when settings may have made others of them."""
    first = world.create()
    keeper = LogKeeper(world.keeper())
    assert keeper.partition_at(first.ordinal).who == ("t", 0) and keeper.partition_at(first.ordinal + 1) is None
    forgotten, changed = [], []
    monkeypatch.setattr(keeper.snapshots, "forget", forgotten.append)
    monkeypatch.setattr(keeper.checkpoints, "topics_changed", lambda: changed.append(len(forgotten)))
    partitions, config = keeper._keeper.partitions, config_of("log.retention.ms=5")
    monkeypatch.setattr(partitions, "refresh", lambda: False)
    keeper.do_work()
    assert forgotten == changed == []
    monkeypatch.setattr(partitions, "refresh", lambda: True)
    keeper._by_ordinal = {}
    keeper.do_work()
    assert forgotten == [{(first.topic_id, 0)}] and changed == [1] and keeper.partition_at(first.ordinal) is not None
    taken = []
    monkeypatch.setattr(partitions, "use_config", taken.append)
    keeper._by_ordinal = {}
    keeper.use_config(config)
    assert taken == [config] and keeper._keeper.config is config and len(forgotten) == 2
    assert keeper.partition_at(first.ordinal).who == ("t", 0) and changed == [1]


def test_a_directory_that_failed_is_left_alone(world, monkeypatch):
    keeper = LogKeeper(world.keeper())
    done = []
    monkeypatch.setattr(keeper.flusher, "do_work", lambda: done.append("flush"))
    keeper._jobs = (SimpleNamespace(do_work=lambda: setattr(keeper.offline, "failed", True)), SimpleNamespace())
    keeper.offline = SimpleNamespace(failed=False, do_work=lambda: done.append("offline"))
    keeper.do_work()
    assert done == ["offline", "flush"] and keeper.remaining_ms() == log_keeper.WAIT_MS


def test_segments_that_go_are_deleted_and_their_log_start_written(world, monkeypatch):
    keeper, done = LogKeeper(world.keeper()), []
    monkeypatch.setattr(keeper.checkpoints, "log_start_moved", lambda partition: done.append(partition))
    monkeypatch.setattr(keeper.deletion, "removed", lambda *words: done.append(words))
    keeper._removed("t-0", [0, 7])
    assert done == ["t-0", ("t-0", [0, 7])]


def test_a_stop_ends_the_compaction_first(world, monkeypatch):
    """It writes into the same partitions; and without the epochs on disk no start may believe in the stop."""
    world.create()
    keeper = LogKeeper(world.keeper())
    done = []
    monkeypatch.setattr(keeper.cleaner, "stop", lambda: done.append("cleaner"))
    monkeypatch.setattr(keeper.epochs, "write", lambda: done.append("epochs"))
    assert not keeper.stop() and done == ["cleaner", "epochs"]
    monkeypatch.setattr(keeper.epochs, "write", lambda: True)
    assert keeper.stop()


@pytest.mark.parametrize("clean", [True, False])
def test_the_process_beats_in_every_round_and_says_whether_its_stop_was_clean(monkeypatch, clean):
    done, rounds, config = [], iter([False, False, False, True]), object()
    note = lambda *what: lambda *_: done.append(" ".join(what))  # noqa: E731
    keeper = SimpleNamespace(
        use_config=lambda given: done.append("config" if given is config else "another"),
        do_work=note("work"),
        remaining_ms=lambda: 10**9,
        stop=lambda: done.append("stop") or clean,
    )
    log = SimpleNamespace(close=note("close"), repair_slot=note("repair"), close_stale=lambda: None)
    monkeypatch.setattr(log_keeper, "Log", lambda *_: log)
    monkeypatch.setattr(log_keeper, "keepers", lambda *_: keeper)
    reloads = iter([None, config, None])
    ctx = SimpleNamespace(
        process_row=SimpleNamespace(beat=note("beat"), set_state=lambda state: done.append(state.name)),
        core=SimpleNamespace(wait_service=lambda slot, ms: done.append(ms), ring_everybody=note("ring")),
        log=SimpleNamespace(tick=note("tick")),
        data_dirs=("/d",),
        slot=3,
        incarnation=2,
        config=config,
        running=note("runs"),
        stop_requested=lambda: next(rounds),
        take_reload=lambda: next(reloads),
    )
    if clean:
        log_keeper.main(ctx)
    else:
        with pytest.raises(SystemExit) as ended:
            log_keeper.main(ctx)
        assert ended.value.code == 1
    usual = ["beat", "tick", "work", log_keeper.WAIT_MS]
    assert done == [
        *("RECOVERING", "repair", "ring", "runs"),
        *usual,
        *("beat", "config", *usual[1:]),
        *usual,
        *("STOPPING", "stop", "close"),
    ]


@pytest.mark.parametrize(
    "descriptors, segments",
    [(resource.RLIM_INFINITY, 1024), (1 << 20, 1024), (6144, 1024), (6143, 1023), (6138, 1023), (12, 2), (5, 1)],
)
def test_a_segment_has_three_files_and_syncs_need_half_of_the_descriptors(monkeypatch, descriptors, segments):
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (descriptors, resource.RLIM_INFINITY))
    assert log_keeper.open_segments() == segments


def test_a_keeper_knows_its_partitions_before_its_first_turn(world, monkeypatch):
    """Moves and the stop ask it for them."""
    partition = world.create()
    world.partitions.all = []
    monkeypatch.setattr(world.partitions, "refresh", lambda: world.partitions.all.append(partition) or True)
    keeper = LogKeeper(world.keeper())
    assert keeper.partition_at(partition.ordinal) is partition and keeper.partition_at(9) is None
