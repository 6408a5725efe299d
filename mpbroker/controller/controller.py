"""The controller process: takes commands of request handlers, one at a time, and carries them out.

The only writer of topics, topic settings and producer-id blocks. At start it makes shared memory and directories agree
with the store (controller_recovery), then it serves. A command that fails for a reason of our own is answered with
error -1 and everything is read again from the store; if even that fails the process ends and its successor starts over.
"""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Final

import msgspec

from mpbroker.channel.command_channel import CommandChannel
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.topic_config import effective
from mpbroker.controller.broker_settings import BrokerSettings, Room
from mpbroker.controller.config_manager import ConfigManager
from mpbroker.controller.controller_recovery import ControllerRecovery
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.controller.feature_manager import FeatureManager
from mpbroker.controller.moves import Moves
from mpbroker.controller.open_logs import build_logs
from mpbroker.controller.partition_logs import PartitionLogs
from mpbroker.controller.partition_rows import PartitionRows
from mpbroker.controller.store_check import check_store
from mpbroker.controller.topic_deletion import TopicDeletions
from mpbroker.controller.topic_manager import TopicManager
from mpbroker.errors import ConfigError, ErrorCode
from mpbroker.log import unusable
from mpbroker.log.log_manager import open_log
from mpbroker.log.removed_files import RemovedFiles
from mpbroker.metadata.commands import (
    AllocateProducerIds,
    AlterConfigs,
    Answer,
    Command,
    ControlAnswer,
    ControlRequest,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Failed,
    ProducerIds,
    TopicResult,
    TopicResults,
    UpdateFeatures,
    decode_command,
    encode_answer,
)
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import StoreError, StoreTooNew
from mpbroker.metadata.metadata_snapshot import MetadataSnapshot
from mpbroker.metadata.sqlite_store import SqliteStore, left_log
from mpbroker.metadata.store_peek import STORE_FILE
from mpbroker.metadata.topic_validation import Defaults
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.core import Core
from mpbroker.shm.events import Events
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessState, WaitName
from mpbroker.shm.shared_pages import release_library_pages

WAIT_MS: Final = 500


