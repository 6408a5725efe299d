"""The board (board.py) of the cluster's controller: its figures, for who shows metrics. Only in a broker of a cluster;
the cluster-controller process alone writes it, whether it is elected or not.
"""

from typing import Final

import msgspec

from mpbroker.shm import board

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of Kafka's histograms."""


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
    return board.create("mpbroker-controller")


def write(descriptor: int, figures: ControllerFigures) -> None:
    """Put figures up in place of those before: a channel for each of MAX_BROKERS brokers at most."""
    board.write(descriptor, _encoder.encode(figures))


def read(descriptor: int) -> ControllerFigures | None:
    """What is up; None: nothing yet, or it is just being written."""
    document = board.read(descriptor)
    return None if document is None else _decoder.decode(document)
