"""Which transactions are open in a log that nobody serves."""

import pytest

from mpbroker.log.open_transactions import open_transactions
from mpbroker.log.producer_snapshot import ProducerEntry, write_snapshot
from mpbroker.record.batch_builder import control_batch, encode_batch


def transactional(offset: int, producer: int) -> bytes:
    settings = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    return encode_batch([(b"k", b"v", 1)], base_offset=offset, **settings)


@pytest.mark.parametrize("snapshot", [None, 3, 6])
def test_open_transactions_of_a_log(tmp_path, snapshot):
    """From the newest snapshot on, over several segments."""
    (tmp_path / f"{0:020d}.log").write_bytes(transactional(0, 7) + transactional(1, 8) + transactional(2, 7))
    end = bytearray(control_batch(True, 7, 0, 0, 1))
    end[:8] = (3).to_bytes(8, "big")
    (tmp_path / f"{3:020d}.log").write_bytes(bytes(end) + transactional(4, 7) + transactional(5, 9))
    if snapshot is not None:
        entries = [ProducerEntry(8, 0, 0, 1, 0, 1, txn_first=1), ProducerEntry(7, 0, 0, 2, 0, 1, txn_first=0)]
        write_snapshot(str(tmp_path), snapshot, entries if snapshot == 3 else entries[:1])
    found = [(entry.txn_first, entry.producer_id) for entry in open_transactions(str(tmp_path))]
    assert found == ([(1, 8)] if snapshot == 6 else [(1, 8), (4, 7), (5, 9)])
