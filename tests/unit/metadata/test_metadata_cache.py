"""What handlers keep of topics: settings are worked out once for all that share them, and a bounded number of them."""

import pytest

from mpbroker.metadata import metadata_cache as module
from mpbroker.metadata.metadata_cache import MetadataCache, Topic
from mpbroker.metadata.metadata_snapshot import encode_overrides


def test_settings_are_worked_out_once_for_those_who_share_them(monkeypatch):
    monkeypatch.setattr(module, "MAX_DERIVED", 2)
    worked_out = []
    cache = MetadataCache.__new__(MetadataCache)
    cache._derived, cache._config = {}, "config"
    cache._settings = lambda overrides, config: worked_out.append((dict(overrides), config)) or len(worked_out)
    blobs = [encode_overrides({"retention.ms": str(number)}) for number in range(3)]
    for blob in (blobs[0], blobs[1], blobs[0], blobs[1]):
        cache._derive(blob)
    assert worked_out == [({"retention.ms": "0"}, "config"), ({"retention.ms": "1"}, "config")]
    assert cache._derive(blobs[0]) == ({"retention.ms": "0"}, 1)
    cache._derive(blobs[2])
    assert len(worked_out) == 3 and len(cache._derived) == 1, "there is room for two"


def test_settings_that_were_worked_out_before_a_reload_are_not_used_after_it():
    cache = MetadataCache.__new__(MetadataCache)
    cache._derived, cache._config, cache._by_row = {}, "old", {}
    cache._settings = lambda overrides, config: config
    blob = encode_overrides({"retention.ms": "1"})
    assert cache._derive(blob)[1] == "old"
    cache.use_config("new")
    assert cache._derive(blob)[1] == "new"


def test_a_topic_is_replaced_and_never_changed():
    """Who asked for it keeps what it saw; and one that was read anew is another one, whatever it says."""
    first, second = (Topic(b"i" * 16, "t", [4], None, {}, False, 0, 1) for _ in "ab")
    with pytest.raises(AttributeError):
        first.partitions = [4, 5]
    assert first.partitions == [4] and first != second and len({first, second}) == 2
