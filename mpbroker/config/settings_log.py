"""Rows of the settings table: data directory, log segments, retention, flush, cleaning, record formats. Pure data."""

from mpbroker.config.kinds import LONG_MAX, Kind
from mpbroker.config.setting import Change, Setting

CLUSTER_WIDE = Change.CLUSTER_WIDE
INT, LONG, STRING, BOOLEAN, DOUBLE, LIST = Kind.INT, Kind.LONG, Kind.STRING, Kind.BOOLEAN, Kind.DOUBLE, Kind.LIST

DIRECTORY = (
    Setting("log.dirs", STRING, None, "Log directories; the first holds the metadata, too. `log.dir` when not set."),
    Setting("log.dir", STRING, "mpbroker-data", "The data directory, relative to where the broker is started."),
    Setting("num.recovery.threads.per.data.dir", INT, 1, "Processes that recover logs at start.", least=1,
            change=CLUSTER_WIDE, restart=True, later=True),
    Setting("log.dir.failure.timeout.ms", LONG, 30000,
            "How long a failed directory may stay unreported to the controller before the broker ends.", least=1,
            later=True),
)

SEGMENTS = (
    Setting("log.segment.bytes", INT, 1073741824, "Size at which a log begins a new segment.", least=14,
            change=CLUSTER_WIDE),
    Setting("log.roll.ms", LONG, None, "Age at which a log begins a new segment; `log.roll.hours` when not set.", least=1,
            change=CLUSTER_WIDE),
    Setting("log.roll.hours", INT, 168, "The same in hours.", least=1),
    Setting("log.roll.jitter.ms", LONG, None,
            "Up to this much is subtracted from that age at random, so that logs do not all roll at once.", least=0,
            change=CLUSTER_WIDE),
    Setting("log.roll.jitter.hours", INT, 0, "The same in hours.", least=0),
    Setting("log.index.size.max.bytes", INT, 10485760, "Largest offset index; a full one begins a new segment.", least=4,
            change=CLUSTER_WIDE),
    Setting("log.index.interval.bytes", INT, 4096, "Bytes of records between two entries of the offset index.", least=0,
            change=CLUSTER_WIDE),
    Setting("log.preallocate", BOOLEAN, False, "Reserve a segment's whole size when it is created.", change=CLUSTER_WIDE,
            later=True),
    Setting("log.segment.delete.delay.ms", LONG, 60000,
            "How long a deleted segment's renamed file is kept for readers that still have it.", least=0,
            change=CLUSTER_WIDE),
)

RETENTION = (
    Setting("log.cleanup.policy", LIST, ("delete",),
            "What happens to old records: `delete` by age and size, `compact` to the last of each key, or both.",
            allowed=("compact", "delete"), change=CLUSTER_WIDE),
    Setting("log.retention.ms", LONG, None,
            "Age at which a segment is deleted, -1 for never; `log.retention.minutes` when not set.", least=-1,
            change=CLUSTER_WIDE),
    Setting("log.retention.minutes", INT, None, "The same in minutes; `log.retention.hours` when not set.", least=-1),
    Setting("log.retention.hours", INT, 168, "The same in hours.", least=-1),
    Setting("log.retention.bytes", LONG, -1, "Size of a partition above which its oldest segments are deleted; -1: none.",
            change=CLUSTER_WIDE),
    Setting("log.retention.check.interval.ms", LONG, 300000, "How often segments are looked at for deletion.", least=1),
    Setting("log.local.retention.bytes", LONG, -2, "Local part of a tiered log by size; tiers are not supported.",
            least=-2, change=CLUSTER_WIDE, later=True),
    Setting("log.local.retention.ms", LONG, -2, "Local part of a tiered log by age; tiers are not supported.", least=-2,
            change=CLUSTER_WIDE, later=True),
    Setting("log.initial.task.delay.ms", LONG, 30000,
            "Pause between the start and the first round of retention, flush and checkpoints.", least=0, internal=True),
)

FLUSH = (
    Setting("log.flush.interval.messages", LONG, LONG_MAX, "Records after which a partition is synced to disk.", least=1,
            change=CLUSTER_WIDE),
    Setting("log.flush.interval.ms", LONG, None,
            "Maximum time that records stay unsynced; `log.flush.scheduler.interval.ms` when not set.", least=0,
            change=CLUSTER_WIDE),
    Setting("log.flush.scheduler.interval.ms", LONG, LONG_MAX, "How often partitions are looked at for syncing.",
            least=1),
    Setting("log.flush.offset.checkpoint.interval.ms", INT, 60000, "How often the recovery points are written down.",
            least=0),
    Setting("log.flush.start.offset.checkpoint.interval.ms", INT, 60000,
            "How often the first offsets of logs are written down.", least=0),
    Setting("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, "How often the high watermarks are written down.",
            least=1),
)

