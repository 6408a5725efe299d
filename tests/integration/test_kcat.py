"""kcat (an old librdkafka, as distributions ship it) writes, reads and lists, where it is installed."""

import shutil
import subprocess
import sys

import pytest

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
LINES = b"".join(b"%d\n" % number for number in range(500))


def kcat(broker, *words: str, given: bytes = b"") -> bytes:
    """What it printed; it must succeed."""
    done = subprocess.run([KCAT, "-b", broker.bootstrap, *words], input=given, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def mpbroker(broker, *words: str, given: bytes = b"") -> bytes:
    """What a command of ours printed; it must succeed."""
    command = [sys.executable, "-m", "mpbroker", *words, "-b", broker.bootstrap]
    done = subprocess.run(command, input=given, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("settings", [["-X", "acks=1"], ["-X", "acks=all", "-X", "enable.idempotence=true"]])
def test_what_it_writes_it_reads_back(broker, codec, settings):
    topic = f"kcat-{codec}-{len(settings)}"
    kcat(broker, "-P", "-t", topic, "-p", "0", "-z", codec, *settings, given=LINES)
    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q") == LINES
    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "-3", "-e", "-q") == b"497\n498\n499\n"


def test_its_batches_are_compressed_when_asked(broker):
    """With Produce advertised from 3 on it would send them plain, without a word (clients look for version 0)."""
    from tests.harness.peer import Peer, fetch

    kcat(broker, "-P", "-t", "kcat-packed", "-p", "0", "-z", "gzip", "-X", "linger.ms=1000", given=LINES)
    with Peer(broker.port()) as peer:
        stored = bytes(fetch(peer, "kcat-packed").records)
    codecs, at = [], 0
    while at < len(stored):  # it leaves a batch plain that would become larger, as one of a few lines does
        codecs.append(stored[at + 22] & 7)
        at += 12 + int.from_bytes(stored[at + 8 : at + 12], "big")
    assert 1 in codecs


def test_it_lists_and_asks_for_offsets(broker):
    kcat(broker, "-P", "-t", "kcat-listed", "-p", "0", given=LINES)
    listed = kcat(broker, "-L", "-t", "kcat-listed").decode()
    assert "broker 0 at " in listed and 'topic "kcat-listed" with 1 partitions' in listed
    assert kcat(broker, "-Q", "-t", "kcat-listed:0:-1").strip() == b"kcat-listed [0] offset 500"


def test_consume_prints_what_it_prints(broker):
    """The same letters mean the same, and what `produce` wrote with its flags is what kcat writes with them."""
    flags = ["-K", ":", "-H", "a=1", "-H", "b=", "-Z", "-p", "0"]
    given = b"k1:v1\nk2:\nplain\n:no key\n"
    kcat(broker, "-P", "-t", "by-kcat", *flags, given=given)
    mpbroker(broker, "produce", "by-us", *flags, given=given)
    shown = []
    for words in (
        ["-f", r"%p %o %k %K %s %S %h %% \x41\t|\n", "-Z"],
        ["-K", ":"],
        ["-f", "%s", "-c", "1"],
    ):
        for topic in ("by-kcat", "by-us"):
            shown.append(kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", *words))
            shown.append(mpbroker(broker, "consume", topic, "-p", "0", "-o", "beginning", "-e", *words))
        assert len(set(shown)) == 1 and shown[0], words
        shown.clear()
    last = ["-p", "0", "-o", "-2", "-e"]
    assert (
        mpbroker(broker, "consume", "by-us", *last)
        == kcat(broker, "-C", "-t", "by-us", "-q", *last)
        == b"plain\nno key\n"
    )
