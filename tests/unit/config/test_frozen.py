"""The read-only record."""

import pytest

from mpbroker.config.frozen import FrozenSettings


def test_attributes_are_read_and_never_written():
    record = FrozenSettings({"log_segment_bytes": 14})
    assert record.log_segment_bytes == 14
    with pytest.raises(AttributeError, match="frozen"):
        record.log_segment_bytes = 15
    with pytest.raises(AttributeError):
        del record.log_segment_bytes
    with pytest.raises(AttributeError, match="has no setting nope"):
        _ = record.nope
    assert repr(record) == "FrozenSettings(log_segment_bytes=14)"
