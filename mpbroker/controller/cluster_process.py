"""The cluster's controller: a process of every broker of a cluster, one of which is elected. It holds nothing that the
store does not have; when it dies, or loses its session, another one is elected and tells everybody everything.

    candidate   waits until the key `controller` is gone, then tries to write it
    elected     loads the image of the store, follows its watch, runs the logic (mpbroker/cluster/), its transactions
                and its requests to brokers, and answers commands of handlers

While it is not elected, commands are answered with NOT_CONTROLLER, and topics that its own broker wants are asked for
from the one that is.
"""

import os
import select
import zlib
from contextlib import suppress
from random import Random
from typing import Any, Final

import msgspec

from mpbroker.channel.command_channel import CommandChannel
from mpbroker.cluster import events
from mpbroker.cluster.cluster_config import ClusterConfig
from mpbroker.cluster.cluster_controller import ClusterController
from mpbroker.cluster.cluster_image import ClusterImage
from mpbroker.controller.cluster_view import address_of
from mpbroker.controller.command_inbox import CommandInbox, Taken
from mpbroker.controller.control_sender import ControlSender
from mpbroker.controller.controller import new_topic_id
from mpbroker.controller.controller_figures import FiguresBoard
from mpbroker.controller.forwarded_topics import ForwardedTopics
from mpbroker.controller.state_change_file import StateChangeFile
from mpbroker.errors import ErrorCode
from mpbroker.metadata.broker_registration import owner_of
from mpbroker.metadata.commands import (
    MAX_ANSWER_BYTES,
    AlterConfigs,
    ControlAnswer,
    ControlRequest,
    CreateTopics,
    Failed,
    decode_command,
    encode_answer,
)
from mpbroker.metadata.controller_election import Elected, elect, resign
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import ClusterStore, Compacted, Session, StoreError, Watch
from mpbroker.metadata.open_store import open_cluster_store
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.headers import decode_request_header
from mpbroker.protocol.messages_by_key import REQUESTS
from mpbroker.protocol.types import Struct
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.cluster_table import held_payload
from mpbroker.shm.layout import SLOT_CLUSTER_CONTROLLER
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState

TURN_MS: Final = 250
TICK_MS: Final = 500
MAX_ROUNDS: Final = 100_000
"""Effects of one event that lead to further events: transactions, mostly."""
MARGIN_BYTES: Final = 256
NS_PER_MS: Final = 1_000_000


