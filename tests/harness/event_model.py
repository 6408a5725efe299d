"""A broker as a discrete-event model: processors, bounded rings, handlers, a purgatory. Its waits are known, not
measured.

`simulate(scenario)` gives trace records and, counted while the model runs (not from the records), what a study must
find: how long each control request waited, which data requests were served meanwhile, which produce requests hung, the
time average depth of each ring. One seed, one outcome. Times inside are ticks of 64 ns, so that records hold them
exactly.

`discipline`:  fifo      control requests go through the data ring
               priority  a control ring, taken first by every handler
               plane     a listener, processor, ring and handler of their own (KIP-291)
"""

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from mpbroker.trace import record

TICKS_PER_MS = 15_625
NOT_REACHED = record.NOT_REACHED
PRODUCE, FETCH, METADATA, LEADER_AND_ISR = 0, 1, 3, 4
NOT_LEADER, TIMED_OUT = 6, 7
IN_PRODUCE_PURGATORY, IN_FETCH_PURGATORY = 1, 2
READ, PARSE, DISPATCH, PREPARE, SEND_WAIT, SEND = 300, 40, 12, 30, 20, 200
CLIENT_HASHES, TOPIC_HASHES, CONTROLLER_HASH, MOVED_TOPIC = (11, 12, 13, 14), (101, 102, 103), 99, 200
AT = {name: number for number, name in enumerate(record.STAGES)}


class Scenario(NamedTuple):
    """What happens; times in milliseconds, rates a second. A burst replaces the rate between its two times."""

    seed: int = 1
    duration_ms: int = 4_000
    rate: float = 200.0
    burst_rate: float = 200.0
    burst_ms: tuple[int, int] = (0, 0)
    processors: int = 2
    handlers: int = 4
    service_ms: float = 8.0
    sigma: float = 0.8
    ring_capacity: int = 500
    discipline: str = "fifo"
    blocking: bool = False
    elections_ms: tuple[int, ...] = ()
    moved_share: float = 0.3
    produce_timeout_ms: int = 30_000
    slow_handler: int = -1
    slow_factor: float = 1.0
    wake_ms: float = 0.0  # what a handler that was idle needs to take its request


@dataclass(eq=False)
class Request:
    """One request on its way; `stage` in absolute ticks."""

    number: int
    api_key: int
    arrival: int
    processor: int
    client: int
    topic: int
    service: int
    control: bool = False
    t0: int = 0
    stage: list[int] = field(default_factory=lambda: [-1] * len(record.STAGES))
    plane: int = 0
    handler: int = 0xFFFF
    error: int = 0
    flags: int = 1
    purgatory: int = 0
    req_q: int = 0
    resp_q: int = 0
    inflight: int = 0

    def to_record(self, base_ns: int) -> record.TraceRecord:
        """The record its processor would commit."""
        stage = tuple(NOT_REACHED if at < 0 else at - self.t0 for at in self.stage)
        return record.TraceRecord(
            t0_ns=base_ns + (self.t0 << record.TICK_SHIFT),
            aux=10,
            conn_id=self.client,
            client_hash=self.client,
            topic_hash=self.topic,
            corr_id=self.number,
            req_bytes=1000 if self.api_key == PRODUCE else 80,
            resp_bytes=5000 if self.api_key == FETCH else 60,
            plane_prio=self.plane,
            api_key=self.api_key,
            api_version=9,
            error=self.error,
            listener=self.plane,
            inflight=min(255, self.inflight),
            proc_id=self.processor,
            handler_id=self.handler,
            nparts=1,
            req_q=self.req_q,
            resp_q=self.resp_q,
            purg_kind=self.purgatory,
            flags=self.flags,
            rx_wait=self.t0 - self.arrival,
            stage=stage,
        )


@dataclass
class ControlFacts:
    """What the model saw while one control request waited (from its arrival at the socket to a handler's taking it)."""

    corr_id: int
    arrival: int
    wait: int = -1
    served: int = 0
    served_ticks: int = 0
    overtook: int = 0
    hung: int = 0
    hung_ticks: int = 0


