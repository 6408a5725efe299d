"""Apache Kafka's DumpLogSegments reads every file we write: segments, both indexes, producer snapshots, checkpoints.

Needs Java and Kafka's jars: TEST_KAFKA_LIBS names the directory that holds them (`libs` of any Kafka installation).
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mpbroker.log.log_keeper import LogKeeper
from tests.unit.log.log_world import LogWorld

LIBS = os.environ.get("TEST_KAFKA_LIBS", "")
CODECS = (0, 1, 2, 3, 4)
TROUBLE = re.compile(r"mismatch|exception|invalid|corrupt|not a |error", re.IGNORECASE)
pytestmark = pytest.mark.skipif(
    not (LIBS and shutil.which("java") and list(Path(LIBS).glob("*.jar"))),
    reason="TEST_KAFKA_LIBS names no directory with Kafka's jars, or there is no java",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A partition of four segments with every codec and two producers, synced, snapshotted and stopped cleanly."""
    world = LogWorld(tmp_path_factory.mktemp("kafka"))
    partition = world.create(segment_bytes="1000000", index_interval_bytes="500")
    for number in range(80):
        world.clock.advance(1000)
        producer = {"producer_id": 40 + number % 2, "producer_epoch": 1, "base_sequence": number // 2 * 3}
        assert append(world, partition, number, producer).error == 0
        if number % 20 == 19:
            world.roll(partition)
    keeper = LogKeeper(world.keeper())
    keeper.do_work()
    assert append(world, partition, 80, {"producer_id": 40, "producer_epoch": 1, "base_sequence": 120}).error == 0
    assert keeper.stop()
    yield world, world.path / partition.dir
    world.close()


def append(world, partition, number, producer):
    return world.append(partition, 3, 120, codec=CODECS[number % len(CODECS)], **producer)


def dump(files, *options: str) -> str:
    tool = "kafka.tools" if list(Path(LIBS).glob("kafka_*-3.*.jar")) else "org.apache.kafka.tools"  # it moved with 4.0
    command = ["java", "-cp", f"{LIBS}/*", f"{tool}.DumpLogSegments", *options, "--files", ",".join(map(str, files))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "log4j" not in line and "SLF4J" not in line]
    text = "\n".join(lines)
    assert done.returncode == 0, text
    return text


def trouble(text: str) -> list[str]:
    """Lines that complain; those that describe a batch say isvalid: true."""
    return [line for line in text.splitlines() if TROUBLE.search(line.replace("isvalid: true", ""))]


def test_segments_with_every_record(written):
    _, directory = written
    text = dump(sorted(directory.glob("*.log")), "--deep-iteration", "--print-data-log")
    assert not trouble(text)
    assert len(re.findall(r"^baseOffset: ", text, re.MULTILINE)) == 81
    assert re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE) == [str(offset) for offset in range(243)]
    assert {*re.findall(r"compresscodec: (\w+)", text)} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {*re.findall(r"isvalid: (\w+)", text)} == {"true"}


def test_offset_and_time_indexes(written):
    _, directory = written
    indexes = sorted(directory.glob("*.index"))
    text = dump(indexes, "--index-sanity-check")
    assert not trouble(text) and len(indexes) == 5
    assert text.count("passed sanity check") == 4 and text.count("is empty") == 1
    text = dump([*indexes, *sorted(directory.glob("*.timeindex"))])
    assert not trouble(text)
    assert len(re.findall(r"^offset: \d+ position: \d+", text, re.MULTILINE)) == 16
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", text, re.MULTILINE)) == 16 + 4  # and one at each roll


def test_producer_snapshots(written):
    _, directory = written
    snapshots = sorted(directory.glob("*.snapshot"))
    assert len(snapshots) == 2
    text = dump(snapshots[-1:])
    assert not trouble(text)
    found = re.findall(r"producerId: (\d+) producerEpoch: (\d+) .*?lastSequence: (\d+) lastOffset: (\d+)", text)
    assert sorted(found) == [("40", "1", "122", "242"), ("41", "1", "119", "239")]
