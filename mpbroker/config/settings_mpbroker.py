"""Rows of the settings table that Kafka does not have; their names begin with `mpbroker.`. Pure data."""

from mpbroker.config.admin_listener import DEFAULT_ADMIN_LISTENER
from mpbroker.config.kinds import INT_MAX, LONG_MAX, Kind
from mpbroker.config.limits import DEFAULT_ENTRIES
from mpbroker.config.setting import Change, Setting

CLUSTER_WIDE = Change.CLUSTER_WIDE
INT, LONG, STRING, BOOLEAN = Kind.INT, Kind.LONG, Kind.STRING, Kind.BOOLEAN
MIB = 1024 * 1024

CLUSTER = (
    Setting("mpbroker.cluster.store", STRING, "",
            "Where the brokers of a cluster keep its metadata: `sqlite:/path/of/metadata.db` for brokers of one machine, "
            "`etcd://HOST:PORT,HOST:PORT,…` (3.5 or later) for several; empty: this broker is by itself."),
    Setting("mpbroker.replica.fetchers", INT, 1, "Processes that fetch, from all leaders, what this broker's replicas lack; "
            "a partition always goes to the same one.", least=1, most=8),
)

EXPERIMENTS = (
    Setting("mpbroker.experiment.keep.produces.at.demotion", BOOLEAN, False,
            "For the laboratory alone: writes that wait for replicas go on waiting, until they time out, when this broker does "
            "not lead the partition any more, as in Kafka before KAFKA-4453.", internal=True),
    Setting("mpbroker.experiment.sync.ms", INT, 0,
            "For the laboratory alone: each sync that `flush.messages` asks for takes at least so long, so that the disk is as "
            "fast for every variant; 0: as long as it takes.", least=0, most=1000, internal=True),
)

DURABILITY = (
    Setting("mpbroker.log.flush", STRING, "none",
            "`commit` acknowledges a write only after it is synced to disk; `none` leaves syncing to `log.flush.*` and "
            "the system, as Kafka does.", allowed=("none", "commit")),
)

LOGGING = (
    Setting("mpbroker.log.level", STRING, "INFO", "Log lines below this level are not written.",
            allowed=("ERROR", "WARN", "INFO", "DEBUG"), change=CLUSTER_WIDE),
    Setting("mpbroker.log.format", STRING, "text",
            "How a log line on stderr looks: `text`, or `json` for one object a line (ts, level, process, pid, event, "
            "fields).", allowed=("text", "json"), change=CLUSTER_WIDE),
    Setting("mpbroker.state.change.log.bytes", LONG, 10 * MIB,
            "Size at which `state-change.log` in the first log directory becomes `state-change.log.1`: what the elected "
            "controller of a cluster changed and told, as Kafka's file of that name has it; 0: there is none.", least=0,
            most=2**40, change=CLUSTER_WIDE),
)

TRACES = (
    Setting("mpbroker.trace.enabled", BOOLEAN, True, "Write one trace record for every request."),
    Setting("mpbroker.trace.dir", STRING, None, "Where trace segments go; `traces` in the data directory when not set."),
    Setting("mpbroker.trace.segment.bytes", LONG, 256 * MIB, "Size at which a new trace segment begins.", least=4096 * 2,
            change=CLUSTER_WIDE),
    Setting("mpbroker.trace.segment.ms", LONG, 60000, "Age at which a new trace segment begins.", least=100,
            change=CLUSTER_WIDE),
    Setting("mpbroker.trace.retention.bytes", LONG, 10240 * MIB,
            "Size of all trace segments above which the oldest are deleted; -1: none.", least=-1, change=CLUSTER_WIDE),
    Setting("mpbroker.trace.retention.ms", LONG, 604800000, "Age at which a trace segment is deleted; -1: never.",
            least=-1, change=CLUSTER_WIDE),
    Setting("mpbroker.trace.gauge.interval.ms", INT, 1000,
            "How often ring depths and the processor time of every process are written into the trace.", least=100, most=60_000,
            change=CLUSTER_WIDE),
    Setting("mpbroker.trace.sample.shift", INT, 0,
            "One in 2^n ordinary requests is traced; 0: all. Failed, slow and control requests always are.",
            least=0, most=15, change=CLUSTER_WIDE),
    Setting("mpbroker.trace.slow.ms", LONG, 100,
            "A request that takes at least this long from arrival to answer is traced in spite of sampling; a Fetch's wait for "
            "records does not count. -1: none is.", least=-1, most=3_600_000, change=CLUSTER_WIDE),
)

DASHCAM = (
    Setting("mpbroker.trace.dashcam.bytes", LONG, 0,
            "Above 0: traces are kept in memory (/dev/shm), at most so many bytes of them, and written to disk only when "
            "something happens: see the settings below, `mpbroker trace dump` and SIGUSR1; 8 MiB is the least. 0: they are "
            "written as requests finish.", least=0, most=2**40),
    Setting("mpbroker.trace.dashcam.ms", LONG, 300_000,
            "How long traces are kept in memory, and how long after one trigger the next one counts.", least=1000,
            most=86_400_000, change=CLUSTER_WIDE),
    Setting("mpbroker.trace.dashcam.after.ms", LONG, 10_000,
            "How long a dump that a trigger began goes on, so that it also shows what came of it.", least=0, most=3_600_000,
            change=CLUSTER_WIDE),
    Setting("mpbroker.trace.dashcam.latency.ms", LONG, -1,
            "A request that takes at least this long is a trigger; a Fetch's wait for records does not count. -1: none is.",
            least=-1, most=3_600_000, change=CLUSTER_WIDE),
    Setting("mpbroker.trace.dashcam.error.percent", INT, 0,
            "At least so many requests of a hundred that fail within ten seconds, with at least a hundred requests, are a "
            "trigger; 0: never.", least=0, most=100, change=CLUSTER_WIDE),
)

