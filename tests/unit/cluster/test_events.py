"""What goes into the elected controller's logic and what comes out of it is never changed on its way."""

import pytest

from mpbroker.cluster import events


@pytest.mark.parametrize(
    "one",
    [
        events.StoreBatch(1, ()),
        events.Request(1, "command"),
        events.TxnDone("tag", None),
        events.ReadDone("tag", {}),
        events.Answered(1, 2, None),
        events.Tick(),
        events.Txn("tag", (), ()),
        events.Read("tag", ()),
        events.Reply(1, None),
        events.Resign("why"),
        events.Log("INFO", "event", {}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_events_and_effects_stay_as_they_are(one):
    """The logic keeps some of them for later: the transaction under way, and those in doubt."""
    name = next(iter(one.__struct_fields__), "anything")
    with pytest.raises(AttributeError):
        setattr(one, name, None)


def test_nobody_knows_who_sent_a_command_unless_it_is_said():
    assert events.Request(1, "command").broker == -1
