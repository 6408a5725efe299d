"""Names, units and sentences of every counter. Those below 128 the C core counts, and their units and sentences are in
native/shm/counters.h; Python code counts from 128 on.

Plain data, any process. A counter row has one writer, its process; a reader sums the rows of all slots. Append only:
`status` of another version reads by number.
"""

from enum import IntEnum, unique
from typing import Final, NamedTuple

from mpbroker import _native


class CounterInfo(NamedTuple):
    """One counter. `gauge`: a present amount; summing rows is right, differences over time are not."""

    name: str
    unit: str
    sentence: str
    gauge: bool = False


@unique
class Counter(IntEnum):
    """Position in a counter row."""

    REQUESTS_RECEIVED = 0
    REQUESTS_FINISHED = 1
    BYTES_RECEIVED = 2
    BYTES_SENT = 3
    QUEUED_BYTES = 4
    ENTRIES_IN_USE = 5
    NO_ENTRY = 6
    PLANE_FULL = 7
    NO_ARENA_SPACE = 8
    FRAMES_REFUSED = 9
    REQUESTS_CLAIMED = 10
    REQUESTS_ANSWERED = 11
    REQUESTS_PARKED = 12
    NO_ANSWER_SPACE = 13
    HANDLER_WAKES = 14
    PROCESSOR_WAKES = 15
    PARTITION_NOTICES = 16
    RECOVERIES = 17
    REQUEUED = 18
    POISONED = 19
    DROPPED_ANSWERS = 20
    COMMANDS_SENT = 21
    COMMANDS_DONE = 22
    COMMANDS_FULL = 23
    PUNCHED_BYTES = 24
    LOG_APPENDS = 25
    LOG_APPEND_BYTES = 26
    LOG_DUPLICATES = 27
    LOG_REPLAYS = 28
    LOG_ROLLS = 29
    LOG_REPAIRS = 30
    LOG_LOCKS_INHERITED = 31
    LOG_IO_ERRORS = 32
    LOG_PRODUCERS_FULL = 33
    LOG_SNAPSHOTS_LOCKED = 34
    LOG_READS_OVERTAKEN = 35
    LOG_APPENDS_REFUSED = 36
    REQUESTS_HANDED = 37
    LOG_LOCKS_BUSY = 38
    PRODUCE_NATIVE = 39
    PRODUCE_LEFT_FRAME = 40
    PRODUCE_LEFT_TRANSACTION = 41
    PRODUCE_LEFT_TOPIC = 42
    PRODUCE_LEFT_PARTITIONS = 43
    PRODUCE_LEFT_BATCH = 44
    PRODUCE_LEFT_RECORDS = 45
    PRODUCE_LEFT_RERUN = 46
    PRODUCE_LEFT_MEMORY = 47
    PRODUCE_LEFT_BUSY = 48
    LOG_PRODUCERS_REPLACED = 49
    FETCH_SESSIONS_MADE = 50
    FETCH_SESSIONS_EVICTED = 51
    FETCH_SESSIONS_REFUSED = 52
    FETCH_NATIVE = 53
    FETCH_LEFT_FRAME = 54
    FETCH_LEFT_TOPIC = 55
    FETCH_LEFT_PARTITIONS = 56
    FETCH_LEFT_SESSION = 57
    FETCH_LEFT_ERROR = 58
    FETCH_LEFT_ABORTED = 59
    FETCH_LEFT_RERUN = 60
    FETCH_LEFT_MEMORY = 61
    FETCH_LEFT_CHANGED = 62
    PRODUCE_LEFT_WAITS = 63
    REQUESTS_GIVEN_BACK = 64
    # Python code counts these:
    CONNECTIONS_ACCEPTED = 128
    CONNECTIONS_CLOSED = 129
    CONNECTIONS_REFUSED_PER_IP = 130
    CONNECTIONS_EXCESS = 131
    CONNECTIONS_IDLE = 132
    FRAMES_TIMED_OUT = 133
    BAD_FRAMES = 134
    ACCEPT_THROTTLED = 135
    ACCEPTOR_BLOCKED_US = 136
    HANDOVERS_TRUNCATED = 137
    HANDOVERS_STALE = 138
    HANDOVER_REFUSED = 139
    HANDOVER_UNEXPECTED = 140
    ANSWERS_WITHOUT_CONNECTION = 141
    REQUESTS_REFUSED = 142
    HANDLER_EXCEPTIONS = 143
    POISON_REQUESTS = 144
    PURGATORY_EXPIRED = 145
    PRODUCE_PARTITION_ERRORS = 146
    ANSWER_MEMORY_EXHAUSTED = 147
    CONTROLLER_COMMANDS_REFUSED = 148
    CONTROLLER_TABLE_FULL = 149
    # 150 was never counted: it named something that is not done.
    REQUESTS_UNSUPPORTED = 151
    ANSWERS_STUCK = 152
    LOG_FLUSHES = 153
    SEGMENTS_DELETED = 154
    PRODUCER_SNAPSHOTS = 155
    PRODUCERS_FORGOTTEN = 156
    LOG_KEEPER_FAILURES = 157
    CONNECTIONS_TAKEN = 158
    TRACE_NOTICES_DROPPED = 159
    RECOVERY_DOUBTS = 160
    PARTITIONS_OFFLINE_AT_START = 161
    STRAY_DIRECTORIES = 162
    # 163 counted requests for a coordinator of transactions before there was one.
    CONNECTIONS_FAILED = 164
    FETCHES_SHORTENED = 165
    GROUPS = 166
    GROUP_MEMBERS = 167
    COMMITTED_OFFSETS = 168
    GROUP_REQUESTS_PARKED = 169
    GROUP_REBALANCES = 170
    GROUP_MEMBERS_EXPIRED = 171
    OFFSETS_EXPIRED = 172
    GROUPS_REFUSED = 173
    GROUP_MEMBERS_REFUSED = 174
    OFFSETS_REFUSED = 175
    GROUP_REQUESTS_REFUSED = 176
    GROUP_LOADING_REFUSED = 177
    OFFSET_RECORDS_SKIPPED = 178
    DELETED_BYTES_OPEN = 179
    LOGS_COMPACTED = 180
    COMPACTED_BYTES_READ = 181
    FETCH_SESSIONS_WRONG = 182
    CONNECTIONS_PASSED_BACK = 183
    PARTITIONS_MOVED = 196
    PARTITION_MOVES_FAILED = 197
    TRANSACTIONAL_IDS = 200
    TRANSACTIONS_COMMITTED = 201
    TRANSACTIONS_ABORTED = 202
    TRANSACTIONS_TIMED_OUT = 203
    TRANSACTIONAL_IDS_EXPIRED = 204
    TRANSACTIONAL_IDS_REFUSED = 205
    TRANSACTION_LOADING_REFUSED = 206
    TRANSACTION_RECORDS_SKIPPED = 207
    TRANSACTION_PARTITIONS = 208
    TRANSACTION_PARTITIONS_REFUSED = 209
    ISR_SHRINKS = 220
    ISR_EXPANDS = 221
    ISR_UPDATES_FAILED = 222
    REPLICA_LAG = 223
    LEADER_THROTTLED_BYTES = 224
    FOLLOWER_THROTTLED_BYTES = 225


