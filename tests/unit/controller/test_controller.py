"""The controller step by step: each command's effect on store, snapshot, rows and directories; starts and restarts."""

import os

import pytest

from mpbroker.controller.controller_recovery import TablesTooSmall
from mpbroker.controller.controller_store import MAX_OPERATIONS_KEPT
from mpbroker.log import disk, partition_directory, unfinished_creation
from mpbroker.log.partition_directory import read_topic_id
from mpbroker.metadata.commands import (
    AllocateProducerIds,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    PartitionCount,
    TopicResult,
    decode_answer,
)
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Unknown
from tests.harness.controller_world import FIRST_SEGMENT, Killed, World
from tests.harness.memory_store import MemoryStore


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, "num.partitions=2")


def create(*topics: NewTopic, validate_only: bool = False) -> CreateTopics:
    return CreateTopics(list(topics), validate_only)


def test_a_created_topic_is_stored_shown_and_on_disk(world):
    (result,) = world.run(create(NewTopic("orders", 3, 1, configs={"retention.ms": "5"}))).results
    assert result == TopicResult("orders", 0, None, (1).to_bytes(16, "big"), 3, 1)
    assert len(world.topics()["orders"]) == 3
    assert world.directories() == ["orders-0", "orders-1", "orders-2"]
    assert read_topic_id(str(world.data_dir / "orders-1")) == result.topic_id
    assert world.cache.topic("orders").settings.retention_ms == 5
    world.check()


def test_defaults_come_from_the_brokers_configuration(world):
    (result,) = world.run(create(NewTopic("orders"))).results
    assert (result.num_partitions, result.replication_factor) == (2, 1)


def test_every_topic_has_its_own_result(world):
    world.run(create(NewTopic("old", 1)))
    topics = [NewTopic("new", 1), NewTopic("twice", 1), NewTopic("old", 1), NewTopic("a b"), NewTopic("twice")]
    answer = world.run(create(*topics))
    assert [(r.name, r.error_code) for r in answer.results] == [("new", 0), ("old", 36), ("a b", 17), ("twice", 42)]
    assert answer.results[-1].error_message == "Duplicate topic name."
    assert sorted(world.topics()) == ["new", "old"]
    world.check()


def test_validation_alone_changes_nothing(world):
    revision = world.store.revision()
    answer = world.run(create(NewTopic("orders", 3), NewTopic("__cluster_metadata"), validate_only=True))
    assert [(r.name, r.error_code, r.num_partitions) for r in answer.results] == [
        ("orders", 0, 3),
        ("__cluster_metadata", 42, -1),
    ]
    assert world.store.revision() == revision
    assert world.directories() == []
    assert world.topics() == {}


def test_partitions_are_added_behind_those_there_are(world):
    world.run(create(NewTopic("orders", 2), NewTopic("other", 1)))
    before = world.topics()["orders"]
    wanted = [PartitionCount("orders", 4), PartitionCount("nope", 4)]
    assert world.codes(CreatePartitions(wanted)) == {"orders": 0, "nope": 3}
    assert world.topics()["orders"][:2] == before
    assert len(world.topics()["orders"]) == 4
    world.check()
    world.boot()
    assert len(world.topics()["orders"]) == 4
    world.check()


def test_partitions_may_be_judged_alone_or_named_twice(world):
    world.run(create(NewTopic("orders", 2)))
    assert world.codes(CreatePartitions([PartitionCount("orders", 4)], validate_only=True)) == {"orders": 0}
    assert world.codes(CreatePartitions([PartitionCount("orders", 4), PartitionCount("orders", 5)])) == {"orders": 42}
    assert len(world.topics()["orders"]) == 2


def test_a_deleted_topic_is_gone_and_comes_back_empty(world):
    world.run(create(NewTopic("orders", 2)))
    (world.data_dir / "orders-0" / FIRST_SEGMENT).write_bytes(b"records")
    first = world.cache.refresh() and world.cache.topic("orders").id
    assert world.codes(DeleteTopics(["orders"], {"orders": b"x" * 16})) == {
        "orders": 100
    }  # of a topic that was there before
    assert world.codes(DeleteTopics(["orders", "nope", "x", "x"])) == {"orders": 0, "nope": 3, "x": 42}
    assert world.topics() == {}
    assert world.live_rows() == 0
    assert world.directories() == [f"orders-{n}.{first.hex()}-delete" for n in range(2)]
    world.run(create(NewTopic("orders", 2)))
    assert world.topics()["orders"] == [2, 3]  # rows of the old one are used last
    assert world.cache.topic("orders").id != first
    assert (world.data_dir / "orders-0" / FIRST_SEGMENT).read_bytes() == b""
    world.check()


