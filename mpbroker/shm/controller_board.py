"""The board of the cluster's controller: its figures, for who shows metrics. Only in a broker of a cluster.

A memfd that every process inherits; the cluster-controller process alone writes it, whether it is elected or not.
Whoever reads it in the middle of a write, or after a writer was killed there, sees a wrong checksum, and nothing.
"""

import os
import struct
from typing import Final

import msgspec

from mpbroker import _native

MAX_BYTES: Final = 1 << 20
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of Kafka's histograms."""
_HEAD = struct.Struct("<II")  # bytes of the document, their CRC-32C


class TimerFigures(msgspec.Struct, frozen=True, array_like=True):
    """A timer: how often, how long in all, and the quantiles of QUANTILES; milliseconds."""

    count: int = 0
    sum_ms: int = 0
    quantiles_ms: tuple[int, ...] = ()


class ChannelFigures(msgspec.Struct, frozen=True, array_like=True):
    """What goes to one broker. `queue_size`: partitions it has not confirmed; `oldest_ms`: for how long."""

    broker: int
    queue_size: int
    oldest_ms: int
    queue_time: TimerFigures


class ControllerFigures(msgspec.Struct, frozen=True, array_like=True):
    """Of one broker's controller process; one that is not elected has zeros but for `epoch`, the last it was elected
    in."""

    is_active: bool = False
    epoch: int = 0
    topics: int = 0
    partitions: int = 0
    offline_partitions: int = 0
    imbalance: int = 0
    brokers: int = 0
    event_queue_size: int = 0
    event_queue_time: TimerFigures = TimerFigures()
    elections: TimerFigures = TimerFigures()
    unclean_elections: int = 0
    channels: tuple[ChannelFigures, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ControllerFigures)


def create() -> int:
    """An empty board; returns its descriptor."""
    return os.memfd_create("mpbroker-controller", os.MFD_CLOEXEC)


def write(descriptor: int, figures: ControllerFigures) -> None:
    """Put figures up in place of those before."""
    document = _encoder.encode(figures)
    assert len(document) <= MAX_BYTES, "a channel for each of MAX_BROKERS brokers"
    os.pwrite(descriptor, _HEAD.pack(len(document), _native.crc32c(document)) + document, 0)


def read(descriptor: int) -> ControllerFigures | None:
    """What is up; None: nothing yet, or it is just being written."""
    content = os.pread(descriptor, _HEAD.size + MAX_BYTES, 0)
    if len(content) < _HEAD.size:
        return None
    size, checksum = _HEAD.unpack_from(content)
    document = content[_HEAD.size : _HEAD.size + size]
    if len(document) != size or _native.crc32c(document) != checksum:
        return None
    return _decoder.decode(document)
