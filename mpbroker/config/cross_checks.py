"""Rules between settings: what no single row of the table can say. Pure; run once when a BrokerConfig is built.

Each rule yields a ConfigError for everything that breaks it, so that one start names them all.
"""

from collections.abc import Iterator

from mpbroker.config.broker_config import DISCIPLINE, ONE_CLASS, BrokerConfig
from mpbroker.config.group_table import GROUP_SETTINGS, HEARTBEAT, SESSION
from mpbroker.config.kinds import Kind
from mpbroker.config.limits import (
    COORDINATORS,
    DEFAULT_ENTRIES,
    LARGEST_ANSWER_BYTES,
    LEAST_DASHCAM_BYTES,
    LEAST_PROCESSOR_ARENA_BYTES,
    MAX_ENTRIES,
    MAX_HANDLERS,
    MAX_PROCESSORS,
    MIN_HANDLER_ARENA_BYTES,
)
from mpbroker.config.message_format import is_message_format_version
from mpbroker.config.table import locate
from mpbroker.errors import ConfigError


def check_together(config: BrokerConfig, listeners_known: bool = True) -> list[ConfigError]:
    """Every rule that does not hold; without those on listeners when theirs could not be read."""
    rules = (*_LISTENER_RULES, *_RULES) if listeners_known else _RULES
    return [error for rule in rules for error in rule(config)]


def _listener_prefixes(config: BrokerConfig) -> Iterator[ConfigError]:
    names = [end_point.listener_name for end_point in config.end_points.all]
    static = config.texts
    for name, text in config.dynamic.over(static).items():
        located = locate(name)
        if located is None or not located.listener:
            continue
        if located.listener not in names:
            if name not in static:  # of a listener that may be added yet, or was removed
                continue
            problem = f"{name}: there is no listener {located.listener}; the listeners are {', '.join(names)}"
            yield ConfigError(name, text, problem=problem)
        elif located.setting.kind is not Kind.STRING and config.value(name) < 1:
            yield ConfigError(name, text, "a whole number, at least 1")


def _disciplines(config: BrokerConfig) -> Iterator[ConfigError]:
    """Handlers serve all data listeners, so they choose by one discipline; its class 0 takes in who keeps `fifo`."""
    chosen = {name: config.queue_discipline(name) for name in (one.listener_name for one in config.end_points.data)}
    several = {discipline for discipline in chosen.values() if discipline not in ONE_CLASS}
    if len(several) > 1:
        shown = ", ".join(f"{name} has {discipline}" for name, discipline in chosen.items())
        given = config.value(DISCIPLINE)
        rule = "beside fifo and plane, listeners can share one discipline only"
        yield ConfigError(DISCIPLINE, given, problem=f"{DISCIPLINE}={given}: {shown}; {rule}")


def _slots(config: BrokerConfig) -> Iterator[ConfigError]:
    processors = sum(config.processors(end_point.listener_name) for end_point in config.end_points.all)
    if processors > MAX_PROCESSORS:
        yield ConfigError(
            "num.network.threads",
            config.num_network_threads,
            problem=f"num.network.threads={config.num_network_threads} makes {processors} processors over all "
            f"listeners; {MAX_PROCESSORS} are possible",
        )
    if config.num_io_threads + config.reserved_handlers > MAX_HANDLERS - COORDINATORS:
        yield ConfigError(
            "num.io.threads",
            config.num_io_threads,
            f"at most {MAX_HANDLERS - COORDINATORS} together with mpbroker.control.reserved.handlers "
            f"({config.reserved_handlers})",
        )
    entries = config.mpbroker_entries_per_processor
    if entries > DEFAULT_ENTRIES and processors * entries > MAX_ENTRIES:
        yield ConfigError(
            "mpbroker.entries.per.processor",
            entries,
            f"at most {MAX_ENTRIES // processors} with {processors} processors",
        )


