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
}