MOVES = (
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX,
            "Maximum I/O of moving partitions between log directories.", least=0, change=CLUSTER_WIDE,
            internal=True),
)

CLEANER = (
    Setting("log.cleaner.enable", BOOLEAN, True, "Whether logs with policy `compact` are compacted."),
    Setting("log.cleaner.threads", INT, 1, "Logs are compacted one at a time; 0: none is.", least=0, change=CLUSTER_WIDE),
    Setting("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308, "Maximum I/O of the cleaner.",
            change=CLUSTER_WIDE),
    Setting("log.cleaner.dedupe.buffer.size", LONG, 134217728, "Memory for the keys of one compaction.",
            change=CLUSTER_WIDE),
    Setting("log.cleaner.io.buffer.size", INT, 524288, "Memory for the cleaner's reading and writing.", least=0,
            change=CLUSTER_WIDE),
    Setting("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, "How full the table of keys may become.",
            change=CLUSTER_WIDE),
    Setting("log.cleaner.backoff.ms", LONG, 15000, "Pause of the cleaner when nothing needs it.", least=0,
            change=CLUSTER_WIDE),
    Setting("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, "Share of a log that must be uncompacted before it is cleaned.",
            least=0, most=1, change=CLUSTER_WIDE),
    Setting("log.cleaner.delete.retention.ms", LONG, 86400000, "How long a compacted log keeps the mark of a deleted key.",
            least=0, change=CLUSTER_WIDE),
    Setting("log.cleaner.min.compaction.lag.ms", LONG, 0, "Records younger than this are not compacted.", least=0,
            change=CLUSTER_WIDE),
    Setting("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, "A log that holds older uncompacted records is compacted.",
            least=1, change=CLUSTER_WIDE),
)

RECORDS = (
    Setting("message.max.bytes", INT, 1048588, "Largest record batch a topic accepts.", least=0, change=CLUSTER_WIDE),
    Setting("compression.type", STRING, "producer",
            "Compression of stored batches; `producer` keeps each as it came.",
            allowed=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), change=CLUSTER_WIDE),
    Setting("compression.gzip.level", INT, -1, "Level when the broker compresses with gzip; -1: its default, 6.", least=-1,
            most=9, change=CLUSTER_WIDE),
    Setting("compression.lz4.level", INT, 9, "Level when the broker compresses with lz4; 9: fast.", least=1, most=17,
            change=CLUSTER_WIDE),
    Setting("compression.zstd.level", INT, 3, "Level when the broker compresses with zstd.", least=-131072, most=22,
            change=CLUSTER_WIDE),
    Setting("log.message.timestamp.type", STRING, "CreateTime", "Whose clock stamps records: the producer's or the log's.",
            allowed=("CreateTime", "LogAppendTime"), change=CLUSTER_WIDE),
    Setting("log.message.timestamp.before.max.ms", LONG, LONG_MAX,
            "How far before the broker's clock a producer's timestamp may lie.", least=0, change=CLUSTER_WIDE),
    Setting("log.message.timestamp.after.max.ms", LONG, LONG_MAX,
            "How far after the broker's clock a producer's timestamp may lie.", least=0, change=CLUSTER_WIDE),
    Setting("log.message.timestamp.difference.max.ms", LONG, LONG_MAX,
            "The older form of both; holds where they are not set.", least=0, change=CLUSTER_WIDE),
    Setting("log.message.format.version", STRING, "3.0-IV1", "Kafka's older record formats; only the newest is written.",
            later=True),
    Setting("log.message.downconversion.enable", BOOLEAN, True,
            "Converting records for fetches older than version 4; such fetches are not served.", change=CLUSTER_WIDE,
            later=True),
)

PRODUCERS = (
    Setting("producer.id.expiration.ms", INT, 86400000, "How long the state of an idle producer id is kept.", least=1,
            change=CLUSTER_WIDE),
    Setting("producer.id.expiration.check.interval.ms", INT, 600000, "How often expired producer ids are removed.",
            least=1, internal=True),
)

GROUPS = (
    ("Data directory", DIRECTORY),
    ("Segments", SEGMENTS),
    ("Retention", RETENTION),
    ("Flush and checkpoints", FLUSH),
    ("Compaction", CLEANER),
    ("Moves between log directories", MOVES),
    ("Records", RECORDS),
    ("Producer ids", PRODUCERS),
)
