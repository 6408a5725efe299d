"""RequestChannel: how much waits on each plane, Kafka's RequestQueueSize and its bounds. Any process may look.

The rings themselves are worked through ProcessorPort and HandlerPort; both ends never wait for each other.
"""

from typing import NamedTuple

from mpbroker.shm.page_view import PageView, RingInfo


class PlaneDepth(NamedTuple):
    """Requests waiting on one plane. `bound`: queued.max.requests, or 20 for control; `requeued` come on top."""

    depth: int
    requeued: int
    bound: int
    peak: int


class RequestChannel:
    """Depths read from the page."""

    def __init__(self, page: PageView) -> None:
        self._page = page

    def planes(self) -> dict[str, PlaneDepth]:
        """`data` and `control`."""
        rings = {ring.name: ring for ring in self._page.rings()}
        return {name: _plane(rings[name], rings[f"{name}-requeued"]) for name in ("data", "control")}

    def responses(self) -> list[int]:
        """Answers waiting for each processor, by its index."""
        waiting = {ring.name: ring.depth for ring in self._page.rings() if ring.name.startswith("response-")}
        return [waiting[f"response-{i}"] for i in range(len(waiting))]


def _plane(ring: RingInfo, requeued: RingInfo) -> PlaneDepth:
    return PlaneDepth(ring.depth, requeued.depth, ring.capacity, ring.peak)
