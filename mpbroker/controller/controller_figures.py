"""What the cluster-controller process shows of its work, on the board that `/metrics` reads (shm/controller_board.py).
That process only.

It is written twice a second while the process is elected, and once when it is not any more. Counts over all partitions
are made anew only when something has changed in the store.
"""

from typing import Final

from mpbroker.cluster.cluster_controller import ClusterController
from mpbroker.cluster.cluster_image import NO_LEADER
from mpbroker.cluster.timer import Timer
from mpbroker.shm import controller_board
from mpbroker.shm.controller_board import QUANTILES, ChannelFigures, ControllerFigures, TimerFigures

SHOW_MS: Final = 500


class FiguresBoard:
    """`fd` -1: nobody looks."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._shown_ms = 0
        self._was_active: bool | None = None
        self._epoch = 0
        self._counted_rev = -1
        self._offline = self._imbalance = 0

    def show(self, term: ClusterController | None, now_ms: int, wall_ms: int) -> None:
        """If it is time. `wall_ms`: the clock that the logic is given."""
        is_active = term is not None
        if self._fd < 0 or (is_active == self._was_active and (term is None or now_ms - self._shown_ms < SHOW_MS)):
            return
        self._was_active, self._shown_ms = is_active, now_ms
        if term is None:
            self._counted_rev = -1
            controller_board.write(self._fd, ControllerFigures(epoch=self._epoch))
            return
        self._epoch = term.epoch
        controller_board.write(self._fd, self._of(term, wall_ms))

    def _of(self, term: ClusterController, wall_ms: int) -> ControllerFigures:
        image, metrics = term.image, term.metrics
        if image.rev != self._counted_rev:
            self._counted_rev = image.rev
            self._offline = sum(one.record.leader == NO_LEADER for one in image.partitions.values())
            self._imbalance = term.imbalance()
        ages, times = term.oldest_ages_ms(wall_ms), term.queue_times()
        return ControllerFigures(
            is_active=True,
            epoch=term.epoch,
            topics=len(image.topics),
            partitions=len(image.partitions),
            offline_partitions=self._offline,
            imbalance=self._imbalance,
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
