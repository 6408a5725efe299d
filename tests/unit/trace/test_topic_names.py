"""The tracer hears of every topic that is new or has changed, and asks for nothing where nothing has."""

from types import SimpleNamespace

import pytest

from mpbroker.trace import topic_names
from mpbroker.trace.topic_names import MAX_ROUNDS, TopicNames

CORE = object()


class Journal:
    """Topic rows by number; `changes` are rows as the journal has them, its length is the generation. `reaches`: how
    many it still has. `more`: changes that come while the last ones are read."""

    def __init__(self, monkeypatch):
        self.rows, self.changes, self.reaches, self.read, self.more = {}, [], 99, [], []
        monkeypatch.setattr(topic_names, "metadata_generation", lambda core: len(self.changes))
        monkeypatch.setattr(topic_names, "journal_since", self.since)
        monkeypatch.setattr(topic_names, "topics_changed", lambda core, known: known + sorted(self.rows))
        monkeypatch.setattr(topic_names, "topic_read", self.topic)

    def since(self, core, generation):
        assert core is CORE
        self.read.append(generation)
        rows = self.changes[generation:]
        return len(self.changes), rows if len(rows) <= self.reaches else None

    def topic(self, core, number):
        if self.more:
            self.changes.append(self.more.pop())
        name = self.rows.get(number)
        return None if name is None else SimpleNamespace(name=name)


@pytest.fixture
def journal(monkeypatch):
    return Journal(monkeypatch)


def test_each_change_is_told_once(journal):
    told, names = [], TopicNames(CORE)
    names.take(told.append)
    assert told == [] and journal.read == [], "nobody asks a journal in which nothing is new"
    journal.rows, journal.changes = {1: "a", 2: "b", 3: ""}, [1, 2, 3, 4]
    names.take(told.append)
    assert told == ["a", "b"], "a row without a name, or never written, is no topic"
    journal.changes.append(2)
    for _ in range(2):
        names.take(told.append)
    assert told == ["a", "b", "b"] and journal.read == [0, 4]


def test_where_the_journal_does_not_reach_back_all_topics_are_told(journal):
    told, names = [], TopicNames(CORE)
    journal.rows, journal.changes, journal.reaches = {1: "a", 2: "b", 7: "c"}, [1, 2, 1, 2], 3
    names.take(told.append)
    assert told == ["a", "b", "c"]
    names.take(told.append)
    assert len(told) == 3


def test_what_changes_meanwhile_is_told_too_but_not_for_ever(journal):
    """The tracer has lanes to empty."""
    told, names = [], TopicNames(CORE)
    journal.rows, journal.changes, journal.more = {1: "a", 2: "b"}, [1], [2]
    names.take(told.append)
    assert told == ["a", "b"]
    journal.changes.append(1)
    journal.more = [1] * 50
    names.take(told.append)
    assert len(told) == 2 + MAX_ROUNDS == 6