class ClusterProcess:
    """Everything but the loop. `term` None: a candidate."""

    def __init__(self, ctx: ProcessContext, store: ClusterStore, channel: CommandChannel) -> None:
        self._ctx = ctx
        self._config = ctx.config
        self._store = store
        self._channel = channel
        self._keys = Keys(ctx.cluster_id)
        self._clock = SystemClock()
        self._node_id = ctx.config.node_id
        self._session: Session | None = None
        self._incarnation = ""
        self._renewed_ms = 0
        self._ticked_ms = 0
        self._term: ClusterController | None = None
        self._elected: Elected | None = None
        self._watch: Watch | None = None
        self._figures = FiguresBoard(ctx.controller_fd)
        self._changes = StateChangeFile(ctx.data_dirs[0], ctx.config.mpbroker_state_change_log_bytes)
        self._is_undecided = True  # nobody knows who is elected: to be tried
        self._asked: dict[int, int | None] = {}  # command → version of the request it came as
        self._forwarded = ForwardedTopics(store, self._keys, self._node_id, lambda: self._config.end_points)
        self._sender = ControlSender(
            node_id=self._node_id,
            address=lambda record: address_of(record, self._config.end_points),
            answered=self._event,
            log=ctx.log,
            crash_point=ctx.core.crash_point,
        )

    def use_config(self, config: Any) -> None:
        """The broker's settings were read again; the next term has them."""
        self._config = config
        self._changes.most_bytes = config.mpbroker_state_change_log_bytes

    # ---- what the loop waits for

    def register(self, poll: "select.poll") -> None:
        """Descriptors."""
        if self._watch is not None:
            poll.register(self._watch.fileno(), select.POLLIN)
        self._sender.register(poll)
        self._forwarded.register(poll)

    def wait_ms(self) -> int:
        """The longest it may wait."""
        return min(TURN_MS, self._sender.wait_ms(self._clock.monotonic_ms()))

    # ---- a turn

    def turn(self) -> None:
        """Whatever is due."""
        now_ms = self._clock.monotonic_ms()
        for number, answer in self._forwarded.turn(now_ms):
            self._complete(number, encode_answer(answer))
        if self._ctx.core.state == BrokerState.DRAINING:
            self._leave()
            return
        self._keep_session(now_ms)
        self._follow(now_ms)
        if self._term is not None:
            if now_ms - self._ticked_ms >= TICK_MS:
                self._ticked_ms = now_ms
                self._event(events.Tick())
            if self._term is not None:
                self._sender.turn(self._term, now_ms, self._clock.wall_ms())
        self._figures.show(self._term, now_ms, self._clock.wall_ms())

    def _leave(self) -> None:
        """The broker stops: another one is elected while its last requests are answered."""
        self._end_term("the broker stops")
        self._close_watch()
        if self._session is not None:
            self._store.session_close(self._session)
            self._session = None

    def _keep_session(self, now_ms: int) -> None:
        if self._session is None:
            self._session = self._store.session_open(self._config.broker_session_timeout_ms, owner_of(self._node_id))
            self._renewed_ms = now_ms
        elif now_ms - self._renewed_ms >= self._config.broker_heartbeat_interval_ms:
            self._renewed_ms = now_ms
            if not self._store.session_renew(self._session):
                self._session = None
                self._end_term("the session has ended")

    def _follow(self, now_ms: int) -> None:
        """The store's watch; a candidate looks at one key only, to see when it goes."""
        if self._watch is None:
            self._watch = self._store.open_watch(self._keys.controller, self._store.revision() + 1)
            self._is_undecided = True
        try:
            batches = self._watch.take()
        except Compacted:
            self._close_watch()
            if self._term is not None:
                self._end_term("the store's history is gone")
            return
        if self._term is None:
            self._is_undecided |= any(event.entry is None for batch in batches for event in batch.events)
            if self._is_undecided:
                self._try()
            return
        for batch in batches:
            if self._term is not None:
                self._event(events.StoreBatch(batch.rev, batch.events))

    # ---- the term

    def _try(self) -> None:
        """Become the controller, if there is none. As long as the store does not say who is (StoreError, or it fails
        while its content is read), the next turn tries again: nobody else may be there to do it."""
        if self._session is None:
            return
        self._incarnation = self._incarnation or os.urandom(8).hex()
        outcome = elect(self._store, self._keys, self._node_id, self._incarnation, self._session)
        if not isinstance(outcome, Elected):
            self._is_undecided = False
            return
        self._ctx.core.crash_point("cluster_controller.elected")
        self._elected = outcome
        image = ClusterImage(self._keys)
        rev = outcome.rev
        for page in self._store.scan(self._keys.prefix):
            image.load(page.rev, page.entries)
            rev = page.rev
        self._close_watch()
        self._watch = self._store.open_watch(self._keys.prefix, rev + 1)
        self._term = ClusterController(
            node_id=self._node_id,
            epoch=outcome.epoch,
            config=self._cluster_config(),
            image=image,
            guard=outcome.guard,
            max_operations=min(120, self._store.limits.max_ops),
            new_id=new_topic_id,
            random=Random(),
        )
        self._is_undecided = False
        self._ctx.log.info("controller_elected", epoch=outcome.epoch, node=self._node_id)
        self._begin(self._term)

    def _begin(self, term: ClusterController) -> None:
        """Brokers hear of the new controller and of what it knows before its elections, as from Kafka's: with many
        partitions these are many transactions."""
        effects = term.start(self._clock.wall_ms())
        self._carry_out([effect for effect in effects if isinstance(effect, events.Log)])
        self._sender.turn(term, self._clock.monotonic_ms(), self._clock.wall_ms())
        self._carry_out([effect for effect in effects if not isinstance(effect, events.Log)])

    def _cluster_config(self) -> ClusterConfig:
        config = self._config
        return ClusterConfig(
            num_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            unclean_leader_election_enable=config.unclean_leader_election_enable,
            auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
            leader_imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
            leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
            delete_topic_enable=config.delete_topic_enable,
            inter_broker_listener_name=config.end_points.inter_broker,
            log_partitions=config.mpbroker_state_change_log_bytes > 0,
        )

    def _event(self, event: Any) -> None:
        if self._term is not None:
            self._carry_out(self._term.event(event, self._clock.wall_ms()))

    def _carry_out(self, effects: list[Any]) -> None:
        """In their order; what a transaction comes to leads to further effects. A store that does not answer ends the
        term: whoever is elected next begins with what the store has then."""
        try:
            self._carry_out_in_order(effects)
        except StoreError as error:
            self._end_term(f"the store does not answer: {error}")
        self._changes.flush()

    def _carry_out_in_order(self, effects: list[Any]) -> None:
        waiting = list(effects)
        for _ in range(MAX_ROUNDS):
            if not waiting:
                return
            term = self._term
            effect = waiting.pop(0)
            match effect:
                case events.Txn(tag, checks, ops) if term is not None:
                    self._sender.push()
                    outcome = self._store.txn(checks, ops, tag=tag)
                    self._ctx.core.crash_point("cluster_controller.committed")
                    waiting += term.event(events.TxnDone(tag, outcome), self._clock.wall_ms())
                case events.Read(tag, keys) if term is not None:
                    found = {key: self._store.get(key)[1] for key in keys}
                    waiting += term.event(events.ReadDone(tag, found), self._clock.wall_ms())
                case events.Reply(number, message):
                    self._reply(number, message)
                case events.Log(level, event, fields):
                    self._say(level, event, fields)
                case events.Resign(reason):
                    self._end_term(reason)
        self._end_term(f"more than {MAX_ROUNDS} steps for one event")

    def _say(self, level: str, event: str, fields: dict[str, Any]) -> None:
        self._changes.add(level, event, fields)
        if level == "INFO":
            self._ctx.log.info(event, **fields)

    def _end_term(self, reason: str) -> None:
        """A candidate again, in a term of its own."""
        if self._term is None:
            return
        self._ctx.log.warning("controller_resigned", reason=reason, epoch=self._elected.epoch if self._elected else -1)
        self._term = None
        self._sender.close()
        for number in list(self._asked):
            self._complete(number, encode_answer(Failed(ErrorCode.NOT_CONTROLLER)))
        elected, incarnation = self._elected, self._incarnation
        self._elected, self._incarnation = None, ""
        self._close_watch()
        if elected is not None:
            with suppress(StoreError):  # then the key goes with the session
                resign(self._store, self._keys, elected, self._node_id, incarnation)

    def _close_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._watch = None

    # ---- commands

    def command(self, taken: Taken) -> None:
        """A handler's command: to the logic, or refused."""
        try:
            command: Any = decode_command(taken.payload)
            version = None
            if isinstance(command, ControlRequest):
                payload = held_payload(self._ctx.core, command.entry, command.fill_number)
                if payload is None:
                    self._complete(taken.number, encode_answer(ControlAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)))
                    return
                header = decode_request_header(payload)
                version = header.api_version
                command = decode(REQUESTS[header.api_key], version, payload, header.body_offset)
        except msgspec.DecodeError as error:
            self._complete(taken.number, encode_answer(Failed(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))))
            return
        if self._term is not None:
            self._asked[taken.number] = version
            waited_ms = (self._clock.monotonic_ns() - taken.taken_ns) // NS_PER_MS
            self._term.metrics.event_queue_time.add(max(0, waited_ms))
            self._event(events.Request(taken.number, command))
        elif isinstance(command, AlterConfigs) or (isinstance(command, CreateTopics) and command.forward):
            self._forwarded.add(taken.number, command)
        else:
            failed = Failed(ErrorCode.NOT_CONTROLLER) if version is None else ControlAnswer(ErrorCode.NOT_CONTROLLER)
            self._complete(taken.number, encode_answer(failed))

    def _reply(self, number: int, message: Any) -> None:
        if number not in self._asked:
            return
        version = self._asked[number]
        if version is None:
            self._complete(number, encode_answer(message))
            return
        assert isinstance(message, Struct)
        body = zlib.compress(encode(message, version), 1)
        if len(body) > MAX_ANSWER_BYTES - MARGIN_BYTES:
            self._complete(number, encode_answer(ControlAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)))
            return
        self._complete(number, encode_answer(ControlAnswer(0, body=body)))

    def _complete(self, number: int, answer: bytes) -> None:
        self._asked.pop(number, None)
        self._channel.complete(number, answer, self._ctx.core.metadata_generation)

    def close(self) -> None:
        """The orderly end: another one is elected at once."""
        self._leave()
        self._forwarded.close()
        self._changes.close()
        self._store.close()


def main(ctx: ProcessContext) -> None:
    """Process main."""
    place = ctx.config.cluster_store
    assert place is not None, "a broker by itself has no such process"
    channel = CommandChannel(ctx.core, SLOT_CLUSTER_CONTROLLER)
    process = ClusterProcess(ctx, open_cluster_store(place), channel)
    inbox = CommandInbox(channel, ctx.stop_requested)
    inbox.start()
    ctx.running()
    while not ctx.stop_requested():
        poll = select.poll()
        for fd in (inbox.fileno(), ctx.wakeup_fd):
            poll.register(fd, select.POLLIN)
        process.register(poll)
        poll.poll(process.wait_ms())
        ctx.drain_wakeups()
        config = ctx.take_reload()
        if config is not None:
            process.use_config(config)
        try:
            for taken in inbox.take():
                process.command(taken)
            process.turn()
        except StoreError as error:
            ctx.log.warning("store_unavailable", problem=str(error))
        ctx.process_row.beat()
    process.close()