class Ring:
    """A bounded queue that integrates its own depth over time, by window."""

    def __init__(self, capacity: int, window: int) -> None:
        self.capacity, self._window = capacity, window
        self.queue: deque[Request] = deque()
        self.refused: deque[Request] = deque()
        self.depth_ticks: dict[int, int] = {}
        self._changed = 0

    def push(self, request: Request, now: int) -> int:
        """Append; the depth found."""
        self._integrate(now)
        self.queue.append(request)
        return len(self.queue) - 1

    def pop(self, now: int) -> Request:
        """Take the oldest."""
        self._integrate(now)
        return self.queue.popleft()

    def _integrate(self, now: int) -> None:
        at = self._changed
        while at < now:
            window = at // self._window
            until = min(now, (window + 1) * self._window)
            self.depth_ticks[window] = self.depth_ticks.get(window, 0) + (until - at) * len(self.queue)
            at = until
        self._changed = now


class Outcome(NamedTuple):
    """Finished requests in the order of their completion, and the facts. `depth_ticks`: ring name → window →
    integral."""

    requests: list[Request]
    control: list[ControlFacts]
    depth_ticks: dict[str, dict[int, int]]
    busy_ticks: list[int]
    queued_ticks: int  # of waiting in the request rings, added over requests, while every handler was busy
    free_ticks: int  # the same while one was free

    def records(self, base_ns: int) -> list[record.TraceRecord]:
        """Trace records, unnumbered."""
        return [one.to_record(base_ns) for one in self.requests]