def test_a_deleted_topics_directories_are_renamed_on_disk_before_the_store_forgets_it(world, monkeypatch):
    """Else they would come back after a power cut, and nobody would know whose they are."""
    synced, finished = [], []
    sync, finish = disk.sync_directory, world.controller._deletions._store.finish_deletion
    monkeypatch.setattr(disk, "sync_directory", lambda path: (synced.append(os.listdir(path)), sync(path)))
    monkeypatch.setattr(
        world.controller._deletions._store,
        "finish_deletion",
        lambda topic_id: (finished.append(synced[-1:]), finish(topic_id)),
    )
    world.run(create(NewTopic("orders", 2)))
    world.run(DeleteTopics(["orders"]))
    [[names]] = finished
    assert sorted(name.endswith("-delete") for name in names if name.startswith("orders")) == [True, True]


def test_deletion_may_be_switched_off(tmp_path):
    world = World(tmp_path, "delete.topic.enable=false")
    world.run(create(NewTopic("orders", 1)))
    assert world.codes(DeleteTopics(["orders", "nope"])) == {"orders": 73, "nope": 73}
    assert list(world.topics()) == ["orders"]


def test_a_deletion_that_cannot_be_finished_is_tried_again(world):
    world.run(create(NewTopic("orders", 2), NewTopic("other", 1)))
    world.logs.errors[world.topics()["orders"][1]] = 7
    assert world.codes(DeleteTopics(["orders"])) == {"orders": 0}
    assert list(world.topics()) == ["other"]
    (result,) = world.run(create(NewTopic("orders", 1))).results
    assert (result.error_code, result.error_message) == (36, "Topic 'orders' is marked for deletion.")
    world.controller.tidy()
    assert world.codes(create(NewTopic("orders", 1))) == {"orders": 0}
    world.check()


def test_every_change_of_a_topic_is_one_line(world):
    world.run(create(NewTopic("orders", 2), NewTopic("a b")))
    world.run(CreatePartitions([PartitionCount("orders", 3), PartitionCount("nope", 3)]))
    world.run(DeleteTopics(["orders", "nope"]))
    assert world.lines.changes == [
        ("topic_created", "orders", 2),
        ("partitions_created", "orders", 3),
        ("topic_deleted", "orders", 3),
    ]


def test_collisions_go_with_their_topic(world):
    world.run(create(NewTopic("a.b", 1)))
    assert world.codes(create(NewTopic("a_b", 1))) == {"a_b": 17}
    world.run(DeleteTopics(["a.b"]))
    assert world.codes(create(NewTopic("a_b", 1))) == {"a_b": 0}


def test_the_partition_table_has_an_end(world):
    assert world.codes(create(NewTopic("big", 15))) == {"big": 0}
    answer = world.run(create(NewTopic("more", 2), NewTopic("one", 1)))
    assert [(r.name, r.error_code) for r in answer.results] == [("more", 44), ("one", 0)]
    assert "mpbroker.max.partitions" in answer.results[0].error_message
    assert world.codes(CreatePartitions([PartitionCount("big", 16)])) == {"big": 44}
    assert world.counters == {"controller_table_full": 2}
    world.run(DeleteTopics(["big"]))
    assert world.codes(create(NewTopic("more", 15))) == {"more": 0}
    world.check()


def test_the_topic_table_has_an_end(world):
    assert set(world.codes(create(*[NewTopic(f"t{n}", 1) for n in range(8)])).values()) == {0}
    (result,) = world.run(create(NewTopic("more", 1))).results
    assert result.error_code == 44
    assert "mpbroker.max.topics" in result.error_message
    assert world.directories() == [f"t{n}-0" for n in range(8)]
    world.run(DeleteTopics(["t3"]))
    assert world.codes(create(NewTopic("more", 1))) == {"more": 0}
    world.check()


