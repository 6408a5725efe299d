"""Requests for a partition that is being loaded: they wait, but no longer than LOADING_PATIENCE_MS. In the
coordinator process.

Clients that are told that something is being loaded wait longer than that (and some give up), so they are told late.
"""

from __future__ import annotations

from collections.abc import Callable

from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.workbench import Workbench

LOADING_PATIENCE_MS = 5000


class LoadingQueue:
    """`is_loading(request)`, `answer(request, now)` as if nothing were loading, `refuse(request, now)`: it took too
    long, or too many wait."""

    def __init__(
        self,
        bench: Workbench,
        is_loading: Callable[[GroupRequest], bool],
        answer: Callable[[GroupRequest, Now], None],
        refuse: Callable[[GroupRequest, Now, bool], None],
    ) -> None:
        """`refuse` is told whether the request waited."""
        self._bench = bench
        self._is_loading = is_loading
        self._answer = answer
        self._refuse = refuse
        self._waiting: dict[int, GroupRequest] = {}
        self._waits = 0

    def answer_or_wait(self, request: GroupRequest, now: Now) -> None:
        """Answer a request now if nothing it needs is being loaded."""
        if not self._is_loading(request):
            self._answer(request, now)
            return
        if not self._bench.may_park(request.lane):
            self._refuse(request, now, False)
            return
        self._waits += 1
        self._waiting[self._waits] = request
        self._bench.count_parked(request.lane, 1)
        self._bench.timers.at(now.ms + LOADING_PATIENCE_MS, self._waited_enough, self._waits)

    def _waited_enough(self, number: int, now: Now) -> None:
        request = self._waiting.pop(number, None)
        if request is not None:
            self._bench.count_parked(request.lane, -1)
            self._refuse(request, now, True)

    def serve(self, now: Now) -> None:
        """Something was loaded, or is not ours any more."""
        for number, request in list(self._waiting.items()):
            if not self._is_loading(request):
                del self._waiting[number]
                self._bench.count_parked(request.lane, -1)
                self._answer(request, now)
