"""DescribeLogDirs: sizes of what was asked about, of the file system, and a directory that broke."""

import shutil

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, produce


@pytest.fixture
def broker(tmp_path):
    made = InProcessBroker(tmp_path)
    made.handler.context.log_manager.data_dirs = (str(tmp_path),)
    made.create_topic("t", partitions=2)
    made.create_topic("u")
    return made


def ask(broker, *topics: tuple[str, list[int]], everything: bool = False):
    asked = None if everything else [DescribableLogDirTopic(topic=name, partitions=p) for name, p in topics]
    [result] = broker.call(DescribeLogDirsRequest(topics=asked), 4).results
    sizes = {t.name: {p.partition_index: p.partition_size for p in t.partitions} for t in result.topics}
    return result, sizes


def test_sizes_are_those_of_the_logs_and_of_the_file_system(broker, tmp_path):
    sent = batch(b"a", b"b")
    broker.call(produce(records=sent, partition=1), 7)
    result, sizes = ask(broker, ("t", [1, 7]), ("nope", [0]))
    assert (result.error_code, result.log_dir, sizes) == (0, str(tmp_path), {"t": {1: len(sent)}})
    assert result.total_bytes == shutil.disk_usage(tmp_path).total and 0 < result.usable_bytes < result.total_bytes
    assert ask(broker, everything=True)[1] == {"t": {0: 0, 1: len(sent)}, "u": {0: 0}}


def test_a_directory_that_is_offline_says_so(broker):
    broker.log.fail_log_dir(0)
    result, sizes = ask(broker, everything=True)
    assert (result.error_code, sizes, result.total_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, {}, -1)
