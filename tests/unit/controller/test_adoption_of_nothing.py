"""`mpbroker adopt` where there is nothing to take in: said before anything is written."""

import pytest

from mpbroker.controller import adoption
from mpbroker.errors import ConfigError
from mpbroker.log import data_dir
from mpbroker.metadata.store_peek import STORE_FILE
from tests.unit.controller.test_adoption import partition


@pytest.mark.parametrize(
    ("make", "ours"),
    [
        (lambda path: partition(path, "a-0", None), True),
        (lambda path: partition(path, f"a-0.{bytes(16).hex()}-stray"), True),
        (lambda path: (path / STORE_FILE).touch(), True),
        (lambda path: (path / data_dir.META_FILE).touch(), True),
        (lambda path: partition(path, f"a-0.{bytes(16).hex()}-stray", records=b""), False),
        (lambda path: (path / "photos-2024").mkdir(), False),
        (lambda path: None, False),
    ],
)
def test_a_directory_without_anything_of_a_broker_is_not_for_it(tmp_path, make, ours):
    """Of several log directories one may be empty: a disk that was replaced."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    make(tmp_path / "second")
    paths = [str(tmp_path / name) for name in ("first", "second")]
    if ours:
        adoption.check(paths)
        return
    with pytest.raises(ConfigError, match="no topic's directory is there.* Nothing was changed"):
        adoption.check(paths)


def test_a_directory_that_cannot_be_looked_into_is_told_with_its_owner(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(adoption.partition_directory, "find_all", refuse)
    with pytest.raises(ConfigError, match="cannot be written by .*; it belongs to"):
        adoption.check([str(tmp_path)])
