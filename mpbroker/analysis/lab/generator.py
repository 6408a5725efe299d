"""`python -m mpbroker.analysis.lab.generator PLAN.json`: one group of clients in a process of its own.

It connects, prints `ready`, reads the start time (CLOCK_MONOTONIC ns) from stdin, sends what the plan says, writes the
client log and prints one line of JSON. When its stdin closes, whoever started it is gone, and it ends.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import json
import os
import random
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mpbroker.analysis.lab.client_log import NEVER, ClientLog
from mpbroker.analysis.lab.conversations import conversation_of
from mpbroker.analysis.lab.generator_plan import TALKING, GeneratorPlan
from mpbroker.analysis.lab.load_connection import LoadConnection
from mpbroker.analysis.lab.prompt_waking import no_timer_slack, short_time_slice
from mpbroker.analysis.lab.schedule import NS, ClosedLoop, OpenLoop, Span, spans
from mpbroker.analysis.lab.talking_connection import TalkingConnection
from mpbroker.client import prepared_request
from mpbroker.client.prepared_request import PreparedRequest

CORR_IDS_PER_CONNECTION = 1 << 20
LOG_ROWS_MAX = 4_000_000
DRAIN_S = 5.0
IDLE_WAIT_S = 0.2
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT


def main() -> int:
    """Run one plan."""
    plan = GeneratorPlan(**json.loads(Path(sys.argv[1]).read_text()))
    _wake_promptly(plan)
    log = ClientLog(LOG_ROWS_MAX)
    connections = _connect(plan, log)
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    line = sys.stdin.readline()
    if not line.strip():
        return 1
    generator = Generator(connections, log)
    generator.start(plan, int(line))
    generator.run()
    summary = generator.summary()
    log.write(
        Path(plan.log),
        {
            "group": plan.group,
            "client_id": plan.client_id,
            "loop": plan.loop,
            "in_flight": plan.in_flight,
            "process": plan.process,
            "first_client": plan.first_client,
            "ports": [each.local_port for each in connections],
        },
    )
    print(json.dumps(summary), flush=True)
    return 0


def _wake_promptly(plan: GeneratorPlan) -> None:
    """Groups that give way to others (nice) do not ask to be woken before them."""
    no_timer_slack()
    if plan.nice:
        os.nice(plan.nice)
    else:
        short_time_slice()


def _connect(plan: GeneratorPlan, log: ClientLog) -> list[LoadConnection]:
    if plan.api in TALKING:
        return [_talking(plan, number, log) for number in range(plan.clients)]
    return [
        LoadConnection(
            number,
            (plan.host, plan.port),
            request_of(plan, plan.first_client + number),
            plan.in_flight,
            (plan.first_connection + number) * CORR_IDS_PER_CONNECTION + 1,
            log,
            plan.requests_most,
            plan.read_bytes_per_s,
        )
        for number in range(plan.clients)
    ]


def _talking(plan: GeneratorPlan, number: int, log: ClientLog) -> TalkingConnection:
    conversation = conversation_of(plan, plan.first_client + number)
    first_corr_id = (plan.first_connection + number) * CORR_IDS_PER_CONNECTION + 1
    return TalkingConnection(number, (plan.host, plan.port), conversation, plan.client_id, first_corr_id, log)


def request_of(plan: GeneratorPlan, number: int) -> PreparedRequest:
    """The frame that one connection sends."""
    partition = number % plan.partitions
    match plan.api:
        case "produce":
            values = [b"x" * plan.value_bytes] * plan.records
            return prepared_request.produce(plan.topic, partition, values, plan.acks, plan.client_id)
        case "fetch":
            return prepared_request.fetch(plan.topic, partition, 0, 500, plan.value_bytes, plan.client_id)
        case "list_offsets":
            return prepared_request.list_offsets(plan.topic, partition, plan.client_id)
        case "metadata":
            return prepared_request.metadata(plan.topic, plan.client_id)
        case _:
            return prepared_request.api_versions(plan.client_id)


def _schedule_of(plan: GeneratorPlan, client: int, phases: Sequence[Span]) -> OpenLoop | ClosedLoop:
    """Of one client, whose number counts all of the group: how a group is spread over processes changes no time."""
    if plan.loop == "closed":
        return ClosedLoop(phases)
    chance = random.Random(f"{plan.seed}/{plan.group}/{client}") if plan.arrival == "poisson" else None
    return OpenLoop(phases, (client + 0.5) / (plan.of_clients or plan.clients), chance)


class Generator:
    """The loop: send what is due, take what has come, sleep until one of both changes."""

    def __init__(self, connections: list[LoadConnection], log: ClientLog) -> None:
        self._connections = connections
        self._log = log
        self._due: list[tuple[int, int]] = []  # (intended time, connection); a connection stands here at most once
        self._queued: set[int] = set()
        self._epoll = select.epoll()
        self._by_descriptor = {each.socket.fileno(): each for each in connections}
        for descriptor in self._by_descriptor:
            self._epoll.register(descriptor, _IN)
        self._writing: set[LoadConnection] = set()
        self._resting: list[tuple[int, int]] = []  # (when it reads again, connection): slow readers
        self._unsent = self._unanswered = 0

    def start(self, plan: GeneratorPlan, start_ns: int) -> None:
        """Give every connection its schedule and queue its first request."""
        phases = spans(start_ns, plan.durations_s, plan.rates)
        self._end_ns, self._cpu_ns = phases[-1].end_ns, time.process_time_ns()
        self._phase_ends = [phase.end_ns for phase in reversed(phases)]
        self._phase_cpu_ns: list[int] = []
        for each in self._connections:
            each.schedule = _schedule_of(plan, plan.first_client + each.number, phases)
            self._queue(each, each.schedule.wakes_ns(0), 0)

    def run(self) -> None:
        """Until the last phase is over and what is in flight has come back, at most DRAIN_S later."""
        going = True
        while going:
            now_ns = time.monotonic_ns()
            while self._due and self._due[0][0] <= now_ns:
                _, number = heapq.heappop(self._due)
                self._queued.discard(number)
                self._pump(self._connections[number])
                now_ns = time.monotonic_ns()
            self._read_again(now_ns)
            self._note_cpu(now_ns)
            going = not self._over(now_ns) and self._wait(now_ns)
        self._finish()

    def _read_again(self, now_ns: int) -> None:
        """Slow readers whose time it is."""
        while self._resting and self._resting[0][0] <= now_ns:
            connection = self._connections[heapq.heappop(self._resting)[1]]
            connection.reads_again_ns = 0
            self._watch(connection)

    def _note_cpu(self, now_ns: int) -> None:
        """At the end of each phase: what this process has used so far."""
        while self._phase_ends and self._phase_ends[-1] <= now_ns:
            self._phase_ends.pop()
            self._phase_cpu_ns.append(time.process_time_ns() - self._cpu_ns)

    def _over(self, now_ns: int) -> bool:
        ended = now_ns >= self._end_ns or all(each.done or each.closed for each in self._connections)
        return ended and (now_ns > self._end_ns + DRAIN_S * NS or not self._anything_waits())

    def _anything_waits(self) -> bool:
        return any(each.waiting and not each.closed for each in self._connections)

    def _wait(self, now_ns: int) -> bool:
        """Sleep until the next intended time or an answer; False when the starter is gone.

        select() and not epoll's own wait, whose timeout counts milliseconds.
        """
        next_ns = min((each[0][0] for each in (self._due, self._resting) if each), default=now_ns + NS)
        timeout_s = min(max(next_ns - now_ns, 0) / NS, IDLE_WAIT_S)
        readable, _, _ = select.select([self._epoll, sys.stdin], [], [], timeout_s)
        if sys.stdin in readable and not sys.stdin.readline():
            return False
        for descriptor, events in self._epoll.poll(0) if self._epoll in readable else ():
            self._ready(self._by_descriptor[descriptor], events)
        return True

    def _ready(self, connection: LoadConnection, events: int) -> None:
        if events & _OUT:
            connection.flush()
        if events & ~_OUT and not connection.rests:
            self._receive(connection)
        self._pump(connection)

    def _receive(self, connection: LoadConnection) -> None:
        connection.receive()
        if connection.rests:
            heapq.heappush(self._resting, (connection.reads_again_ns, connection.number))
            self._watch(connection)

    def _pump(self, connection: LoadConnection) -> None:
        """Send what is due, as far as in-flight limit and socket allow; come back at the next intended time."""
        schedule, now_ns = connection.schedule, time.monotonic_ns()
        while now_ns < self._end_ns and connection.may_send() and schedule.due(now_ns):
            connection.send(schedule.take(now_ns, connection.free_since_ns))
            now_ns = time.monotonic_ns()
        self._queue(connection, schedule.wakes_ns(now_ns), now_ns)
        if (connection.unsent is not None) != (connection in self._writing) or connection.closed:
            self._watch(connection)

    def _queue(self, connection: LoadConnection, wakes_ns: int | None, now_ns: int) -> None:
        """What is due already waits for an answer or for the socket, not for a time."""
        if wakes_ns is not None and wakes_ns > now_ns and connection.number not in self._queued:
            self._queued.add(connection.number)
            heapq.heappush(self._due, (wakes_ns, connection.number))

    def _watch(self, connection: LoadConnection) -> None:
        descriptor = connection.socket.fileno()
        if connection.closed:
            if self._by_descriptor.pop(descriptor, None):
                self._epoll.unregister(descriptor)
            self._writing.discard(connection)
        elif connection.unsent is not None:
            self._writing.add(connection)
            self._epoll.modify(descriptor, (0 if connection.rests else _IN) | _OUT)
        else:
            self._writing.discard(connection)
            self._epoll.modify(descriptor, 0 if connection.rests else _IN)

    def _finish(self) -> None:
        """Write down what was never sent or never answered: leaving it out would flatter the broker."""
        for each in self._connections:
            self._unanswered += each.give_up()
            for intended_ns in each.schedule.rest(LOG_ROWS_MAX):
                self._log.add(each.number, NEVER, 0, intended_ns, NEVER, NEVER, NEVER, NEVER)
                self._unsent += 1
            each.close()

    def summary(self) -> dict[str, Any]:
        """Counts for the one who started this process; `phase_cpu_us`: processor time used in each phase."""
        used = [0, *self._phase_cpu_ns]
        return {
            "sent": sum(each.sent for each in self._connections),
            "answered": sum(each.answered for each in self._connections),
            "unanswered": self._unanswered,
            "unsent": self._unsent,
            "lost_rows": self._log.lost,
            "closed_connections": sum(each.closed for each in self._connections),
            "cpu_us": (time.process_time_ns() - self._cpu_ns) // 1000,
            "phase_cpu_us": [(later - earlier) // 1000 for earlier, later in itertools.pairwise(used)],
        }


if __name__ == "__main__":
    sys.exit(main())