QUEUES = (
    Setting("mpbroker.queue.discipline", STRING, "fifo",
            "How a handler chooses among waiting requests of the data plane: `fifo` by arrival; `plane` the same, it names "
            "KIP-291's control plane as all the order there is; `priority` the controller's requests first on data "
            "listeners, too; `fair` clients in turn, by the time their requests take; `shortest` by the time expected of the "
            "API and the size; `deadline` by arrival and what the API may wait. Listeners that differ may have one "
            "discipline beside `fifo` and `plane`.",
            allowed=("fifo", "plane", "priority", "fair", "shortest", "deadline"), change=CLUSTER_WIDE, scoped=True),
    Setting("mpbroker.control.reserved.handlers", INT, 1,
            "Handlers that take only requests of the control plane, beside `num.io.threads`; none without a control plane.",
            least=1, most=8),
    Setting("mpbroker.control.classify", BOOLEAN, False,
            "Requests of the controller and of brokers among each other (LeaderAndIsr, StopReplica, UpdateMetadata, "
            "ControlledShutdown, AlterPartition, AllocateProducerIds) go before all data, whichever listener they come on."),
    Setting("mpbroker.control.plane.scheduling", STRING, "auto",
            "`auto` makes the control plane's processes real-time ones where the kernel permits it (CAP_SYS_NICE or "
            "RLIMIT_RTPRIO; for 20 ms of work at a time), else gives them short time slices; `fair` only the latter.",
            allowed=("auto", "fair"), change=CLUSTER_WIDE),
    Setting("mpbroker.entries.per.processor", INT, DEFAULT_ENTRIES,
            "Requests in flight on the connections of one processor; fewer where all processors would have more than "
            "131,070. Members of groups that wait for a rebalance may have all but 2,048 of them, and at least half.",
            least=16, most=131072),
    Setting("mpbroker.arena.bytes.per.processor", LONG, -1,
            "Address space for received requests of one processor; memory is used only as far as requests fill it. -1: a "
            "quarter of the machine's memory, or of the container's limit, divided among the processors of the start, at "
            "least socket.request.max.bytes and, unless that is more, at most 256 MiB.", least=-1, most=2**40),
    Setting("mpbroker.answer.memory.bytes", LONG, -1,
            "Memory for answers that clients have not read yet, divided among request handlers and coordinator of the start; "
            "none gets more "
            "than 256 MiB; -1: a quarter of the machine's memory, or of the container's limit.", least=-1, most=2**40),
    Setting("mpbroker.frame.timeout.ms", LONG, 60000,
            "A connection whose request has begun but makes no progress for this long is closed.", least=1),
)

TABLES = (
    Setting("mpbroker.max.topics", INT, 4096, "Topics this broker can hold; creating more is refused.", least=1,
            most=2**20),
    Setting("mpbroker.max.partitions", INT, 16384, "Partitions this broker can hold; creating more is refused.", least=1,
            most=2**20),
    Setting("mpbroker.max.producers", INT, 65536,
            "Idempotent producers remembered over all partitions; then one that wrote a single batch is forgotten, else "
            "the longest idle ones.", least=16, most=2**24),
    Setting("mpbroker.max.groups", INT, 65536,
            "Consumer groups this broker can hold, also those that only commit offsets; another one is refused.", least=1,
            most=2**24),
    Setting("mpbroker.max.group.members", INT, 131072, "Members of all consumer groups together; another one is refused.",
            least=1, most=2**24),
    Setting("mpbroker.max.committed.offsets", INT, 1048576,
            "Offsets that all consumer groups together have committed; the offset of another partition is refused.", least=1,
            most=2**28),
    Setting("mpbroker.fetch.session.memory.bytes", LONG, 32 * MIB,
            "Memory for fetch sessions, used as far as there are any: 64 bytes for a partition, 272 for a topic. One session "
            "gets an eighth of it at most; a client that finds no room is served without a session.", least=MIB, most=2**34),
    Setting("mpbroker.max.transactional.ids", INT, 65536,
            "Transactional ids this broker can hold; the producer of another one is refused.", least=1, most=2**24),
)

ADMIN = (
    Setting("mpbroker.admin.listener", STRING, DEFAULT_ADMIN_LISTENER,
            "HOST:PORT where the admin process serves `/metrics`, `/healthz` and `/readyz` over HTTP; port 0: any free one, "
            "which `mpbroker status` and the ready file name; empty: no admin process."),
)

STOPPING = (
    Setting("mpbroker.drain.timeout.ms", LONG, 4000, "How long requests in hand may go on after SIGTERM.", least=0,
            most=INT_MAX, change=CLUSTER_WIDE),
    Setting("mpbroker.stop.timeout.ms", LONG, 1000, "How long processes may take to end after that; then they are killed.",
            least=1, most=LONG_MAX, change=CLUSTER_WIDE),
    Setting("mpbroker.stop.flush.timeout.ms", LONG, 30000,
            "How long a stop may take to sync the logs; after that the next start reads them.", least=1, most=LONG_MAX,
            change=CLUSTER_WIDE),
)

GROUPS = (
    ("mpbroker: cluster", CLUSTER),
    ("mpbroker: durability", DURABILITY),
    ("mpbroker: log lines", LOGGING),
    ("mpbroker: traces", TRACES),
    ("mpbroker: traces in memory", DASHCAM),
    ("mpbroker: queues", QUEUES),
    ("mpbroker: tables", TABLES),
    ("mpbroker: admin", ADMIN),
    ("mpbroker: stopping", STOPPING),
    ("mpbroker: experiments", EXPERIMENTS),
)
