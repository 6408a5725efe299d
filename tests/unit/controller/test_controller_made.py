"""What a controller process is made of, and how a start ends whose metadata store cannot be opened."""

import uuid
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.controller import controller as module
from mpbroker.controller.controller import Controller, build_controller, open_store
from mpbroker.errors import ConfigError, ErrorCode
from mpbroker.metadata.commands import CreateTopics, DeleteTopics, NewTopic
from mpbroker.metadata.meta_store import Put, StoreError, StoreTooNew
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.process_table import WaitName
from tests.harness.controller_world import World


@pytest.mark.parametrize(("coordinator", "handlers"), [(-1, 8), (0, 7), (3, 7)])
def test_a_handler_that_coordinates_is_no_room_for_requests(monkeypatch, coordinator, handlers):
    """-1: no handler does."""
    for name in ("MetadataSnapshot", "PartitionRows", "TopicDeletions"):
        monkeypatch.setattr(module, name, lambda *_: None)
    core = SimpleNamespace(processor_count=3, handler_count=8, coordinator=coordinator)
    made = Controller(
        core=core, config=None, store=None, logs=None, now_ms=None, new_id=None, log=None, count=None, crash_point=None
    )
    assert made._room == (3, handlers)


def test_the_store_is_checked_before_logs_are_opened_and_waits_for_it_are_shown(monkeypatch):
    done, waits, given = [], [], {}
    kept = SimpleNamespace()
    monkeypatch.setattr(module, "open_store", lambda path: done.append(path) or kept)
    monkeypatch.setattr(module, "check_store", lambda *words: done.append(("checked", *words[:3])))
    monkeypatch.setattr(module, "open_log", lambda ctx: done.append("log") or "the log")
    monkeypatch.setattr(module, "build_logs", lambda ctx, log: (ctx.data_dirs, log))
    monkeypatch.setattr(module, "ControllerStore", lambda *words, waiting: given.update(waiting=waiting) or words)
    monkeypatch.setattr(module, "Controller", lambda **named: given.update(named) or "made")
    row = SimpleNamespace(set_wait=waits.append, count="count")
    ctx = SimpleNamespace(
        data_dirs=["/a", "/b"], process_row=row, cluster_id="c", config="config", log="events",
        publish_settings="publish", core=SimpleNamespace(boot_id=5, crash_point="point"),
    )  # fmt: skip
    assert build_controller(ctx) == "made"
    path, checked, log = done
    assert (path, log) == ("/a/" + module.STORE_FILE, "log")
    assert checked[:2] == ("checked", kept) and checked[3] == "/a"
    assert (given["store"][0], given["store"][2], given["logs"]) == (kept, 5, (["/a", "/b"], "the log"))
    assert (given["publish"], given["count"], given["log"], given["config"]) == ("publish", "count", "events", "config")
    assert given["now_ms"].__func__ is SystemClock.wall_ms
    for begins in (True, False):
        given["waiting"](begins)
    assert waits == [WaitName.METASTORE, WaitName.NONE]


@pytest.mark.parametrize(
    ("error", "full", "sentence"),
    [
        (StoreTooNew("made by a later version: use that"), False, "made by a later version: use that"),
        (StoreTooNew("made by a later version"), True, "made by a later version"),
        (StoreError("not a database"), False, "a metadata store that can be read (not a database); put a copy"),
        (StoreError("disk I/O error"), True, "no space left on the disk of /d/store"),
    ],
    ids=["too new", "too new, no room", "no store", "no room"],
)
def test_a_store_that_cannot_be_opened_ends_the_start_with_what_to_do(monkeypatch, error, full, sentence):
    def fail(path):
        raise error

    monkeypatch.setattr(module, "SqliteStore", fail)
    monkeypatch.setattr(module.unusable, "is_full", lambda path: full)
    with pytest.raises(ConfigError) as caught:
        open_store("/d/store")
    assert sentence in str(caught.value) and (caught.value.key, caught.value.value) == ("log.dirs", "/d/store")


def test_the_store_of_a_start_is_its_file(tmp_path):
    for revision in (0, 1):
        store = open_store(str(tmp_path / "store.db"))
        assert store.revision() == revision
        store.txn((), (Put("k", b""),), tag="t")
        store.close()


def test_moves_between_directories_are_gone_on_with_and_the_store_is_closed_at_the_end(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(module.Moves, "resume", lambda moves: done.append("resume"))
    monkeypatch.setattr(module.Moves, "note", lambda moves: done.append("note"))
    world = World(tmp_path)
    assert done == ["resume"], "at every start"
    world.controller.note_moves()
    world.controller._store.close = lambda: done.append("closed")
    world.controller.close()
    assert done == ["resume", "note", "closed"]


def test_settings_that_were_read_again_count_from_the_next_command_on(tmp_path):
    world = World(tmp_path, "num.partitions=2")
    world.run(CreateTopics([NewTopic("before")]))
    config = load_broker_config(
        overrides=[f"log.dirs={tmp_path}", "num.partitions=3", "delete.topic.enable=false"], environ={}, cores=2
    )
    world.controller.use_config(config)
    world.run(CreateTopics([NewTopic("after")]))
    assert {name: len(rows) for name, rows in world.topics().items()} == {"before": 2, "after": 3}
    [result] = world.run(DeleteTopics(["before"])).results
    assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED


def test_the_id_of_a_new_topic_is_a_random_uuid(monkeypatch):
    """Version 4, as Kafka's: of sixteen random bytes all but six bits."""
    for given in (bytes(16), bytes([255] * 16), bytes(range(100, 116))):
        monkeypatch.setattr(module.os, "urandom", lambda count, given=given: given[:count])
        made = module.new_topic_id()
        assert made == uuid.UUID(bytes=given, version=4).bytes
