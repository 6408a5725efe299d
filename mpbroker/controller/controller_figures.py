"""What the cluster-controller process shows of its work, on the board that `/metrics` reads (shm/controller_board.py).
That process only.

It is written twice a second while the process is elected, and once when it is not any more. Counts over all partitions
are made anew only when something has changed in the store.
"""

from typing import Final, NamedTuple

from mpbroker.cluster.cluster_controller import ClusterController
from mpbroker.cluster.cluster_image import NO_LEADER
from mpbroker.cluster.timer import Timer
from mpbroker.shm import controller_board
from mpbroker.shm.controller_board import QUANTILES, ChannelFigures, ControllerFigures, TimerFigures

SHOW_MS: Final = 500


class _Shown(NamedTuple):
    """What was written last: of somebody who is elected, and when."""

    is_active: bool
    at_ms: int


class _Counted(NamedTuple):
    """Partitions of one revision of the store."""

    rev: int
    offline: int
    imbalance: int


class FiguresBoard:
    """`fd` -1: nobody looks."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._epoch = 0
        self._shown: _Shown | None = None
        self._counted: _Counted | None = None

    def show(self, term: ClusterController | None, now_ms: int, wall_ms: int) -> None:
        """If it is time. `wall_ms`: the clock that the logic is given."""
        if self._fd == -1 or not self._is_due(term, now_ms):
            return
        self._shown = _Shown(term is not None, now_ms)
        if term is None:
            self._counted = None
            controller_board.write(self._fd, ControllerFigures(epoch=self._epoch))
            return
        self._epoch = term.epoch
        controller_board.write(self._fd, self._of(term, wall_ms))

    def _is_due(self, term: ClusterController | None, now_ms: int) -> bool:
        shown = self._shown
        if shown is None or shown.is_active != (term is not None):
            return True
        return term is not None and now_ms - shown.at_ms >= SHOW_MS

    def _of(self, term: ClusterController, wall_ms: int) -> ControllerFigures:
        image, metrics = term.image, term.metrics
        counted = self._counted
        if counted is None or counted.rev != image.rev:
            offline = sum(one.record.leader == NO_LEADER for one in image.partitions.values())
            self._counted = counted = _Counted(image.rev, offline, term.imbalance())
        ages, times = term.oldest_ages_ms(wall_ms), term.queue_times()
        return ControllerFigures(
            is_active=True,
            epoch=term.epoch,
            topics=len(image.topics),
            partitions=len(image.partitions),
            offline_partitions=counted.offline,
            imbalance=counted.imbalance,
            brokers=len(image.brokers),
            event_queue_size=term.event_queue_size,
            event_queue_time=_timer(metrics.event_queue_time),
            elections=_timer(metrics.election_time),
            unclean_elections=metrics.unclean_elections,
            channels=tuple(
                ChannelFigures(broker, size, ages[broker], _timer(times[broker]))
                for broker, size in sorted(term.queue_sizes().items())
            ),
        )


def _timer(timer: Timer) -> TimerFigures:
    return TimerFigures(timer.count, timer.sum_ms, tuple(timer.quantile_ms(quantile) for quantile in QUANTILES))