def test_a_topic_whose_log_cannot_be_made_leaves_nothing_behind(world):
    world.logs.errors[1] = 56
    answer = world.run(create(NewTopic("orders", 2), NewTopic("fine", 1)))
    assert [(r.name, r.error_code) for r in answer.results] == [("orders", 56), ("fine", 0)]
    assert list(world.topics()) == ["fine"]
    world.check()
    assert world.codes(create(NewTopic("orders", 2))) == {"orders": 0}
    world.check()


def test_nothing_is_made_in_an_offline_directory(world):
    assert world.codes(create(NewTopic("t", 1))) == {"t": 0}
    world.logs.online = False
    (made,) = world.run(create(NewTopic("orders", 2))).results
    (added,) = world.run(CreatePartitions([PartitionCount("t", 2)])).results
    assert (made.error_code, added.error_code) == (56, 56) and "offline" in made.error_message
    assert list(world.topics()) == ["t"] and world.directories() == ["t-0"]
    world.check()


def test_producer_ids_never_repeat(world):
    blocks = [world.run(AllocateProducerIds(), operation=5) for _ in range(2)]
    world.successor()
    blocks.append(world.run(AllocateProducerIds()))
    world.boot()
    blocks.append(world.run(AllocateProducerIds()))
    assert [(block.first_id, block.count, block.error_code) for block in blocks] == [
        (n * 1000, 1000, 0) for n in range(4)
    ]


def test_a_repeated_operation_gives_its_first_answer(world):
    first = world.run(create(NewTopic("orders", 1)), operation=7)
    assert world.run(create(NewTopic("orders", 1)), operation=7) == first
    world.successor()
    assert world.run(create(NewTopic("orders", 1)), operation=7) == first
    assert world.codes(create(NewTopic("orders", 1)), operation=8) == {"orders": 36}
    deleted = world.run(DeleteTopics(["orders"]), operation=9)
    assert world.run(DeleteTopics(["orders"]), operation=9) == deleted
    world.boot()  # operation numbers begin again
    assert world.codes(create(NewTopic("orders", 1)), operation=7) == {"orders": 0}


def test_answers_kept_are_bounded(world):
    world.run(create(NewTopic("orders", 1)), operation=1)
    for n in range(2, MAX_OPERATIONS_KEPT + 10):
        name = f"t{n % 2}"
        world.run(create(NewTopic(name, 1)) if name not in world.topics() else DeleteTopics([name]), operation=n)
    kept = [entry for page in world.store.scan(Keys("c").operations) for entry in page.entries]
    assert len(kept) == MAX_OPERATIONS_KEPT
    assert world.codes(create(NewTopic("orders", 1)), operation=1) == {"orders": 36}


def test_bytes_that_are_no_command_are_answered(world):
    assert decode_answer(world.controller.execute(b"\xc1", 3)).error_code == -1


@pytest.mark.parametrize("outcome", [Unknown("t"), OSError("disk")])
@pytest.mark.parametrize("happened", [True, False])
def test_a_store_that_fails_costs_one_answer_and_a_fresh_look(world, monkeypatch, outcome, happened):
    txn = world.store.txn

    def failing(checks, ops, *, tag):
        if not tag.startswith("create topics"):
            return txn(checks, ops, tag=tag)
        if happened:
            txn(checks, ops, tag=tag)
        monkeypatch.undo()
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    monkeypatch.setattr(world.store, "txn", failing)
    assert world.codes(create(NewTopic("orders", 2)), operation=4) == {"orders": 0 if happened else -1}
    assert list(world.topics()) == (["orders"] if happened else [])
    assert len(world.lines.named("controller_command_failed")) == 1
    world.check()
    assert world.codes(create(NewTopic("more", 1))) == {"more": 0}


def test_a_restarted_controller_leaves_live_rows_alone(world):
    world.run(create(NewTopic("orders", 2), NewTopic("other", 1)))
    before, generation = world.topics(), world.core.metadata_generation
    world.successor()
    assert world.logs.loaded == []
    assert world.topics() == before
    assert world.core.metadata_generation == generation + 1  # everybody looks once
    world.check()
    world.run(DeleteTopics(["orders"]))
    world.check()


