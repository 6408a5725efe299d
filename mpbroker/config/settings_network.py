"""Rows of the settings table: identity, listeners, sockets, connections, request queues. Pure data."""

from mpbroker.config.kinds import INT_MAX, LONG_MAX, Kind
from mpbroker.config.listeners import DEFAULT_LISTENERS
from mpbroker.config.setting import Change, Setting

PER_BROKER, CLUSTER_WIDE = Change.PER_BROKER, Change.CLUSTER_WIDE
INT, LONG, STRING, BOOLEAN = Kind.INT, Kind.LONG, Kind.STRING, Kind.BOOLEAN

IDENTITY = (
    Setting("node.id", INT, 0, "Number of this broker in its cluster; `broker.id` is the same setting.", least=0),
    Setting("broker.id", INT, 0, "The older name of `node.id`; if both are given they must agree.", least=0),
    Setting("broker.rack", STRING, None, "Rack or zone of this broker, which Metadata shows to clients."),
)

LISTENERS = (
    Setting("listeners", STRING, DEFAULT_LISTENERS,
            "Where the broker listens: NAME://HOST:PORT, separated by commas. An empty host means every interface, port 0 "
            "any free port. (Kafka's default is every interface; ours is loopback only.)",
            change=PER_BROKER),
    Setting("advertised.listeners", STRING, None,
            "The addresses that clients are given, by listener name; `listeners` when not set. Port 0 means the bound port.",
            change=PER_BROKER),
    Setting("listener.security.protocol.map", STRING,
            "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
            "Security protocol of each listener name: NAME:PROTOCOL, separated by commas.",
            change=PER_BROKER),
    Setting("control.plane.listener.name", STRING, None,
            "The listener whose requests have their own processor, queue and handler, so that they never wait "
            "behind data (KIP-291). Not set: no control plane."),
    Setting("controller.listener.names", STRING, None,
            "Listeners of Kafka's KRaft controllers, separated by commas: `listeners` and `advertised.listeners` are read "
            "without them, because mpbroker needs none. (A listener that `control.plane.listener.name` names stays.)"),
    Setting("inter.broker.listener.name", STRING, None,
            "The listener brokers use among each other. Not set: the one that `security.inter.broker.protocol` names, or "
            "the first data listener when that is not set either."),
    Setting("security.inter.broker.protocol", STRING, "PLAINTEXT",
            "Names the brokers' own listener by its protocol; not together with `inter.broker.listener.name`.",
            allowed=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
)

SOCKETS = (
    Setting("socket.send.buffer.bytes", INT, 102400, "Send buffer of each connection; -1 leaves it to the system.",
            least=-1),
    Setting("socket.receive.buffer.bytes", INT, 102400, "Receive buffer of each connection; -1 leaves it to the system.",
            least=-1),
    Setting("socket.request.max.bytes", INT, 104857600,
            "Largest request accepted; a larger one closes its connection.", least=1),
    Setting("socket.listen.backlog.size", INT, 50, "Connections the kernel keeps waiting for accept, per listener.",
            least=1),
    Setting("connections.max.idle.ms", LONG, 600000, "A connection that sends no request for this long is closed.", least=1),
    Setting("connection.failed.authentication.delay.ms", INT, 100,
            "Delay before a connection that failed to authenticate is closed.", least=0, later=True),
    Setting("max.connections", INT, INT_MAX,
            "Maximum number of open connections; at the limit the acceptor waits.",
            least=0, change=CLUSTER_WIDE, scoped=True),
    Setting("max.connections.per.ip", INT, INT_MAX,
            "Maximum number of open connections from one address; more are closed. 0 only together with overrides.",
            least=0, change=CLUSTER_WIDE),
    Setting("max.connections.per.ip.overrides", STRING, "",
            "Other limits for single addresses: HOST:COUNT, separated by commas.", change=CLUSTER_WIDE),
    Setting("max.connection.creation.rate", INT, INT_MAX,
            "Maximum number of new connections per second; above it the acceptor slows down.",
            least=0, change=CLUSTER_WIDE, scoped=True),
)

REQUESTS = (
    Setting("num.network.threads", INT, None, "Processors (network processes) for each data listener.",
            least=1, most=32, change=CLUSTER_WIDE, scoped=True,
            from_cores=lambda cores: max(1, min(cores // 2, 32)), cores_formula="max(1, cores / 2), as far as 32 slots go"),
    Setting("num.io.threads", INT, None, "Request handlers (processes that execute requests of the data plane).",
            least=1, most=63, change=CLUSTER_WIDE,
            from_cores=lambda cores: max(2, min(cores, 56)), cores_formula="max(2, cores), at most 56"),
    Setting("background.threads", INT, 10, "Kafka's pool for background work; mpbroker has one process per duty instead.",
            least=1, change=CLUSTER_WIDE, later=True),
    Setting("queued.max.requests", INT, 500,
            "Requests that may wait for a handler on the data plane; at the limit processors stop reading.", least=1, most=65536),
    Setting("queued.max.request.bytes", LONG, -1,
            "Bytes of requests that may wait; at the limit processors stop reading. -1: no limit of its own.", least=-1),
    Setting("request.timeout.ms", INT, 30000, "How long the broker waits for an answer to a request of its own.",
            least=1, later=True),
    Setting("max.request.partition.size.limit", INT, 2000, "Partitions one request may name where Kafka bounds it.",
            least=1, later=True),
    Setting("fetch.max.bytes", INT, 57671680, "Maximum bytes of one Fetch response, whatever the client asks for.",
            least=1024),
    Setting("max.incremental.fetch.session.cache.slots", INT, 1000,
            "Maximum number of fetch sessions, at most 65536; 0: none. Every client can do without one.", least=0),
    Setting("fetch.purgatory.purge.interval.requests", INT, 1000,
            "Completed waiting fetches after which their watch lists are cleaned; here each is, when it completes.", least=1,
            later=True),
    Setting("producer.purgatory.purge.interval.requests", INT, 1000,
            "Completed waiting produces after which their watch lists are cleaned; here each is, when it completes.", least=1,
            later=True),
    Setting("delete.records.purgatory.purge.interval.requests", INT, 1,
            "Completed waiting record deletions after which their watch lists are cleaned.", least=1, later=True),
)

QUOTAS = (
    Setting("quota.window.num", INT, 11, "Samples kept for each rate that a quota bounds.", least=1),
    Setting("quota.window.size.seconds", INT, 1, "Length of one such sample.", least=1),
    Setting("metrics.num.samples", INT, 2, "Samples kept for each measured rate.", least=1, later=True),
    Setting("metrics.sample.window.ms", LONG, 30000, "Length of one such sample.", least=1, most=LONG_MAX, later=True),
)

GROUPS = (
    ("Identity", IDENTITY),
    ("Listeners", LISTENERS),
    ("Sockets and connections", SOCKETS),
    ("Requests", REQUESTS),
    ("Rates and quotas", QUOTAS),
)
