"""The two ends of replication in the simulation: the fetcher's own links (LeaderLink, LeaderFetch) over connections
that the schedule carries, breaks and delays; and a leader's answers with fetch sessions (KIP-227), which a restart
forgets."""

from mpbroker.log.leader_epochs import EpochEnd
from mpbroker.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from mpbroker.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from mpbroker.replication.follower import FetchLimits, Followed, LeaderFetch
from mpbroker.replication.leader_link import LeaderLink
from tests.simulation.replica_model import LEADER

LIMITS = FetchLimits(wait_max_ms=0, backoff_ms=100)
SESSION_GONE, SESSION_EPOCH = 70, 71


class FetchConnection:
    """A connection to a leader: one question at a time."""

    def __init__(self, fetching, leader):
        self._fetching, self._leader = fetching, leader
        self.is_idle, self.answer, self.correlation_id = True, None, 0

    def ask(self, message, answer, version):
        """It is on its way; nothing comes back if it or its answer is lost."""
        world, broker = self._fetching.host.world, self._fetching.host.id
        self.is_idle = False
        self.correlation_id += 1
        number = self.correlation_id

        def arrive():
            reply = world.brokers[self._leader].fetching.answer_to(broker, message)
            world.acknowledge(self._leader)
            world.send(self._leader, broker, lambda: self._fetching.answered(self, number, reply))

        world.send(broker, self._leader, arrive)

    def write(self):
        """All is sent."""

    def read(self):
        """The answer, if it is there."""
        answer, self.answer = self.answer, None
        self.is_idle = answer is not None
        return answer

    def close(self):
        """What comes from now on is nobody's."""


class Fetching:
    """`rows`, `row`, `options`, `topic_name`, `end_of_epoch`: the logs as LeaderLink wants them."""

    def __init__(self, host):
        self.host = host
        self.links = {}
        self._sessions = {}  # broker -> [id, next epoch, {(topic id, number): what was asked}, {...: what was told}]
        self._made = 0

    # ---- the follower's end

    @property
    def log(self):
        """Of the agent's process now; the rows are the same for all."""
        return self.host.rows

    def rows(self):
        """What it follows; rows whose lock is taken are left out."""
        found = []
        for (_, number), log in self.host.following():
            if log.leader >= 0 and not self.host.world.is_busy():
                found.append(self._row(self.host.ordinals[log.topic_id, number], number, log))
        return found

    def row(self, ordinal):
        """None: not a follower, or busy."""
        return next((row for row in self.rows() if row.ordinal == ordinal), None)

    def _row(self, ordinal, number, log):
        return Followed(ordinal, log.topic_id, number, log.leader, log.leader_epoch, log.leo, log.last_epoch, 0, log.hw)

    def options(self, ordinal):
        """Of no account here."""
        return ()

    def topic_name(self, ordinal):
        """By its id."""
        return self.host._identity(ordinal)[0].hex()

    def end_of_epoch(self, ordinal, epoch):
        """Where an epoch ended here."""
        log = self.host.topics.log_of(self.host._identity(ordinal))
        return EpochEnd(*log.end_of(epoch))

    def scan(self):
        """Rows and leaders, as Fetcher._scan."""
        by_leader = {}
        for row in self.rows():
            by_leader.setdefault(row.leader, []).append(row)
        for leader in by_leader.keys() - self.links.keys():
            fetch = LeaderFetch(self.host.id, self.host.epoch, LIMITS)
            self.links[leader] = LeaderLink(leader, fetch, self, self.host.world.clock, self.scan)
        for leader, link in list(self.links.items()):
            link.fetch.own_epoch = self.host.epoch
            link.fetch.follow(by_leader.get(leader, ()))
            if leader not in by_leader:
                link.lose()
                del self.links[leader]

    def ask(self):
        """Everything that may be asked now; whether there was something."""
        sent = False
        for leader, link in sorted(self.links.items()):
            if link.connection is None and link.fetch.due_ms(self.host.world.now_ms) is not None:
                link.connection = FetchConnection(self, leader)
            sent |= link.ask()
        return sent

    def answered(self, connection, number, reply):
        """An answer arrives, on a connection that may be gone, or that waits for a later one."""
        link = self.links.get(connection._leader)
        waits = not connection.is_idle and number == connection.correlation_id
        if link is not None and link.connection is connection and waits:
            connection.answer = reply
            link.read()

    def break_off(self):
        """Connections without an answer are given up; whether there was one."""
        waiting = [link for link in self.links.values() if link.connection and not link.connection.is_idle]
        for link in waiting:
            link.lose()
        return bool(waiting)

    # ---- the leader's end

    def answer_to(self, broker, message):
        """A handler's answer."""
        if not isinstance(message, FetchRequest):
            return self._ends(message)
        asked = {(topic.topic_id, one.partition): one for topic in message.topics for one in topic.partitions}
        if message.session_id == 0:
            self._made += 1
            session = self._sessions[broker] = [self.host.life << 16 | self._made, 1, asked, {}]
        else:
            session = self._sessions.get(broker)
            if session is None or session[0] != message.session_id:
                return FetchResponse(error_code=SESSION_GONE)
            if session[1] != message.session_epoch:
                return FetchResponse(error_code=SESSION_EPOCH)
            session[1] += 1
            session[2].update(asked)
            for gone in message.forgotten_topics_data:
                for number in gone.partitions:
                    session[2].pop((gone.topic_id, number), None)
                    session[3].pop((gone.topic_id, number), None)
        return self._partitions(broker, message, session)

    def _partitions(self, broker, message, session):
        topics = {}
        for (topic_id, number), one in session[2].items():
            data = self._read(broker, message.replica_state.replica_epoch, topic_id, number, one)
            told = (data.error_code, data.high_watermark)
            if data.records or data.error_code or data.diverging_epoch or session[3].get((topic_id, number)) != told:
                session[3][topic_id, number] = told
                topics.setdefault(topic_id, FetchableTopicResponse(topic_id=topic_id)).partitions.append(data)
        return FetchResponse(session_id=session[0], responses=list(topics.values()))

    def _read(self, broker, broker_epoch, topic_id, number, asked):
        log = self.host.topics.log_of((topic_id, number))
        if log is None:
            return PartitionData(partition_index=number, error_code=100)
        error, diverging, records, hw = log.fetched(
            self.host.id, broker, asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch, broker_epoch
        )
        end = None if diverging is None else EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        return PartitionData(
            partition_index=number, error_code=error, high_watermark=hw, log_start_offset=0, diverging_epoch=end,
            records=tuple((asked.fetch_offset + at, *record) for at, record in enumerate(records)),
        )  # fmt: skip

    def _ends(self, message):
        (topic,) = message.topics
        (asked,) = topic.partitions
        log = self.host.topics.log_of((bytes.fromhex(topic.name), asked.partition_index))
        found = ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=6)
        if log is not None and log.role == LEADER and log.leader_epoch == asked.current_leader_epoch:
            found.error_code, found.offset = 0, log.leo if asked.timestamp == -1 else 0
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[found])])
