"""What `mpbroker adopt` says of transactions that are open in what it takes in."""

from mpbroker.controller.adoption import adopt
from mpbroker.log.producer_snapshot import ProducerEntry
from tests.unit.controller.test_adoption import TWO, partition


def test_open_transactions_are_named_up_to_ten_of_a_topic(tmp_path, monkeypatch):
    for number in range(3):
        partition(tmp_path, f"a-{number}")
    partition(tmp_path, "b-0", TWO)
    found = [ProducerEntry(7, 0, 0, 9, 0, 1, txn_first=offset) for offset in range(5)]
    monkeypatch.setattr(
        "mpbroker.controller.adoption.open_transactions", lambda path: [] if path.endswith("b-0") else found[1:]
    )
    one, other = adopt(str(tmp_path)).taken
    assert "; transactions are open: a-0 from offset 1 on, of producer 7, a-0 from offset 2 on" in one
    assert "a-2 from offset 2 on, of producer 7, and 2 more. Where neither" in one
    assert "`mpbroker txn abort --topic T" in one and "transaction" not in other