def test_at_boot_logs_are_loaded_from_their_directories(world):
    world.run(create(NewTopic("orders", 2, configs={"retention.ms": "5"})))
    world.boot()
    assert [(p.dir, p.partition, p.topic, p.settings.retention_ms) for p in world.logs.loaded] == [
        ("orders-0", 0, "orders", 5),
        ("orders-1", 1, "orders", 5),
    ]
    assert world.lines.events == []
    world.check()


def test_a_missing_directory_is_made_empty_with_a_line(world):
    world.run(create(NewTopic("orders", 2)))
    for path in (world.data_dir / "orders-1").iterdir():
        path.unlink()
    (world.data_dir / "orders-1").rmdir()
    world.boot()
    assert [p.dir for p in world.logs.loaded] == ["orders-0"]
    assert world.lines.named("log_directory_missing") == [{"directory": "orders-1", "made": "empty"}]
    world.check()


def test_a_directory_without_metadata_is_taken_as_the_topics(world):
    world.run(create(NewTopic("orders", 1)))
    (world.data_dir / "orders-0/partition.metadata").unlink()
    world.boot()
    assert [p.dir for p in world.logs.loaded] == ["orders-0"]
    world.check()


def test_a_missing_directory_of_a_log_that_was_written_is_not_made_anew(world):
    world.run(create(NewTopic("orders", 2)))
    for path in (world.data_dir / "orders-1").iterdir():
        path.unlink()
    (world.data_dir / "orders-1").rmdir()
    world.written["orders", 1] = 200
    world.boot()
    assert [p.dir for p in world.logs.loaded] == ["orders-0", "orders-1"], "the loader shows it offline"
    assert world.directories() == ["orders-0"]
    assert world.lines.named("log_directory_missing") == []


def stray(world, name: str, records: bytes) -> None:
    (world.data_dir / name).mkdir()
    (world.data_dir / name / FIRST_SEGMENT).write_bytes(records)
    (world.data_dir / name / FIRST_SEGMENT).with_suffix(".index").touch()


def test_directories_of_no_topic_are_left_as_they_are_with_a_line(world):
    world.run(create(NewTopic("orders", 1)))
    stray(world, "stranger-0", b"records")
    stray(world, "orders-7", b"records")
    stray(world, "odd-0", b"")
    (world.data_dir / "odd-0" / "notes.txt").write_bytes(b"somebody's")
    (world.data_dir / "traces").mkdir()
    world.boot()
    lines = world.lines.named("stray_directory")
    assert [line["directory"] for line in lines] == ["odd-0", "orders-7", "stranger-0"]
    assert all("mpbroker adopt" in line["remedy"] for line in lines)
    assert world.counters["stray_directories"] == 3
    assert world.directories() == ["odd-0", "orders-0", "orders-7", "stranger-0", "traces"]


def test_what_an_uncommitted_creation_left_goes(world):
    stray(world, "stranger-0", b"")
    unfinished_creation.note(str(world.data_dir), "stranger", bytes(16))
    world.boot()
    assert world.lines.named("stray_directory") == []
    (name,) = world.directories()
    assert name.endswith("-delete")


def test_notes_of_creations_that_were_refused_do_not_gather(world):
    """A client without its coordinator asks again and again."""
    stray(world, "orders-1", b"records")
    for _ in range(3):
        assert world.codes(create(NewTopic("orders", 2))) == {"orders": 56}
        assert not (world.data_dir / unfinished_creation.FILE).exists()
    world.run(create(NewTopic("other", 1)))
    stray(world, "other-1", b"records")
    assert world.codes(CreatePartitions([PartitionCount("other", 2)])) == {"other": 56}
    assert not (world.data_dir / unfinished_creation.FILE).exists()


def test_empty_partitions_of_a_topic_that_an_older_store_does_not_know_stay(world):
    """Else the topic has fewer when it is adopted, and its keys go elsewhere."""
    world.run(create(NewTopic("orders", 3)))
    world.store = MemoryStore()
    for _ in range(2):
        world.boot()
        assert [line["directory"] for line in world.lines.named("stray_directory")] == [
            f"orders-{number}" for number in range(3)
        ]
        assert world.counters["stray_directories"] == 3
    assert world.directories() == ["orders-0", "orders-1", "orders-2"]
    assert not (world.data_dir / unfinished_creation.FILE).exists()


