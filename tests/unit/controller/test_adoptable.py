"""What is taken for a partition without its partition.metadata, and numbers for people."""

import pytest

from mpbroker.controller.adoptable import is_partition, shown
from mpbroker.log.partition_directory import FoundDirectory
from mpbroker.record.batch_builder import encode_batch

BATCH = encode_batch([(b"k", b"v", 1)], base_offset=5)
SEGMENT = f"{5:020d}.log"


@pytest.mark.parametrize(
    ("files", "is_one"),
    [
        ({}, False),
        ({SEGMENT: b""}, False),
        ({SEGMENT: b"", f"{5:020d}.index": b""}, True),
        ({SEGMENT: b"", f"{0:020d}.index": b""}, False),
        ({SEGMENT: b"", "leader-epoch-checkpoint": b"0\n0\n"}, True),
        ({"leader-epoch-checkpoint": b"0\n0\n"}, False),
        ({SEGMENT: BATCH}, True),
        ({SEGMENT: BATCH[:17]}, True),
        ({SEGMENT: BATCH[:16]}, False),
        ({f"{6:020d}.log": BATCH}, False),
        ({"5.log": BATCH}, False),
        ({SEGMENT: b"x" * 100}, False),
        ({SEGMENT: b"x" * 100, f"{6:020d}.log": b"", f"{6:020d}.index": b""}, True),
    ],
)
def test_a_partition_without_its_metadata(tmp_path, files, is_one):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for topic_id in (None, bytes(16)):
        found = FoundDirectory(tmp_path.name, "t", 0, topic_id)
        assert is_partition(str(tmp_path.parent), found) is (is_one or topic_id is not None)


def test_a_folder_named_as_a_segment_is_none(tmp_path):
    (tmp_path / SEGMENT).mkdir()
    assert not is_partition(str(tmp_path.parent), FoundDirectory(tmp_path.name, "t", 0, None))


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([4, 1, 5, 6, 9], "1, 4-6, 9"),
        (range(0, 40, 2), ", ".join(map(str, range(0, 40, 2)))),
        (range(0, 42, 2), ", ".join(map(str, range(0, 40, 2))) + ", …"),
    ],
)
def test_numbers_for_people(numbers, text):
    assert shown(numbers) == text
