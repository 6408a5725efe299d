"""Which brokers are shown to clients and fetchers: those that the elected controller told of, and those that are gone
since not long ago. Agent's process only; it alone writes `brokers`.

A broker that is gone is never named as a leader, but Metadata has its address for as long as a session lasts: where
nothing but silence ends a session, a dead broker is shown for so long, too. librdkafka 2.16 that hears in one answer
that partitions have moved and that their old leader is no more may lose them: it ends its thread for that broker while
it hands the partitions over, and looks for their leader again a second later.
"""

from collections.abc import Callable, Iterable

import msgspec

from mpbroker.shm.cluster_table import (
    GONE,
    NOBODY,
    Broker,
    broker_rows,
    brokers_read,
    brokers_shown,
    brokers_write,
    cluster_announce,
    cluster_state,
)
from mpbroker.shm.core import Core


class ShownBrokers:
    """`epochs()`: of the brokers that the store has. What a predecessor showed as gone is gone since now."""

    def __init__(
        self,
        core: Core,
        epochs: Callable[[], dict[int, int]],
        now_ms: Callable[[], int],
        gone_ms: Callable[[], int],
        crash_point: Callable[[str], object],
    ) -> None:
        self._core = core
        self._epochs = epochs
        self._now_ms = now_ms
        self._gone_ms = gone_ms
        self._crash_point = crash_point
        self._gone_since_ms: dict[int, int] = {}

    def show(self, told: Iterable[Broker]) -> None:
        """These live, as the controller says."""
        epochs = self._epochs()
        living = [msgspec.structs.replace(one, epoch=epochs.get(one.id, NOBODY)) for one in told]
        self._write(living)

    def store_changed(self) -> None:
        """The store has other brokers: one that it had and has not any more is gone, before the controller says so."""
        epochs = self._epochs()
        self.show(one for one in brokers_read(self._core).values() if one.epoch == NOBODY or one.id in epochs)

    def forget(self) -> None:
        """Those that have been gone for long enough are not shown any more."""
        if any(self._is_over(broker) for broker in self._gone_since_ms):
            self._write(list(brokers_read(self._core).values()))

    def _is_over(self, broker: int) -> bool:
        return self._now_ms() - self._gone_since_ms[broker] >= self._gone_ms()

    def _write(self, living: list[Broker]) -> None:
        before = brokers_shown(self._core)
        shown = [*living, *self._gone(before, {one.id for one in living})]
        if {one.id: one for one in shown} == before:
            return
        brokers_write(self._core, shown)
        self._crash_point("agent.brokers_written")
        cluster_announce(self._core, *cluster_state(self._core)[1:])

    def _gone(self, before: dict[int, Broker], living: set[int]) -> list[Broker]:
        lost = before.keys() - living
        self._gone_since_ms = {broker: self._gone_since_ms.get(broker, self._now_ms()) for broker in lost}
        for broker in [broker for broker in lost if self._is_over(broker)]:
            del self._gone_since_ms[broker]
        room = max(0, broker_rows(self._core) - len(living))
        return [msgspec.structs.replace(before[broker], epoch=GONE) for broker in sorted(self._gone_since_ms)[:room]]
