"""What a broker says of itself in its cluster's store, and what a store that cannot be read ends a start with."""

from types import SimpleNamespace

import pytest

from mpbroker.controller import controller, own_record
from mpbroker.errors import ConfigError
from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord
from mpbroker.metadata.meta_store import StoreError, StoreTooNew
from mpbroker.shm.process_context import BoundListener


def context():
    listeners = [
        BoundListener(0, "A", "PLAINTEXT", "", 1, "a", 11, False),
        BoundListener(1, "B", "PLAINTEXT", "", 2, "b", 12, False, removed=True),
        BoundListener(2, "C", "PLAINTEXT", "", 3, "c", 13, True),
    ]
    config = SimpleNamespace(node_id=7, broker_rack="r")
    return SimpleNamespace(config=config, directory_ids=("d0", "", "d2"), boot_id=0xAB, listeners=listeners)


@pytest.mark.parametrize("unclean", [True, False])
def test_what_it_says_of_itself(monkeypatch, unclean):
    monkeypatch.setattr(own_record, "machine", lambda: "m")
    assert own_record.own_record(context(), ["d2"], unclean) == BrokerRecord(
        id=7,
        machine="m",
        directory="d0",
        incarnation="00000000000000ab",
        listeners=[ListenerRecord("A", "PLAINTEXT", "a", 11), ListenerRecord("C", "PLAINTEXT", "c", 13)],
        rack="r",
        unclean=unclean,
        failed=["d2"],
    )


def test_which_directories_failed():
    for online, failed in (((0, 1, 2), []), ((0,), ["#1", "d2"]), ((1, 2), ["d0"])):
        log = SimpleNamespace(log_dir_online=online.__contains__)
        assert own_record.failed_directories(context(), log) == failed


def test_a_machine_is_known_by_its_start():
    assert len(own_record.machine()) == 36 and own_record.machine() == own_record.machine()


@pytest.mark.parametrize(
    ("error", "is_full", "words"),
    [
        (StoreTooNew("made by a later version"), True, "made by a later version"),
        (StoreError("no database"), False, "a metadata store that can be read (no database); put a copy of it back"),
        (StoreError("no database"), True, "no space left on the disk of /d/store"),
    ],
)
def test_a_store_that_cannot_be_opened_ends_the_start_with_a_sentence(monkeypatch, error, is_full, words):
    monkeypatch.setattr(controller, "SqliteStore", lambda path: (_ for _ in ()).throw(error))
    monkeypatch.setattr(controller.unusable, "is_full", lambda path: is_full)
    with pytest.raises(ConfigError) as ended:
        controller.open_store("/d/store")
    assert words in str(ended.value) and ended.value.__cause__ is error
    monkeypatch.setattr(controller, "SqliteStore", lambda path: f"store {path}")
    assert controller.open_store("/d/store") == "store /d/store"