NATIVE_COUNTERS: Final = len(_native.COUNTERS)

def _native_info(name: str, unit: str, sentence: str) -> CounterInfo:
    return CounterInfo(name.lower(), unit.removesuffix(" now"), sentence, unit.endswith(" now"))


COUNTERS: Final = {Counter[row[0]]: _native_info(*row) for row in _native.COUNTERS} | {
    Counter.CONNECTIONS_ACCEPTED: CounterInfo("connections_accepted", "connections", "Connections accepted."),
    Counter.CONNECTIONS_CLOSED: CounterInfo("connections_closed", "connections", "Connections closed, for any reason."),
    Counter.CONNECTIONS_REFUSED_PER_IP: CounterInfo("connections_refused_per_ip", "connections",
        "Connections over the quota of their address."),
    Counter.CONNECTIONS_EXCESS: CounterInfo("connections_excess", "connections",
        "Connections closed because max.connections was reached."),
    Counter.CONNECTIONS_IDLE: CounterInfo("connections_idle", "connections",
        "Connections closed because nothing arrived for too long."),
    Counter.FRAMES_TIMED_OUT: CounterInfo("frames_timed_out", "frames",
        "Connections closed because a request had begun but made no progress."),
    Counter.BAD_FRAMES: CounterInfo("bad_frames", "frames", "Frames that cannot be read; the connection is closed."),
    Counter.ACCEPT_THROTTLED: CounterInfo("accept_throttled", "times", "A listener slowed down by a rate limit."),
    Counter.ACCEPTOR_BLOCKED_US: CounterInfo("acceptor_blocked_us", "microseconds",
        "Time a listener waited for a processor to take connections."),
    Counter.HANDOVERS_TRUNCATED: CounterInfo("handovers_truncated", "messages",
        "Hand-over messages whose descriptors did not all arrive."),
    Counter.HANDOVERS_STALE: CounterInfo("handovers_stale", "messages",
        "Handed-over sockets that were dead on arrival."),
    Counter.HANDOVER_REFUSED: CounterInfo("handover_refused", "messages", "Hand-overs a processor refused."),
    Counter.HANDOVER_UNEXPECTED: CounterInfo("handover_unexpected", "messages",
        "Hand-over messages with an unknown type or sequence."),
    Counter.ANSWERS_WITHOUT_CONNECTION: CounterInfo("answers_without_connection", "answers",
        "Answers whose connection was gone."),
    Counter.REQUESTS_REFUSED: CounterInfo("requests_refused", "requests",
        "Requests that cannot be answered; the connection is closed."),
    Counter.HANDLER_EXCEPTIONS: CounterInfo("handler_exceptions", "requests",
        "Requests answered with -1 after an exception in a handler."),
    Counter.POISON_REQUESTS: CounterInfo("poison_requests", "requests",
        "Requests that killed two handlers, answered with an error and closed."),
    Counter.PURGATORY_EXPIRED: CounterInfo("purgatory_expired", "requests", "Parked requests whose time ran out."),
    Counter.PRODUCE_PARTITION_ERRORS: CounterInfo("produce_partition_errors", "partitions",
        "Partitions of Produce requests answered with an error."),
    Counter.ANSWER_MEMORY_EXHAUSTED: CounterInfo("answer_memory_exhausted", "answers",
        "Answers for which the handler's arena had no room."),
    Counter.CONTROLLER_COMMANDS_REFUSED: CounterInfo("controller_commands_refused", "commands",
        "Commands that found the controller's table full."),
    Counter.CONTROLLER_TABLE_FULL: CounterInfo("controller_table_full", "times",
        "A table of the broker (topics, partitions) was full."),
    Counter.REQUESTS_UNSUPPORTED: CounterInfo("requests_unsupported", "requests",
        "Requests of an API or version that is not served; the connection is closed."),
    Counter.ANSWERS_STUCK: CounterInfo("answers_stuck", "answers",
        "Connections closed because their client read no answer, or too slowly, while others found no room."),
    Counter.LOG_FLUSHES: CounterInfo("log_flushes", "flushes", "Logs the log keeper synced to disk."),
    Counter.DELETED_BYTES_OPEN: CounterInfo("deleted_bytes_open", "bytes",
        "Deleted files of the log that some process still has open: the disk does not have them back.", gauge=True),
    Counter.SEGMENTS_DELETED: CounterInfo("segments_deleted", "segments", "Segments taken away by retention."),
    Counter.PRODUCER_SNAPSHOTS: CounterInfo("producer_snapshots", "files", "Snapshots of producer state written."),
    Counter.PRODUCERS_FORGOTTEN: CounterInfo("producers_forgotten", "producers",
        "Idle producers forgotten, after their time or because the table was nearly full."),
    Counter.LOGS_COMPACTED: CounterInfo("logs_compacted", "logs", "Compactions of partitions that ended well."),
    Counter.PARTITIONS_MOVED: CounterInfo("partitions_moved", "partitions",
        "Partitions that were moved from one log directory to another."),
    Counter.PARTITION_MOVES_FAILED: CounterInfo("partition_moves_failed", "partitions",
        "Moves that were given up: the partition stays where it is."),
    Counter.COMPACTED_BYTES_READ: CounterInfo("compacted_bytes_read", "bytes", "Bytes that those read."),
    Counter.FETCH_SESSIONS_WRONG: CounterInfo("fetch_sessions_wrong", "requests",
        "Requests of fetch sessions that are not known, or that are in another epoch."),
    Counter.LOG_KEEPER_FAILURES: CounterInfo("log_keeper_failures", "times",
        "Jobs of the log keeper that failed for an unexpected reason."),
    Counter.CONNECTIONS_TAKEN: CounterInfo("connections_taken", "connections",
        "Connections a processor took from its acceptor; also the number of the last one, in its trace records."),
    Counter.TRACE_NOTICES_DROPPED: CounterInfo("trace_notices_dropped", "lines",
        "Notices of connections and clients that found no room on their way to the tracer."),
    Counter.RECOVERY_DOUBTS: CounterInfo("recovery_doubts", "findings",
        "What recovery cut, set aside, missed or did not believe: a `log_cut` line or a file of `indexes_rebuilt`."),
    Counter.PARTITIONS_OFFLINE_AT_START: CounterInfo("partitions_offline_at_start", "partitions",
                                                     "Partitions whose directory could not be used at start."),
    Counter.STRAY_DIRECTORIES: CounterInfo("stray_directories", "directories",
                                           "Partition directories that belong to no topic, or of deleted topics with "
                                           "somebody's files in them; left as they are."),
    Counter.CONNECTIONS_FAILED: CounterInfo("connections_failed", "connections",
                                            "Connections closed because serving them raised an unexpected exception; "
                                            "a `connection_failed` line each."),
    Counter.FETCHES_SHORTENED: CounterInfo("fetches_shortened", "requests",
        "Fetches answered with less because unread answers hold most of the memory for answers."),
    Counter.GROUPS: CounterInfo("groups", "groups",
        "Consumer groups, also those that only commit offsets.", gauge=True),
    Counter.GROUP_MEMBERS: CounterInfo("group_members", "members",
        "Members of consumer groups, and member ids that were issued and not used yet.", gauge=True),
    Counter.COMMITTED_OFFSETS: CounterInfo("committed_offsets", "offsets",
        "Committed offsets of all groups.", gauge=True),
    Counter.GROUP_REQUESTS_PARKED: CounterInfo("group_requests_parked", "requests",
        "Joins and syncs that wait for other members.", gauge=True),
    Counter.GROUP_REBALANCES: CounterInfo("group_rebalances", "rebalances",
        "Generations of groups that began."),
    Counter.GROUP_MEMBERS_EXPIRED: CounterInfo("group_members_expired", "members",
        "Members removed because their session or rebalance timeout ended."),
    Counter.OFFSETS_EXPIRED: CounterInfo("offsets_expired", "offsets",
        "Offsets removed after offsets.retention.minutes."),
    Counter.GROUPS_REFUSED: CounterInfo("groups_refused", "requests",
        "Requests refused because of mpbroker.max.groups."),
    Counter.GROUP_MEMBERS_REFUSED: CounterInfo("group_members_refused", "requests",
        "Joins refused because of mpbroker.max.group.members."),
    Counter.OFFSETS_REFUSED: CounterInfo("offsets_refused", "offsets",
        "Offsets refused because of mpbroker.max.committed.offsets."),
    Counter.GROUP_REQUESTS_REFUSED: CounterInfo("group_requests_refused", "requests",
        "Joins and syncs refused because too many of a processor's entries wait."),
    Counter.GROUP_LOADING_REFUSED: CounterInfo("group_loading_refused", "requests",
        "Requests refused because their partition of __consumer_offsets is being read."),
    Counter.OFFSET_RECORDS_SKIPPED: CounterInfo("offset_records_skipped", "records",
        "Records of __consumer_offsets that this broker does not know."),
    Counter.TRANSACTIONAL_IDS: CounterInfo("transactional_ids", "ids",
        "Transactional ids that are known.", gauge=True),
    Counter.TRANSACTIONS_COMMITTED: CounterInfo("transactions_committed", "transactions",
        "Transactions committed, with all their markers."),
    Counter.TRANSACTIONS_ABORTED: CounterInfo("transactions_aborted", "transactions",
        "Transactions aborted, with all their markers."),
    Counter.TRANSACTIONS_TIMED_OUT: CounterInfo("transactions_timed_out", "transactions",
        "Of those, the ones that lasted longer than their producer allowed."),
    Counter.TRANSACTIONAL_IDS_EXPIRED: CounterInfo("transactional_ids_expired", "ids",
        "Transactional ids forgotten after transactional.id.expiration.ms."),
    Counter.TRANSACTIONAL_IDS_REFUSED: CounterInfo("transactional_ids_refused", "requests",
        "Requests refused because of mpbroker.max.transactional.ids."),
    Counter.TRANSACTION_LOADING_REFUSED: CounterInfo("transaction_loading_refused", "requests",
        "Requests refused because their partition of __transaction_state is being read."),
    Counter.TRANSACTION_PARTITIONS: CounterInfo("transaction_partitions", "partitions",
        "Partitions of ongoing transactions, one that several are in several times.", gauge=True),
    Counter.TRANSACTION_PARTITIONS_REFUSED: CounterInfo("transaction_partitions_refused", "requests",
        "Requests refused because all ongoing transactions together have half of mpbroker.max.producers partitions."),
    Counter.TRANSACTION_RECORDS_SKIPPED: CounterInfo("transaction_records_skipped", "records",
        "Records of __transaction_state that this broker does not know."),
    Counter.ISR_SHRINKS: CounterInfo("isr_shrinks", "replicas",
        "Replicas that left the in-sync replicas of partitions led here."),
    Counter.ISR_EXPANDS: CounterInfo("isr_expands", "replicas",
        "Replicas that joined the in-sync replicas of partitions led here."),
    Counter.ISR_UPDATES_FAILED: CounterInfo("isr_updates_failed", "partitions",
        "Changes of in-sync replicas that the controller refused."),
    Counter.REPLICA_LAG: CounterInfo("replica_lag", "records",
        "Records the follower that lags most lacks of what its leader has committed; of several fetchers the sum.",
        gauge=True),
    Counter.LEADER_THROTTLED_BYTES: CounterInfo("leader_throttled_bytes", "bytes",
        "Records sent to followers from partitions of leader.replication.throttled.replicas."),
    Counter.FOLLOWER_THROTTLED_BYTES: CounterInfo("follower_throttled_bytes", "bytes",
        "Records fetched for partitions of follower.replication.throttled.replicas."),
    Counter.CONNECTIONS_PASSED_BACK: CounterInfo("connections_passed_back", "connections",
        "Connections that a processor which left gave to another one."),
}

IDS: Final = {info.name: counter for counter, info in COUNTERS.items()}
"""Name → counter; names may be written with dashes."""


def counter_id(name: str) -> Counter:
    """The counter of a name; KeyError for an undeclared one."""
    return IDS[name.replace("-", "_")]