def _request_memory(config: BrokerConfig) -> Iterator[ConfigError]:
    largest = config.socket_request_max_bytes
    if 0 < config.queued_max_request_bytes < largest:
        yield ConfigError(
            "queued.max.request.bytes",
            config.queued_max_request_bytes,
            f"-1, or at least socket.request.max.bytes ({largest})",
        )
    if 0 <= config.mpbroker_arena_bytes_per_processor < max(largest, LEAST_PROCESSOR_ARENA_BYTES):
        yield ConfigError(
            "mpbroker.arena.bytes.per.processor",
            config.mpbroker_arena_bytes_per_processor,
            f"-1, or at least socket.request.max.bytes ({largest}) and {LEAST_PROCESSOR_ARENA_BYTES}",
        )
    for name, size in (("socket.request.max.bytes", largest), ("fetch.max.bytes", config.fetch_max_bytes)):
        if size > LARGEST_ANSWER_BYTES:  # what could be written could never be read back
            yield ConfigError(name, size, f"at most {LARGEST_ANSWER_BYTES}: one response holds no more")


def _answer_memory(config: BrokerConfig) -> Iterator[ConfigError]:
    handlers = config.num_io_threads + config.reserved_handlers + COORDINATORS
    least = handlers * MIN_HANDLER_ARENA_BYTES
    if 0 <= config.mpbroker_answer_memory_bytes < least:
        yield ConfigError(
            "mpbroker.answer.memory.bytes",
            config.mpbroker_answer_memory_bytes,
            f"-1, or at least {least}: {MIN_HANDLER_ARENA_BYTES} for each of {handlers} processes that answer",
        )


def _dashcam(config: BrokerConfig) -> Iterator[ConfigError]:
    if 0 < config.mpbroker_trace_dashcam_bytes < LEAST_DASHCAM_BYTES:
        yield ConfigError(
            "mpbroker.trace.dashcam.bytes", config.mpbroker_trace_dashcam_bytes, f"0, or at least {LEAST_DASHCAM_BYTES}"
        )


def _connections(config: BrokerConfig) -> Iterator[ConfigError]:
    if config.max_connections_per_ip == 0 and not config.connection_overrides:
        yield ConfigError(
            "max.connections.per.ip", 0, "at least 1, unless max.connections.per.ip.overrides names addresses"
        )
    if config.connection_failed_authentication_delay_ms >= config.connections_max_idle_ms:
        yield ConfigError(
            "connection.failed.authentication.delay.ms",
            config.connection_failed_authentication_delay_ms,
            f"less than connections.max.idle.ms ({config.connections_max_idle_ms})",
        )


def _retention(config: BrokerConfig) -> Iterator[ConfigError]:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if config.value(name) == 0:
            yield ConfigError(name, 0, "-1 (never delete), or at least 1")


def _compaction(config: BrokerConfig) -> Iterator[ConfigError]:
    least, most = config.log_cleaner_min_compaction_lag_ms, config.log_cleaner_max_compaction_lag_ms
    if least > most:
        yield ConfigError(
            "log.cleaner.min.compaction.lag.ms", least, f"at most log.cleaner.max.compaction.lag.ms ({most})"
        )


def _formats(config: BrokerConfig) -> Iterator[ConfigError]:
    if config.compression_gzip_level == 0:
        yield ConfigError("compression.gzip.level", 0, "-1, or 1 to 9")
    if not is_message_format_version(config.log_message_format_version):
        yield ConfigError(
            "log.message.format.version",
            config.log_message_format_version,
            "a version of Kafka up to 3.9, such as 2.8 or 3.0-IV1",
        )


def _replication(config: BrokerConfig) -> Iterator[ConfigError]:
    wait = config.replica_fetch_wait_max_ms
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if wait > config.value(name):
            yield ConfigError("replica.fetch.wait.max.ms", wait, f"at most {name} ({config.value(name)})")


def _groups(config: BrokerConfig) -> Iterator[ConfigError]:
    """What holds for groups without settings of their own is within the bounds of those that have some."""
    for row in GROUP_SETTINGS.values():
        least, most = row.bounds
        for name, low, high in ((most, least, most), (row.broker, least, row.broker), (row.broker, row.broker, most)):
            if config.value(low) > config.value(high):
                other, word = (low, "least") if name == high else (high, "most")
                yield ConfigError(name, config.value(name), f"at {word} {other} ({config.value(other)})")
    if config.value(SESSION.broker) <= config.value(HEARTBEAT.broker):
        session = config.value(SESSION.broker)
        yield ConfigError(HEARTBEAT.broker, config.value(HEARTBEAT.broker), f"less than {SESSION.broker} ({session})")


_LISTENER_RULES = (_listener_prefixes, _slots, _disciplines)
_RULES = (
    _request_memory,
    _answer_memory,
    _dashcam,
    _connections,
    _retention,
    _compaction,
    _formats,
    _replication,
    _groups,
)
