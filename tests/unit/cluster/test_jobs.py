"""Answers of the store that belong to no transaction of now."""

from types import SimpleNamespace

import pytest

from mpbroker.cluster.jobs import Jobs
from mpbroker.metadata.meta_store import Committed, Unknown


@pytest.mark.parametrize("under_way", [None, "another"])
def test_what_comes_of_a_transaction_that_is_not_under_way_says_nothing(under_way):
    jobs = object.__new__(Jobs)
    jobs._txn = None if under_way is None else SimpleNamespace(tag=under_way)
    assert jobs.read("tag", {}) == []
    for outcome in (Unknown("tag"), Committed(5)):
        assert jobs.outcome("tag", outcome) == []
