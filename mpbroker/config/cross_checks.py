"""Rules between settings: what no single row of the table can say. Pure; run once when a BrokerConfig is built."""

from typing import TYPE_CHECKING

from mpbroker.config.message_format import is_message_format_version
from mpbroker.config.table import locate
from mpbroker.errors import ConfigError

if TYPE_CHECKING:
    from mpbroker.config.broker_config import BrokerConfig

MAX_PROCESSORS = 32  # slots of the process table (native/shm/layout.h)
MAX_HANDLERS = 64
MAX_ENTRIES = 2**17  # an entry's index has 17 bits in a hint
HANDLER_ARENA_BYTES = 256 << 20  # memory for answers of one request handler (shm.layout)
LARGEST_ANSWER_BYTES = HANDLER_ARENA_BYTES - (1 << 20)  # records of one; the rest is for what stands around them


def check_together(config: "BrokerConfig") -> None:
    """ConfigError for the first rule that does not hold."""
    for rule in _RULES:
        rule(config)


def _listener_prefixes(config: "BrokerConfig") -> None:
    names = [end_point.listener_name for end_point in config.end_points.all]
    for name, text in config._texts.items():
        located = locate(name)
        if located is None or not located.listener:
            continue
        if located.listener not in names:
            raise ConfigError(name, text, f"the name of a listener there is: {', '.join(names)}")
        if config.value(name) < 1:
            raise ConfigError(name, text, "a whole number, at least 1")


def _slots(config: "BrokerConfig") -> None:
    processors = sum(config.processors(end_point.listener_name) for end_point in config.end_points.all)
    if processors > MAX_PROCESSORS:
        raise ConfigError(
            "num.network.threads",
            config.num_network_threads,
            f"at most {MAX_PROCESSORS} processors over all listeners (this makes {processors})",
        )
    if config.num_io_threads + config.reserved_handlers > MAX_HANDLERS:
        raise ConfigError(
            "num.io.threads",
            config.num_io_threads,
            f"at most {MAX_HANDLERS} together with mpbroker.control.reserved.handlers",
        )
    if processors * config.mpbroker_entries_per_processor > MAX_ENTRIES:
        raise ConfigError(
            "mpbroker.entries.per.processor",
            config.mpbroker_entries_per_processor,
            f"at most {MAX_ENTRIES // processors} with {processors} processors",
        )


def _request_memory(config: "BrokerConfig") -> None:
    largest = config.socket_request_max_bytes
    if 0 < config.queued_max_request_bytes < largest:
        raise ConfigError(
            "queued.max.request.bytes",
            config.queued_max_request_bytes,
            f"-1, or at least socket.request.max.bytes ({largest})",
        )
    if config.mpbroker_arena_bytes_per_processor < largest:
        raise ConfigError(
            "mpbroker.arena.bytes.per.processor",
            config.mpbroker_arena_bytes_per_processor,
            f"at least socket.request.max.bytes ({largest})",
        )
    for name, size in (("socket.request.max.bytes", largest), ("fetch.max.bytes", config.fetch_max_bytes)):
        if size > LARGEST_ANSWER_BYTES:  # what could be written could never be read back
            raise ConfigError(name, size, f"at most {LARGEST_ANSWER_BYTES}, what one answer can hold")


def _connections(config: "BrokerConfig") -> None:
    if config.max_connections_per_ip == 0 and not config.connection_overrides:
        raise ConfigError(
            "max.connections.per.ip", 0, "at least 1 unless max.connections.per.ip.overrides has addresses"
        )
    if config.connection_failed_authentication_delay_ms >= config.connections_max_idle_ms:
        raise ConfigError(
            "connection.failed.authentication.delay.ms",
            config.connection_failed_authentication_delay_ms,
            f"less than connections.max.idle.ms ({config.connections_max_idle_ms})",
        )


def _retention(config: "BrokerConfig") -> None:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if config.value(name) == 0:
            raise ConfigError(name, 0, "-1 (never delete), or at least 1")


def _compaction(config: "BrokerConfig") -> None:
    least, most = config.log_cleaner_min_compaction_lag_ms, config.log_cleaner_max_compaction_lag_ms
    if least > most:
        raise ConfigError(
            "log.cleaner.min.compaction.lag.ms", least, f"at most log.cleaner.max.compaction.lag.ms ({most})"
        )


def _formats(config: "BrokerConfig") -> None:
    if config.compression_gzip_level == 0:
        raise ConfigError("compression.gzip.level", 0, "-1, or 1 to 9")
    if not is_message_format_version(config.log_message_format_version):
        raise ConfigError(
            "log.message.format.version",
            config.log_message_format_version,
            "a version of Kafka up to 3.9, such as 2.8 or 3.0-IV1",
        )


def _replication(config: "BrokerConfig") -> None:
    wait = config.replica_fetch_wait_max_ms
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if wait > config.value(name):
            raise ConfigError("replica.fetch.wait.max.ms", wait, f"at most {name} ({config.value(name)})")


_RULES = (_listener_prefixes, _slots, _request_memory, _connections, _retention, _compaction, _formats, _replication)