class Controller:
    """Everything the controller does, without its loop.

    `new_id()`: 16 random bytes; `count(name)`: a counter; `crash_point(name)`: where tests kill it;
    `publish(settings)`: hands brokers' dynamic settings to the supervisor.
    """

    def __init__(
        self,
        *,
        core: Core,
        config: BrokerConfig,
        store: ControllerStore,
        logs: PartitionLogs,
        now_ms: Callable[[], int],
        new_id: Callable[[], bytes],
        log: Events,
        count: Callable[[str], object],
        crash_point: Callable[[str], object],
        publish: Callable[[DynamicSettings], object] = lambda settings: None,
    ) -> None:
        self._core = core
        self._crash_point = crash_point
        self._publish = publish
        self._room = Room(core.processor_count, core.handler_count - (core.coordinator >= 0))
        self._config = config
        self._store = store
        self._logs = logs
        self._now_ms = now_ms
        self._new_id = new_id
        self._log = log
        self._count = count
        self._snapshot = MetadataSnapshot(core)
        self._rows = PartitionRows(core)
        self._deletions = TopicDeletions(store, self._snapshot, self._rows, logs, crash_point, log)

    def recover(self) -> None:
        """Make everything agree with the store; before the first command, and after a failure."""
        recovery = ControllerRecovery(
            store=self._store,
            snapshot=self._snapshot,
            rows=self._rows,
            logs=self._logs,
            deletions=self._deletions,
            settings_of=lambda configs: effective(configs, self._config),
            log=self._log,
            crash_point=self._crash_point,
            count=self._count,
        )
        context = recovery.run()
        brokers = BrokerSettings(store=self._store, config=lambda: self._config, publish=self._publish, room=self._room)
        brokers.announce()
        self._features = FeatureManager(
            core=self._core,
            store=self._store,
            node_id=self._config.node_id,
            crash_point=self._crash_point,
            log=self._log,
        )
        self._configs = ConfigManager(
            context=context,
            store=self._store,
            snapshot=self._snapshot,
            brokers=brokers,
            crash_point=self._crash_point,
            log=self._log,
        )
        self._moves = Moves(
            context=context,
            store=self._store,
            rows=self._rows,
            logs=self._logs,
            moves=lambda: self._core.moves,
            log=self._log,
            count=self._count,
        )
        self._moves.resume()
        self._topics = TopicManager(
            context=context,
            store=self._store,
            snapshot=self._snapshot,
            rows=self._rows,
            logs=self._logs,
            deletions=self._deletions,
            brokers=[self._config.node_id],
            new_id=self._new_id,
            now_ms=self._now_ms,
            crash_point=self._crash_point,
            count=self._count,
            log=self._log,
        )

    def close(self) -> None:
        """The orderly end: the store is left in one file."""
        self._store.close()

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's settings were read again."""
        self._config = config

    def execute(self, payload: bytes, operation: int) -> bytes:
        """Carry out an encoded command and return the encoded answer; the first answer if it was carried out before."""
        known = self._store.answer_of(operation)
        if known is not None:
            return known
        try:
            command = decode_command(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return encode_answer(Failed(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        try:
            return encode_answer(self._run(command, operation))
        except Exception as error:  # whatever it was: the store says what is true now
            self._log.exception("controller_command_failed", error, command=type(command).__name__)
            self.recover()
            known = self._store.answer_of(operation)
            return known if known is not None else encode_answer(_failure(command))

    def _run(self, command: Command, operation: int) -> Answer:
        match command:
            case CreateTopics():
                defaults = Defaults(self._config.num_partitions, self._config.default_replication_factor)
                return self._topics.create_topics(command, defaults, operation)
            case CreatePartitions():
                return self._topics.create_partitions(command, operation)
            case DeleteTopics():
                return self._topics.delete_topics(command, self._config.delete_topic_enable, operation)
            case AlterConfigs():
                return self._configs.alter(command, operation)
            case UpdateFeatures():
                return self._features.update(command, operation)
            case AllocateProducerIds():
                return self._topics.allocate_producer_ids()
            case ControlRequest():
                return ControlAnswer(ErrorCode.NOT_CONTROLLER)  # nobody sends one to a broker that is alone

    def note_moves(self) -> None:
        """Partitions that were moved to another log directory: the store knows it soon afterwards."""
        self._moves.note()

    def tidy(self) -> None:
        """Between commands: finish deletions that had to wait."""
        if self._deletions.pending:
            self._deletions.finish_all()

    def close_stale(self) -> None:
        """Give descriptors of removed files back."""
        self._logs.close_stale()


def _failure(command: Command) -> Answer:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    match command:
        case AllocateProducerIds():
            return ProducerIds(error_code=code)
        case ControlRequest():
            return ControlAnswer(code)
        case DeleteTopics(names):
            pass
        case CreateTopics(topics) | CreatePartitions(topics):
            names = [topic.name for topic in topics]
        case UpdateFeatures(updates):
            names = [update.name for update in updates]
        case AlterConfigs(resources):
            return TopicResults([TopicResult(resource.name, code) for resource in resources], code)
    return TopicResults([TopicResult(name, code) for name in dict.fromkeys(names)], code)


def serve_one(
    controller: Controller,
    channel: CommandChannel,
    generation: Callable[[], int],
    wait_ms: int,
    crash_point: Callable[[str], object],
) -> bool:
    """Wait for a command and answer it; False: none came. The snapshot shows the change before the answer is given."""
    claimed = channel.claim(wait_ms)
    if claimed is None:
        controller.tidy()
        return False
    number, operation, payload = claimed
    answer = controller.execute(payload, operation)
    crash_point("controller.answer_ready")
    channel.complete(number, answer, generation())
    crash_point("controller.answered")
    return True


def build_controller(ctx: ProcessContext) -> Controller:
    """The controller of a process, with its store and logs opened after the fork."""
    data_dir, clock, row = ctx.data_dirs[0], SystemClock(), ctx.process_row
    keys, kv = Keys(ctx.cluster_id), open_store(os.path.join(data_dir, STORE_FILE))
    try:
        check_store(kv, keys, data_dir, lambda configs: effective(configs, ctx.config))
    except BaseException:
        kv.close()  # or the start that is refused leaves SQLite's files beside it
        raise
    store = ControllerStore(
        kv,
        keys,
        ctx.core.boot_id,
        waiting=lambda begins: row.set_wait(WaitName.METASTORE if begins else WaitName.NONE),
    )
    logs = build_logs(ctx, open_log(ctx))
    return Controller(
        core=ctx.core,
        config=ctx.config,
        store=store,
        logs=logs,
        now_ms=clock.wall_ms,
        new_id=new_topic_id,
        log=ctx.log,
        count=row.count,
        crash_point=ctx.core.crash_point,
        publish=ctx.publish_settings,
    )


def open_store(path: str) -> SqliteStore:
    """The metadata store. ConfigError when the file is none: that ends a start, with one sentence."""
    try:
        return SqliteStore(path)
    except StoreTooNew as error:
        raise ConfigError("log.dirs", path, problem=str(error)) from error
    except StoreError as error:
        if unusable.is_full(path):
            raise unusable.no_space(path) from error
        raise ConfigError(
            "log.dirs", path, f"a metadata store that can be read ({error}); put a copy of it back"
        ) from error


def main(ctx: ProcessContext) -> None:
    """Process main: recover, say that it serves, carry out commands until asked to stop. In a broker of a cluster: the
    agent (agent.py)."""
    if ctx.config.cluster_store is not None:
        import_module("mpbroker.controller.agent_process").main(ctx)  # a broker that is alone needs none of it
        return
    core, row = ctx.core, ctx.process_row
    row.set_state(ProcessState.RECOVERING)
    controller = build_controller(ctx)
    removed_files = RemovedFiles(controller, SystemClock())
    controller.recover()
    channel = CommandChannel(core)
    channel.recover()
    ctx.running()
    release_library_pages()
    while not ctx.stop_requested():
        serve_one(controller, channel, lambda: core.metadata_generation, WAIT_MS, core.crash_point)
        row.beat()
        controller.note_moves()
        removed_files.give_back()
        config = ctx.take_reload()
        if config is not None:
            controller.use_config(config)
    controller.close()
    say_left_log(ctx.data_dirs[0], ctx.log)


def say_left_log(data_dir: str, log: Events) -> None:
    """A line if the store is not in one file: who copies that one alone has no topics."""
    left = left_log(os.path.join(data_dir, STORE_FILE))
    if left:
        log.warning(
            "metadata_left_in_wal",
            file=left,
            why="another process was reading the store, or the disk is full",
            remedy="copy or move it only together with the store; the next start takes it in",
        )


def new_topic_id() -> bytes:
    """A random id (UUID version 4)."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)
