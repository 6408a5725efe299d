"""DescribeLogDirs: sizes of what was asked about, of the file system, and a directory that broke."""

import shutil
from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from mpbroker.server.handlers.describe_log_dirs import failed, handle
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


class Logs:
    """The log manager of topic t, whose partition 0 moves from directory 0 to 1, and 1 lies in 1."""

    data_dirs = ("/a", "/b")
    log_dirs = {40: 0, 41: 1}  # noqa: RUF012
    ends = {40: (9, 9), 41: (8, 12)}  # noqa: RUF012

    def state(self, ordinal):
        if ordinal not in self.log_dirs:
            return None
        hw, leo = self.ends[ordinal]
        return SimpleNamespace(hw=hw, leo=leo, log_bytes=ordinal * 10, log_dir=self.log_dirs[ordinal])

    def future(self, ordinal, state):
        return (1, 77, 3) if ordinal == 40 else None

    def directories(self):
        return [SimpleNamespace(is_online=True, path=path, total_bytes=5, usable_bytes=4) for path in self.data_dirs]


def lying(topics, logs=None):
    """Directory → partition → (size, lag, whether it is a copy under way)."""
    refreshed, known = [], SimpleNamespace(name="t", partitions=[40, 41, 42])
    metadata = SimpleNamespace(
        refresh=lambda: refreshed.append(1), topic={"t": known}.get, topics=lambda: [known] * len(refreshed)
    )
    context = SimpleNamespace(metadata=metadata, log_manager=logs or Logs())
    asked = topics and [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics]
    answer = handle(context, None, DescribeLogDirsRequest(topics=asked))
    assert refreshed == [1]
    return {
        result.log_dir: [
            (topic.name, one.partition_index, one.partition_size, one.offset_lag, one.is_future_key)
            for topic in result.topics
            for one in topic.partitions
        ]
        for result in answer.results
    }


def test_a_partition_that_moves_is_shown_in_both_directories():
    """What is not here is left out."""
    first, copy, second = ("t", 0, 400, 0, False), ("t", 0, 77, 3, True), ("t", 1, 410, 0, False)
    assert lying(None) == {"/a": [first], "/b": [copy, second]}
    assert lying([("t", [0])]) == {"/a": [first], "/b": [copy]}
    assert lying([("t", [-1, 1, 2, 3]), ("u", [0])]) == {"/a": [], "/b": [second]}


def test_a_log_lacks_what_the_high_watermark_has_and_it_has_not():
    logs = Logs()
    logs.ends = {40: (9, 4), 41: (4, 9)}
    assert [lag for _, _, _, lag, _ in lying([("t", [0, 1])], logs)["/a"]] == [5]
    assert [lag for _, number, _, lag, _ in lying([("t", [0, 1])], logs)["/b"] if number == 1] == [0]


def test_a_request_that_fails_has_no_directories():
    answer = failed(DescribeLogDirsRequest(), 4, 41)
    assert (answer.error_code, answer.results) == (41, [])