class EventModel:
    """The running model; `run` once."""

    def __init__(self, scenario: Scenario, window_ms: int = 1000) -> None:
        self.scenario = scenario
        window = window_ms * TICKS_PER_MS
        own_processor = scenario.discipline == "plane"
        self.data_ring, self.control_ring = Ring(scenario.ring_capacity, window), Ring(20, window)
        self.frames: list[deque[Request]] = [deque() for _ in range(scenario.processors + own_processor)]
        self.responses = [Ring(1 << 30, window) for _ in self.frames]
        self.busy = [False] * len(self.frames)
        self.stuck = [False] * len(self.frames)  # a processor that waits for room in the ring
        self.idle = set(range(scenario.handlers))
        self.waking: set[int] = set()  # of the idle ones
        self.queued_ticks = self.free_ticks = self.looked_at = 0
        self.busy_ticks = [0] * scenario.handlers
        self.control: dict[int, ControlFacts] = {}
        self.parked: dict[int, Request] = {}
        self.finished: list[Request] = []
        self.in_flight: dict[int, int] = {}
        self.election_at = -1  # set while a leadership change is not yet handled
        self.moved = False
        self._events: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = 0
        self._random = random.Random(scenario.seed)

    def run(self) -> Outcome:
        """Everything, until the last answer is sent."""
        self._plan_arrivals()
        while self._events:
            now, _, action, arguments = heapq.heappop(self._events)
            self._note_waiting(now)
            action(now, *arguments)
        rings = {"data": self.data_ring, "control": self.control_ring}
        rings |= {f"response {number}": ring for number, ring in enumerate(self.responses)}
        return Outcome(
            self.finished,
            list(self.control.values()),
            {name: ring.depth_ticks for name, ring in rings.items()},
            self.busy_ticks,
            self.queued_ticks,
            self.free_ticks,
        )

    def _note_waiting(self, now: int) -> None:
        waited = (now - self.looked_at) * (len(self.data_ring.queue) + len(self.control_ring.queue))
        self.looked_at = now
        if self.idle:
            self.free_ticks += waited
        else:
            self.queued_ticks += waited

    def _at(self, when: int, action: Callable[..., None], *arguments: object) -> None:
        self._order += 1
        heapq.heappush(self._events, (when, self._order, action, arguments))

    # Arrivals

    def _plan_arrivals(self) -> None:
        scenario, at_ms, number = self.scenario, 0.0, 1
        while True:
            burst = scenario.burst_ms[0] <= at_ms < scenario.burst_ms[1]
            at_ms += self._random.expovariate(scenario.burst_rate if burst else scenario.rate) * 1000
            if at_ms >= scenario.duration_ms:
                break
            self._at(int(at_ms * TICKS_PER_MS), self._arrive, self._data_request(number, int(at_ms * TICKS_PER_MS)))
            number += 1
        for election, when_ms in enumerate(scenario.elections_ms):
            when = when_ms * TICKS_PER_MS
            processor = len(self.frames) - 1
            self._at(
                when,
                self._elect,
                Request(
                    1_000_000 + election,
                    LEADER_AND_ISR,
                    when,
                    processor,
                    CONTROLLER_HASH,
                    0,
                    TICKS_PER_MS,
                    control=True,
                ),
            )

    def _data_request(self, number: int, arrival: int) -> Request:
        pick, client = self._random.random(), self._random.choice(CLIENT_HASHES)
        api_key = PRODUCE if pick < 0.7 else FETCH if pick < 0.95 else METADATA
        moved = api_key == PRODUCE and self._random.random() < self.scenario.moved_share
        topic = MOVED_TOPIC if moved else self._random.choice(TOPIC_HASHES)
        service = int(self._random.lognormvariate(0, self.scenario.sigma) * self.scenario.service_ms * TICKS_PER_MS)
        return Request(
            number,
            api_key,
            arrival,
            client % self.scenario.processors,
            client,
            topic,
            max(100, service),
            flags=3 if api_key == PRODUCE else 0,
        )

    def _elect(self, now: int, request: Request) -> None:
        assert self.election_at < 0, (
            "elections must not overlap: which one a request hangs for would be a matter of taste"
        )
        self.election_at, self.moved = now, False
        self._arrive(now, request)

    def _arrive(self, now: int, request: Request) -> None:
        request.inflight = self.in_flight.get(request.client, 0)
        self.in_flight[request.client] = request.inflight + 1
        if request.control:
            self.control[request.number] = ControlFacts(request.number, now)
        self.frames[request.processor].append(request)
        self._processor_turn(now, request.processor)

    # Processors: answers first, then one frame

    def _processor_turn(self, now: int, number: int) -> None:
        if self.busy[number] or self.stuck[number]:
            return
        if self.responses[number].queue:
            self._send(now, self.responses[number].pop(now))
        elif self.frames[number]:
            request = self.frames[number].popleft()
            request.t0 = now
            request.stage[AT["frame_done"]] = now + READ
            request.stage[AT["parsed"]] = now + READ + PARSE
            self.busy[number] = True
            self._at(now + READ + PARSE, self._submit, request)

    def _submit(self, now: int, request: Request) -> None:
        self.busy[request.processor] = False
        own_ring = request.control and self.scenario.discipline != "fifo"
        request.plane = int(own_ring)
        ring = self.control_ring if own_ring else self.data_ring
        if len(ring.queue) >= ring.capacity:
            ring.refused.append(request)
            self.stuck[request.processor] = self.scenario.blocking
        else:
            self._enqueue(now, ring, request)
        self._processor_turn(now, request.processor)

    def _enqueue(self, now: int, ring: Ring, request: Request) -> None:
        request.stage[AT["enqueued"]] = now
        request.req_q = ring.push(request, now)
        self._wake_handlers(now)

    def _send(self, now: int, request: Request) -> None:
        self.busy[request.processor] = True
        request.stage[AT["resp_deq"]], request.stage[AT["send_start"]] = now, now + SEND_WAIT
        request.stage[AT["send_done"]] = now + SEND_WAIT + SEND
        self._at(now + SEND_WAIT + SEND, self._sent, request)

    def _sent(self, now: int, request: Request) -> None:
        self.busy[request.processor] = False
        self.in_flight[request.client] -= 1
        self.finished.append(request)
        self._processor_turn(now, request.processor)

    # Handlers

    def _wake_handlers(self, now: int) -> None:
        for handler in sorted(self.idle - self.waking):
            if self._ring_for(handler) is None:
                continue
            if self.scenario.wake_ms:
                self.waking.add(handler)
                self._at(now + int(self.scenario.wake_ms * TICKS_PER_MS), self._woken, handler)
            else:
                self._take_next(now, handler)

    def _woken(self, now: int, handler: int) -> None:
        self.waking.discard(handler)
        self._take_next(now, handler)

    def _take_next(self, now: int, handler: int) -> None:
        ring = self._ring_for(handler)
        if ring is not None:
            self._handle(now, handler, ring)

    def _ring_for(self, handler: int) -> Ring | None:
        reserved = self.scenario.discipline == "plane" and handler == 0
        if self.control_ring.queue and (reserved or self.scenario.discipline == "priority"):
            return self.control_ring
        return self.data_ring if self.data_ring.queue and not reserved else None

    def _handle(self, now: int, handler: int, ring: Ring) -> None:
        self.idle.discard(handler)
        request = ring.pop(now)
        request.handler = handler
        service = self._service(request, handler)
        request.stage[AT["dequeued"]], request.stage[AT["handler_start"]] = now, now + DISPATCH
        request.stage[AT["io_done"]] = now + DISPATCH + service * 4 // 5
        done = now + DISPATCH + service
        request.stage[AT["local_done"]] = done
        self._note_served(now, request)
        self._admit_refused(now, ring)
        self._at(done, self._local_done, request)

    def _service(self, request: Request, handler: int) -> int:
        if request.topic == MOVED_TOPIC and self.moved:
            request.error = NOT_LEADER
            return int(0.3 * TICKS_PER_MS)
        return int(request.service * (self.scenario.slow_factor if handler == self.scenario.slow_handler else 1))

    def _admit_refused(self, now: int, ring: Ring) -> None:
        if ring.refused and len(ring.queue) < ring.capacity:
            request = ring.refused.popleft()
            self._enqueue(now, ring, request)
            if self.stuck[request.processor]:
                self.stuck[request.processor] = False
                self._processor_turn(now, request.processor)

    def _local_done(self, now: int, request: Request) -> None:
        if self._must_park(now, request):
            self._park(now, request)
            busy = 0
        else:
            busy = PREPARE
            self._at(now + PREPARE, self._answer, request)
        self._at(now + busy, self._handler_free, request.handler)
        self._note_busy(request, now + busy - request.stage[AT["dequeued"]])
        if request.control:
            self.moved, self.election_at = True, -1
            for waiting in list(self.parked.values()):
                self._leave_purgatory(now, waiting, NOT_LEADER)

    def _handler_free(self, now: int, handler: int) -> None:
        self.idle.add(handler)
        self._take_next(now, handler)
        self._wake_handlers(now)

    # Purgatory: the new leader fetches no more 5 ms after the election, so nothing of the moved partition is replicated

    def _must_park(self, now: int, request: Request) -> bool:
        hangs = request.topic == MOVED_TOPIC and 0 <= self.election_at <= now - 5 * TICKS_PER_MS
        return hangs or (request.api_key == FETCH and request.number % 5 == 0)

    def _park(self, now: int, request: Request) -> None:
        request.stage[AT["purg_enter"]] = now
        if request.api_key == FETCH:
            request.purgatory = IN_FETCH_PURGATORY
            self._at(now + 50 * TICKS_PER_MS, self._leave_purgatory, request, 0)
            return
        request.purgatory = IN_PRODUCE_PURGATORY
        self.parked[request.number] = request
        self._at(now + self.scenario.produce_timeout_ms * TICKS_PER_MS, self._time_out, request)

    def _time_out(self, now: int, request: Request) -> None:
        if request.number in self.parked:
            request.flags |= record.PURGATORY_TIMEOUT
            self._leave_purgatory(now, request, TIMED_OUT)

    def _leave_purgatory(self, now: int, request: Request, error: int) -> None:
        request.stage[AT["purg_leave"]], request.error = now, error
        if self.parked.pop(request.number, None) is not None:
            facts = next(reversed(self.control.values()))
            facts.hung += 1
            facts.hung_ticks += now - request.stage[AT["purg_enter"]]
        self._at(now + PREPARE, self._answer, request)

    def _answer(self, now: int, request: Request) -> None:
        request.stage[AT["resp_enq"]] = now
        request.resp_q = self.responses[request.processor].push(request, now)
        self._processor_turn(now, request.processor)

    # Facts

    def _note_served(self, now: int, request: Request) -> None:
        if request.control:
            facts = self.control[request.number]
            facts.wait = now - facts.arrival
            return
        for facts in self.control.values():
            if facts.wait < 0:
                facts.served += 1
                facts.overtook += request.arrival > facts.arrival

    def _note_busy(self, request: Request, ticks: int) -> None:
        self.busy_ticks[request.handler] += ticks
        if request.control:
            return
        dequeued = request.stage[AT["dequeued"]]
        for facts in self.control.values():
            waiting_until = facts.arrival + facts.wait if facts.wait >= 0 else dequeued + 1
            if facts.arrival <= dequeued < waiting_until:
                facts.served_ticks += ticks


@lru_cache(maxsize=16)
def simulate(scenario: Scenario, window_ms: int = 1000) -> Outcome:
    """Run the model once; nobody changes what comes of it, and the next who asks gets it again. `window_ms`: of the
    ring depths."""
    return EventModel(scenario, window_ms).run()
