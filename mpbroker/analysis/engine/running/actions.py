"""What to change, by what was found: the table behind every finding's arrow, and of docs/traces.md. Pure data.

A setting that is named here is one of the broker (config/table.py) or, marked so, of the client; a test compares them.
"""

from typing import NamedTuple


class Action(NamedTuple):
    """`names`: how the table of docs/traces.md names the kind. `change`: sentences in the imperative, or that nothing
    helps. `settings`: the broker's settings in it; `client_settings`: those of clients."""

    names: str
    change: str
    settings: tuple[str, ...] = ()
    client_settings: tuple[str, ...] = ()


ACTIONS: dict[str, Action] = {
    "no_core": Action(
        "ready, but without a core",
        "No setting of the broker helps: the machine has no free core. Stop what else runs on it, or give it more "
        "cores.",
    ),
    "rx_wait": Action(
        "waiting in the socket",
        "Processors are the bottleneck: raise num.network.threads while cores are free, or send fewer, larger requests "
        "(linger.ms and batch.size of the producers).",
        ("num.network.threads",),
        ("linger.ms", "batch.size"),
    ),
    "wake_up": Action(
        "waiting for a process that was idle",
        "No setting helps: processors and handlers were idle most of the time, and this is what it takes to wake one.",
    ),
    "own_connection": Action(
        "waiting behind earlier requests of its own connection",
        "No setting of the broker helps: it serves the requests of a connection one after the other. Use more "
        "connections or larger batches (batch.size of the producers).",
        (),
        ("batch.size",),
    ),
    "ring_block": Action(
        "waiting for room in the request ring",
        "The request ring (queued.max.requests) is full because handlers are too few or too slow: raise num.io.threads "
        "while cores are free. A larger ring would only hide it.",
        ("queued.max.requests", "num.io.threads"),
    ),
    "queue": Action(
        "waiting in the request ring",
        "Handlers are the bottleneck: raise num.io.threads while cores are free. If one client floods the broker, slow "
        "that client down.",
        ("num.io.threads",),
    ),
    "io": Action(
        "reading or writing the log",
        "Put log.dirs on a faster disk, or send larger batches (batch.size). If the broker flushes before it answers, "
        "see mpbroker.log.flush and log.flush.interval.messages.",
        ("log.dirs", "mpbroker.log.flush", "log.flush.interval.messages"),
        ("batch.size",),
    ),
    "work": Action(
        "the broker's own work",
        "This is what a request costs. Fewer, larger requests cost less for each record (linger.ms and batch.size of "
        "the "
        "producers, fetch.min.bytes of the consumers).",
        (),
        ("linger.ms", "batch.size", "fetch.min.bytes"),
    ),
    "purgatory": Action(
        "in purgatory",
        "Requests wait for what they asked for: acks=all for the slowest replica (or for the flush, with "
        "mpbroker.log.flush=commit), topic changes for the controller. Speed those up, or ask for less (acks=1).",
        ("mpbroker.log.flush",),
        ("acks",),
    ),
    "answer": Action(
        "waiting in the response ring or for the socket",
        "Processors are the bottleneck, or a client does not read its answers: raise num.network.threads while cores "
        "are "
        "free, and look at the clients that the study tail names.",
        ("num.network.threads",),
    ),
    "send": Action(
        "sending the answer",
        "Answers are large, or clients read them slowly: ask for less at a time (fetch.max.bytes and "
        "max.partition.fetch.bytes of the consumers) or raise socket.send.buffer.bytes.",
        ("socket.send.buffer.bytes",),
        ("fetch.max.bytes", "max.partition.fetch.bytes"),
    ),
    "errors": Action(
        "requests that ended with an error",
        "Find the cause of the error codes named first: a failed request is time lost, and most clients send it again.",
    ),
    "throttled": Action(
        "requests that a quota throttled",
        "Raise the client's quota, or let the client send less: the broker delays it on purpose.",
    ),
    "control_behind_data": Action(
        "control requests behind data",
        "Give control requests a listener of their own: control.plane.listener.name.",
        ("control.plane.listener.name",),
    ),
    "named_behind_data": Action(
        "one group's requests behind those of others",
        "Requests are served in the order in which they were read, so a client with many connections gets many shares. "
        "Slow that client down, or raise num.io.threads while cores are free.",
        ("num.io.threads",),
    ),
    "hung": Action(
        "produce requests that hung for want of a leader",
        "Find out why the partition had no leader: these requests waited until an election, or until their timeout.",
    ),
    "slow_processor": Action(
        "one processor has more than its share of slow requests",
        "Connections are dealt out to processors in turn: look for one busy connection on this processor, and spread "
        "its "
        "load over more connections.",
    ),
    "slow_handler": Action(
        "one handler has more than its share of slow requests",
        "Look at this handler with `mpbroker status`: all handlers take from one ring, so one alone is slow only if "
        "something holds it up.",
    ),
    "slow_client": Action(
        "one client has more than its share of slow requests",
        "Look at what this client does differently: its request size, its number of connections, how many requests it "
        "sends ahead.",
    ),
    "slow_topic": Action(
        "one topic has more than its share of slow requests",
        "Spread this topic over more partitions, and look at the size of its batches.",
    ),
    "queueing": Action(
        "waiting in the request ring while every handler was at work",
        "Handlers are the bottleneck: raise num.io.threads while cores are free, or make requests cheaper (the study "
        "service says what they cost).",
        ("num.io.threads",),
    ),
    "handoff": Action(
        "waiting in the request ring while a handler was free",
        "More handlers would not help: one was free, but had to wake up or to get a core. Stop what else runs on the "
        "machine; what is left then is what waking a process takes.",
    ),
    "past_knee": Action(
        "load beyond the knee",
        "Plan for less load on this broker than the lower end of the interval: move leaders of partitions to other "
        "brokers, or send fewer, larger requests (linger.ms and batch.size of the producers).",
        (),
        ("linger.ms", "batch.size"),
    ),
    "past_peak": Action(
        "more handlers, processors or cores than throughput has use for",
        "More of them give less: set num.io.threads, num.network.threads or the number of cores to where throughput is "
        "highest.",
        ("num.io.threads", "num.network.threads"),
    ),
    "shared_work": Action(
        "work that cannot be done side by side",
        "No setting of the broker helps: so much of the work goes one after the other, however many there are. Spread "
        "the load over more brokers, or send fewer, larger requests (linger.ms and batch.size of the producers).",
        (),
        ("linger.ms", "batch.size"),
    ),
    "other_handlers": Action(
        "a replay with another number of handlers",
        "Set num.io.threads to the number that the replay names, as long as handlers do not have to share cores.",
        ("num.io.threads",),
    ),
    "other_discipline": Action(
        "a replay with another queueing discipline",
        "Set mpbroker.queue.discipline to the one that the replay names; it can be changed while the broker runs. "
        "Where the replay names another number of handlers too, set num.io.threads.",
        ("mpbroker.queue.discipline", "num.io.threads"),
    ),
    "fixed_cost": Action(
        "handler time that any request costs, whatever its size",
        "Send fewer, larger requests: linger.ms and batch.size of the producers, fetch.min.bytes of the consumers.",
        (),
        ("linger.ms", "batch.size", "fetch.min.bytes"),
    ),
    "size_cost": Action(
        "handler time that bytes and partitions cost",
        "Larger batches would save little: compress (compression.type of the producers), or ask for fewer partitions "
        "at a time.",
        (),
        ("compression.type",),
    ),
    "greedy_client": Action(
        "one client for which the others wait",
        "Slow that client down with a quota, or let requests be served in turn by client "
        "(mpbroker.queue.discipline=fair).",
        ("mpbroker.queue.discipline",),
    ),
    "purgatory_timeout": Action(
        "in purgatory until the time was over",
        "Find the replica, disk or controller that does not keep up: clients see these requests fail and send them "
        "again.",
    ),
    "behind_large": Action(
        "small requests behind large ones of their own connection",
        "Give large and small requests connections of their own: a broker serves those of one connection one after the "
        "other.",
    ),
    "uneven_processors": Action(
        "one processor with most of the requests",
        "Connections are dealt to processors in turn, so few of them do most: spread that load over more connections "
        "(the study fairness names them).",
    ),
    "uneven_handlers": Action(
        "one handler with most of the requests although all are busy",
        "Look at what holds up the other handlers: all of them take from one ring.",
    ),
    "slow_reader": Action(
        "clients that take their answers slowly",
        "Look at that client (its own work between two polls, its network), let it ask for less at a time "
        "(fetch.max.bytes), or raise socket.send.buffer.bytes.",
        ("socket.send.buffer.bytes",),
        ("fetch.max.bytes",),
    ),
    "odd_windows": Action(
        "times that differ from the others",
        "Look at these times alone: the studies tail and latency with the --from and --to that the study anomaly "
        "names.",
    ),
    "bursts": Action(
        "waiting while a ring filled or emptied",
        "Requests come in bursts, and wait longer in them than otherwise: spread what clients do at the same moment, "
        "or size num.io.threads for the bursts, not for the mean.",
        ("num.io.threads",),
    ),
    "trace_loss": Action(
        "requests that the trace lacks",
        "Believe no percentile of this trace before that is mended: what a tracer loses it loses under the highest "
        "load. `mpbroker trace stats` says what was dropped; give the tracer a faster disk (mpbroker.trace.dir) or "
        "sample (mpbroker.trace.sample.shift).",
        ("mpbroker.trace.dir", "mpbroker.trace.sample.shift"),
    ),
    "slower_than_baseline": Action(
        "requests slower than those of the baseline",
        "Take back what differs between the two sets of runs, one thing at a time; the study latency of each set says "
        "where the time went.",
    ),
    "slow_broker": Action(
        "one broker slower than the others of the fleet",
        "Run the studies latency and tail on the traces of this broker: the others show that it can be had faster.",
    ),
    "slow_hours": Action(
        "hours slower than the others of the fleet",
        "Run the studies latency and tail on these hours alone (--from and --to).",
    ),
    "failing_broker": Action(
        "one broker with more errors than the others of the fleet",
        "Look into the log of this broker: the others answer the same requests without these errors.",
    ),
    "uneven_brokers": Action(
        "one broker with more load than the others of the fleet",
        "Spread leaders and connections evenly: a broker with more of them is slow first.",
    ),
}
