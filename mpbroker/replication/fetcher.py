"""A fetcher process: keeps the replicas here that other brokers lead as their leaders have them. Only in a cluster.

It owns nothing in memory. Which partitions it looks after stands in their rows: those with the role follower, shared
out among the fetchers by row; where they end stands there too. So a successor goes on where rows say, and the agent
rings it when a role changes. One connection to each leader, all waited for with one epoll.
"""

from __future__ import annotations

import os
import select
import threading
from typing import Final

from mpbroker.client.address_lookup import LOOKUP
from mpbroker.client.broker_channel import LOOK_UP_MS
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.replication_throttle import FOLLOWER_RATE, is_throttled
from mpbroker.log.leader_epochs import NOT_KNOWN, EpochEnd
from mpbroker.log.log_manager import LogManager, LogOptions, open_log
from mpbroker.log.removed_files import RemovedFiles
from mpbroker.metadata.metadata_cache import MetadataCache, Topic
from mpbroker.replication.follower import FetchLimits, Followed, LeaderFetch
from mpbroker.replication.leader_connection import ConnectionEnded, LeaderConnection
from mpbroker.replication.leader_link import LeaderLink
from mpbroker.replication.steady_links import SteadyLinks
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.cluster_table import NOBODY, brokers_read, cluster_state
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import MAX_FETCHERS, SLOT_FETCHERS
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessState
from mpbroker.shm.replication_quota import ReplicationQuota, is_exceeded, summed

SCAN_MS: Final = 1000
BUSY_SCAN_MS: Final = 50
BELL_WAIT_MS: Final = 1000
ANSWER_OVERHEAD_BYTES: Final = 16 << 20  # beside the records asked for: heads, and one batch that is larger than asked


class ReplicaLogs:
    """This broker's logs as a link's steps need them."""

    def __init__(self, ctx: ProcessContext) -> None:
        self._ctx = ctx
        self.log = open_log(ctx)
        self._manager = LogManager(self.log, SystemClock(), False, data_dirs=ctx.data_dirs)
        self._metadata = MetadataCache(ctx.core, ctx.config)
        self._topics: dict[int, Topic] = {}

    def refresh(self) -> None:
        """Takes over what changed of topics."""
        if self._metadata.refresh() or not self._topics:
            self._topics = {ordinal: topic for topic in self._metadata.topics() for ordinal in topic.partitions}

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's own settings changed, and with them those of topics that have none of their own."""
        self._metadata.use_config(config)
        self._topics = {}  # read again at the next look

    def rows(self, index: int, fetchers: int) -> tuple[bool, list[Followed]]:
        """(whether one could not be looked at, those of the `index`th of so many fetchers)."""
        busy, rows = self.log.followed(index, fetchers)
        return busy > 0, [Followed._make(row) for row in rows]

    def row(self, ordinal: int) -> Followed | None:
        _, rows = self.log.followed(0, 1, ordinal)
        return Followed._make(rows[0]) if rows else None

    def options(self, ordinal: int) -> LogOptions | None:
        topic = self._topics.get(ordinal)
        if topic is None:
            self.refresh()
            topic = self._topics.get(ordinal)
        return None if topic is None else self._manager.options_of(topic)[0]

    def topic_name(self, ordinal: int) -> str:
        topic = self._topics.get(ordinal)
        return "" if topic is None else topic.name

    def is_throttled(self, ordinal: int) -> bool:
        """Whether the topic names this broker's replica."""
        topic = self._topics.get(ordinal)
        if topic is None:
            return False
        listed = topic.settings.follower_replication_throttled_replicas
        return bool(listed) and is_throttled(listed, topic.partitions.index(ordinal), self._ctx.config.node_id)

    def count_throttled(self, ordinal: int, size: int) -> None:
        if self.is_throttled(ordinal):
            self._ctx.process_row.count(Counter.FOLLOWER_THROTTLED_BYTES, size)

    def end_of_epoch(self, ordinal: int, epoch: int) -> EpochEnd:
        state = self._manager.state(ordinal)
        return NOT_KNOWN if state is None else self._manager.end_of_epoch(ordinal, state, epoch)