def test_what_nobody_can_tell_to_be_ours_stays(world):
    """Whatever its name: an empty folder, files of somebody else, partition.metadata that is none, or is of a topic of
    which other partitions hold records: without this one, `adopt` would make it with too few."""
    for name in ("backup-2026", "my-0", "app-1", "pipe-0", "link-0", "folder-0"):
        (world.data_dir / name).mkdir()
    (world.data_dir / "app-1/empty.log").touch()
    (world.data_dir / "app-1/x.tmp").touch()
    os.mkfifo(world.data_dir / "pipe-0/partition.metadata")
    (world.data_dir / "link-0/partition.metadata").symlink_to("/nowhere")
    (world.data_dir / "folder-0/partition.metadata").mkdir()
    for number, records in enumerate((b"", b"records")):
        stray(world, f"lived-{number}", records)
        partition_directory.prepare(str(world.data_dir), f"lived-{number}", bytes(15) + b"l")
    before = world.directories()
    world.boot()
    assert world.directories() == before
    assert [line["directory"] for line in world.lines.named("stray_directory")] == before
    assert world.counters["stray_directories"] == len(before) == 8
    assert (world.data_dir / "lived-0" / FIRST_SEGMENT).exists()


@pytest.mark.parametrize("owner", ["version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw", None])
def test_a_topic_is_not_created_over_the_records_of_another(world, owner):
    stray(world, "orders-0", b"records")
    if owner:
        (world.data_dir / "orders-0/partition.metadata").write_text(owner)
    before = {path.name: path.read_bytes() for path in (world.data_dir / "orders-0").iterdir()}
    world.boot()
    assert world.codes(create(NewTopic("orders", 1))) == {"orders": 56}
    assert {path.name: path.read_bytes() for path in (world.data_dir / "orders-0").iterdir()} == before
    assert world.codes(create(NewTopic("others", 1))) == {"others": 0}


def test_a_directory_of_an_older_topic_of_the_same_name_is_left_and_its_partition_offline(world):
    world.run(create(NewTopic("orders", 1)))
    (world.data_dir / "orders-0" / FIRST_SEGMENT).write_bytes(b"old records")
    metadata = world.data_dir / "orders-0/partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    world.boot()
    assert [p.dir for p in world.logs.loaded] == ["orders-0"], "the loader looks whose it is"
    assert [line["directory"] for line in world.lines.named("stray_directory")] == ["orders-0"]
    assert (world.data_dir / "orders-0" / FIRST_SEGMENT).read_bytes() == b"old records"
    assert metadata.read_text().endswith("AAECAwQFBgcICQoLDA0ODw")


def test_tables_smaller_than_the_store_end_the_start(world):
    world.run(create(NewTopic("orders", 4)))
    world.plan = {"partitions": 3}
    with pytest.raises(TablesTooSmall, match=r"mpbroker\.max\.partitions"):
        world.boot()
    world.plan = {"topics": 1}
    world.boot()
    assert world.codes(create(NewTopic("more", 1))) == {"more": 44}


ROWS = 16


def test_creations_that_fail_leak_no_partition_row(tmp_path):
    world = World(tmp_path, partitions=ROWS)
    for number in range(ROWS):
        world.logs.errors = dict.fromkeys(range(1, ROWS), 56)  # the first is made, the second is not
        assert world.codes(create(NewTopic(f"fails-{number}", 2))) == {f"fails-{number}": 56}
    world.logs.errors.clear()
    assert world.codes(create(NewTopic("all", ROWS))) == {"all": 0}


def test_creations_that_were_never_committed_leak_no_partition_row(tmp_path):
    world = World(tmp_path, partitions=ROWS)
    for number in range(ROWS):
        world.armed = "controller.prepared", world.passed["controller.prepared"] + 1
        with pytest.raises(Killed):
            world.run(create(NewTopic(f"lost-{number}", 2)))
        world.successor()
    assert world.codes(create(NewTopic("all", ROWS))) == {"all": 0}
    world.check()
