/* Ids of the counters in a process's counter row. X(NAME, unit, sentence); mpbroker/shm/counters.py takes units and
 * sentences from here. A unit that ends in " now" is a present amount. One writer per row: a reader sums over the rows.
 * Append only: `status` of another version reads by number. */
#ifndef MPB_COUNTERS_H
#define MPB_COUNTERS_H

#define MPB_COUNTER_LIST(X)                                                                                    \
    X(REQUESTS_RECEIVED, "requests", "Frames taken from sockets and given an entry.")                          \
    X(REQUESTS_FINISHED, "requests", "Answers sent, or dropped with their connection.")                        \
    X(BYTES_RECEIVED, "bytes", "Bytes of those frames.")                                                       \
    X(BYTES_SENT, "bytes", "Bytes of answers sent.")                                                           \
    X(QUEUED_BYTES, "bytes now", "Request bytes processors hold at the moment.")                               \
    X(ENTRIES_IN_USE, "entries now", "Request entries that are not free.")                                     \
    X(NO_ENTRY, "times", "A frame found no free entry and waited in its socket.")                              \
    X(PLANE_FULL, "times", "A request was parked because its plane was full.")                                 \
    X(NO_ARENA_SPACE, "times", "A frame found no room in the processor's arena.")                              \
    X(FRAMES_REFUSED, "frames", "Frames known to have killed a worker.")                                       \
    X(REQUESTS_CLAIMED, "requests", "Requests a handler took.")                                                \
    X(REQUESTS_ANSWERED, "requests", "Answers a handler gave.")                                                \
    X(REQUESTS_PARKED, "times", "Requests put into the purgatory.")                                            \
    X(NO_ANSWER_SPACE, "times", "An answer or its result cells found no room in the handler's arena.")         \
    X(HANDLER_WAKES, "wakes", "Sleeping handlers woken.")                                                      \
    X(PROCESSOR_WAKES, "wakes", "Sleeping processors woken.")                                                  \
    X(PARTITION_NOTICES, "notices", "Handlers rung because a partition moved.")                                \
    X(RECOVERIES, "recoveries", "Slots repaired after a death.")                                               \
    X(REQUEUED, "requests", "Requests put back after their handler died.")                                     \
    X(POISONED, "requests", "Requests closed after they killed a third handler.")                              \
    X(DROPPED_ANSWERS, "answers", "Answers dropped because their processor had died.")                         \
    X(COMMANDS_SENT, "commands", "Commands sent to the controller.")                                           \
    X(COMMANDS_DONE, "commands", "Commands the controller answered.")                                          \
    X(COMMANDS_FULL, "times", "The command table was full.")                                                   \
    X(PUNCHED_BYTES, "bytes", "Arena bytes given back to the kernel.")                                         \
    X(LOG_APPENDS, "batches", "Batches appended to logs.")                                                     \
    X(LOG_APPEND_BYTES, "bytes", "Bytes of those batches.")                                                    \
    X(LOG_DUPLICATES, "batches", "Batches of idempotent producers that were in the log already.")              \
    X(LOG_REPLAYS, "results", "Results of appends taken from a cell that an earlier run had filled.")          \
    X(LOG_ROLLS, "segments", "New active segments.")                                                           \
    X(LOG_REPAIRS, "repairs",                                                                                  \
      "Unfinished changes of a partition finished or undone for a process that died or failed.")               \
    X(LOG_LOCKS_INHERITED, "locks", "Partition locks taken over from a dead process.")                         \
    X(LOG_IO_ERRORS, "errors", "Calls on log files that failed.")                                              \
    X(LOG_PRODUCERS_FULL, "batches", "Batches refused because the table of producer states was full.")         \
    X(LOG_SNAPSHOTS_LOCKED, "reads", "Reads of a partition's state that needed its lock.")                     \
    X(LOG_READS_OVERTAKEN, "reads", "Reads that a truncation overtook.")                                       \
    X(LOG_APPENDS_REFUSED, "batches", "Batches refused because the disk was full at the start.")               \
    X(REQUESTS_HANDED, "requests", "Requests handed over to the coordinator.")                                 \
    X(LOG_LOCKS_BUSY, "times", "A partition's lock was not to be had in time; the request waits aside.")       \
    X(PRODUCE_NATIVE, "requests", "Produce requests served without the interpreter.")                          \
    X(PRODUCE_LEFT_FRAME, "requests", "Produce requests left to Python: an odd frame, version or acks.")       \
    X(PRODUCE_LEFT_TRANSACTION, "requests", "Produce requests left to Python: of a transaction not known.")    \
    X(PRODUCE_LEFT_TOPIC, "requests",                                                                          \
      "Produce requests left to Python: a topic unknown here, changed, or with settings of its own.")          \
    X(PRODUCE_LEFT_PARTITIONS, "requests",                                                                     \
      "Produce requests left to Python: many partitions, one that is not there or is named twice.")            \
    X(PRODUCE_LEFT_BATCH, "requests", "Produce requests left to Python: not one batch of format 2.")           \
    X(PRODUCE_LEFT_RECORDS, "requests", "Produce requests left to Python: records to be named in the answer.") \
    X(PRODUCE_LEFT_RERUN, "requests", "Produce requests left to Python: a handler died with them.")            \
    X(PRODUCE_LEFT_MEMORY, "requests", "Produce requests left to Python: no memory for the answer.")           \
    X(PRODUCE_LEFT_BUSY, "requests", "Produce requests left to Python: a partition's lock was not to be had.") \
    X(LOG_PRODUCERS_REPLACED, "producers",                                                                     \
      "Producers of a single batch forgotten at once, because new ones needed their rows.")                    \
    X(FETCH_SESSIONS_MADE, "sessions", "Fetch sessions made.")                                                 \
    X(FETCH_SESSIONS_EVICTED, "sessions", "Fetch sessions that had to make room for others.")                  \
    X(FETCH_SESSIONS_REFUSED, "sessions", "Fetch sessions not made, or dropped, because there was no room.")   \
    X(FETCH_NATIVE, "requests", "Fetch requests served without the interpreter, waits apart.")                 \
    X(FETCH_LEFT_FRAME, "requests", "Fetch requests left to Python: an odd frame, version or reader.")         \
    X(FETCH_LEFT_TOPIC, "requests", "Fetch requests left to Python: a topic unknown here, or changed.")        \
    X(FETCH_LEFT_PARTITIONS, "requests",                                                                       \
      "Fetch requests left to Python: many partitions, none, one that is not there or is named twice.")        \
    X(FETCH_LEFT_SESSION, "requests", "Fetch requests left to Python: their session is not as they say.")      \
    X(FETCH_LEFT_ERROR, "requests", "Fetch requests left to Python: a partition answers with an error.")       \
    X(FETCH_LEFT_ABORTED, "requests", "Fetch requests left to Python: aborted transactions to be named.")      \
    X(FETCH_LEFT_RERUN, "requests", "Fetch requests left to Python: a handler died with them.")                \
    X(FETCH_LEFT_MEMORY, "requests", "Fetch requests left to Python: not enough memory for the answer.")       \
    X(FETCH_LEFT_CHANGED, "requests", "Fetch requests left to Python: a log changed meanwhile.")               \
    X(PRODUCE_LEFT_WAITS, "requests",                                                                          \
      "Produce requests left to Python: acks=all, and replicas that have not fetched the records yet.")        \
    X(REQUESTS_GIVEN_BACK, "requests", "Requests the coordinator gave back: their transaction has them in it.")

#define MPB_COUNTER_ENUM(name, unit, sentence) MPB_C_##name,
enum mpb_counter { MPB_COUNTER_LIST(MPB_COUNTER_ENUM) MPB_COUNTERS_NATIVE };
#undef MPB_COUNTER_ENUM
#define MPB_COUNTER_PYTHON_FIRST 128 /* 128 .. 239: counted by Python code, shm/counters.py numbers them */
_Static_assert(MPB_COUNTERS_NATIVE <= MPB_COUNTER_PYTHON_FIRST, "native counters");

#endif