class Fetcher:
    """`turn` is one round: rows that changed, requests that may be sent, answers that came."""

    def __init__(self, ctx: ProcessContext, index: int, fetchers: int) -> None:
        self._ctx = ctx
        self._index = index
        self._fetchers = fetchers
        self._clock = SystemClock()
        self._logs = ReplicaLogs(ctx)
        self._removed_files = RemovedFiles(self._logs.log, self._clock)
        self._links: dict[int, LeaderLink] = {}
        self._epoll = select.epoll()
        self._by_fd: dict[int, LeaderLink] = {}
        self._scan_at_ms = 0
        slots = range(SLOT_FETCHERS, SLOT_FETCHERS + MAX_FETCHERS)
        self._quota = ReplicationQuota(summed(ctx.core, slots, Counter.FOLLOWER_THROTTLED_BYTES))
        self._bell = os.eventfd(0, os.EFD_NONBLOCK)
        self._epoll.register(self._bell, select.EPOLLIN)
        self._epoll.register(ctx.wakeup_fd, select.EPOLLIN)
        self._steady = SteadyLinks(self._logs.log, self._epoll.fileno(), self._logs.options, self._logs.is_throttled)

    def ring(self) -> None:
        """From any thread: look at all rows."""
        os.eventfd_write(self._bell, 1)

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's settings changed."""
        self._logs.use_config(config)

    def turn(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._scan_at_ms:
            self._scan(now_ms)
        for link in self._links.values():
            self._serve(link)
        self._removed_files.give_back()
        for fd, events in self._steady.poll(self._wait_s()):
            if fd == self._bell:
                os.eventfd_read(self._bell)
                self._scan_at_ms = 0
            elif fd == self._ctx.wakeup_fd:
                self._ctx.drain_wakeups()
            elif fd in self._by_fd:
                self._on_event(self._by_fd[fd], events)

    def close(self) -> None:
        for link in self._links.values():
            self._lose(link, "")
        self._logs.log.close()

    def _wait_s(self) -> float:
        now_ms = self._clock.monotonic_ms()
        due = [self._scan_at_ms, self._removed_files.due_ms()]
        for link in self._links.values():
            is_idle = link.connection is None or link.connection.is_idle
            at_ms = link.fetch.due_ms(now_ms) if is_idle else link.held_back_until_ms()
            if at_ms is not None:
                due.append(at_ms)
        return max(0.0, min(due) - now_ms) / 1000

    def _scan(self, now_ms: int) -> None:
        self._steady.take_all(self._links.values(), self._lose)
        self._logs.refresh()
        is_busy, rows = self._logs.rows(self._index, self._fetchers)
        self._scan_at_ms = now_ms + (BUSY_SCAN_MS if is_busy else SCAN_MS)
        own_epoch = cluster_state(self._ctx.core).broker_epoch
        by_leader: dict[int, list[Followed]] = {}
        for row in rows:
            by_leader.setdefault(row.leader, []).append(row)
        for leader in by_leader.keys() - self._links.keys():
            self._links[leader] = self._new_link(leader, own_epoch)
        for leader, link in list(self._links.items()):
            link.fetch.own_epoch = own_epoch
            link.fetch.follow(by_leader.get(leader, ()))
            link.note_what_it_lacks()
            if leader not in by_leader:
                self._lose(link, "")
                del self._links[leader]
        self._find_addresses()
        self._show_lag()

    def _show_lag(self) -> None:
        lag = max((link.fetch.largest_lag() for link in self._links.values()), default=0)
        self._ctx.process_row.set_counter(Counter.REPLICA_LAG, lag)

    def _new_link(self, leader: int, own_epoch: int) -> LeaderLink:
        config = self._ctx.config
        limits = FetchLimits(
            wait_max_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            backoff_ms=config.replica_fetch_backoff_ms,
        )
        fetch = LeaderFetch(config.node_id, own_epoch, limits, self._holds_back)
        return LeaderLink(
            leader,
            fetch,
            self._logs,
            self._clock,
            self.ring,
            self._ctx.log.info,
            self._crash_point,
            self._logs.count_throttled,
        )

    def _holds_back(self, ordinal: int) -> bool:
        config, now_ms = self._ctx.config, self._clock.monotonic_ms()
        return self._logs.is_throttled(ordinal) and is_exceeded(self._quota, config, FOLLOWER_RATE, now_ms)

    def _crash_point(self, name: str) -> None:
        self._ctx.core.crash_point(name)

    def _find_addresses(self) -> None:
        brokers = brokers_read(self._ctx.core)
        for leader, link in self._links.items():
            broker = brokers.get(leader)
            endpoint = None if broker is None else broker.on(self._ctx.config.end_points.inter_broker)
            address = None if endpoint is None else (endpoint.host, endpoint.port)
            epoch = NOBODY if broker is None else broker.epoch
            if address != link.address and link.address is not None:
                self._lose(link, "it moved")
            elif NOBODY not in (epoch, link.epoch) and epoch != link.epoch:
                self._lose(link, "it came back")  # nobody answers what its last life was asked
            link.address, link.epoch = address, epoch

    def _serve(self, link: LeaderLink) -> None:
        if self._steady.has(link):
            return
        if link.connection is None and not self._connect(link):
            return
        if link.is_overdue(self._ctx.config.replica_socket_timeout_ms):
            self._lose(link, "it does not answer")
            return
        until_ms = link.held_back_until_ms()
        if until_ms is not None and until_ms <= self._clock.monotonic_ms():
            self._forget(link)
            link.close()  # over a new connection what was added is asked for, too
            return
        try:
            if link.ask():
                link.write()
                self._watch(link)
                self._steady.lend(link)
        except ConnectionEnded as ended:
            self._lose(link, str(ended))

    def _connect(self, link: LeaderLink) -> bool:
        due_ms = link.fetch.due_ms(self._clock.monotonic_ms())
        if link.address is None or due_ms is None or due_ms > self._clock.monotonic_ms():
            return False
        config = self._ctx.config
        most_bytes = config.replica_fetch_response_max_bytes + ANSWER_OVERHEAD_BYTES
        client_id = f"broker-{config.node_id}-fetcher-{self._index}"
        try:
            found = LOOKUP.find(*link.address)
            if found is None:
                link.fetch.not_before(self._clock.monotonic_ms() + LOOK_UP_MS)
                return False
            made = LeaderConnection(found, client_id, most_bytes, config.replica_socket_receive_buffer_bytes)
        except OSError as error:
            self._lose(link, error.strerror or str(error))
            return False
        link.connection = made
        self._by_fd[made.fileno()] = link
        self._epoll.register(made.fileno(), select.EPOLLIN)
        return True

    def _watch(self, link: LeaderLink) -> None:
        connection = link.connection
        assert connection is not None
        if connection.wants_to_write != connection.is_watched_for_room:
            connection.is_watched_for_room = connection.wants_to_write
            writes = select.EPOLLOUT if connection.wants_to_write else 0
            self._epoll.modify(connection.fileno(), select.EPOLLIN | writes)

    def _on_event(self, link: LeaderLink, events: int) -> None:
        try:
            self._steady.take_back(link)
            if events & select.EPOLLOUT or link.wants_to_write:
                link.write()
                self._watch(link)
            if events & ~select.EPOLLOUT:
                link.read()
        except ConnectionEnded as ended:
            self._lose(link, str(ended))

    def _lose(self, link: LeaderLink, why: str) -> None:
        if link.connection is not None and why:
            self._ctx.log.info("leader_connection_lost", f"{link.leader}", leader=link.leader, why=why)
        self._forget(link)
        link.lose()

    def _forget(self, link: LeaderLink) -> None:
        if link.connection is not None:
            self._epoll.unregister(link.connection.fileno())
            del self._by_fd[link.connection.fileno()]


def main(ctx: ProcessContext) -> None:
    """A fetcher process."""
    fetcher = Fetcher(ctx, ctx.index, ctx.config.mpbroker_replica_fetchers)
    bell = threading.Thread(target=_listen, args=(ctx, fetcher), daemon=True)
    bell.start()
    ctx.running()
    while not ctx.stop_requested():
        ctx.process_row.beat()
        config = ctx.take_reload()
        if config is not None:
            fetcher.use_config(config)
        ctx.log.tick()
        fetcher.turn()
    ctx.process_row.set_state(ProcessState.STOPPING)
    fetcher.close()


def _listen(ctx: ProcessContext, fetcher: Fetcher) -> None:
    """The agent rings a futex word; epoll cannot wait for one."""
    while not ctx.stop_requested():
        if ctx.core.wait_service(ctx.slot, BELL_WAIT_MS):
            fetcher.ring()
