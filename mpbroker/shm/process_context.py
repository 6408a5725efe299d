"""What a worker process is given: `main(ctx)` of every role takes one ProcessContext; made by the supervisor before
fork.

The context is plain data of one process. Signal handlers set its flags and nothing else; the work loop reads them.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.shm import settings_board
from mpbroker.shm.clock import Began
from mpbroker.shm.core import Core
from mpbroker.shm.events import Events
from mpbroker.shm.process_table import ProcessRow, ProcessState

if TYPE_CHECKING:
    from mpbroker.shm.page_view import PageView

MAX_CONFIG_BYTES = 4 << 20
_READ_TRIES, _READ_AGAIN_S = 20, 0.002  # while the supervisor writes what it publishes
_ONE = (1).to_bytes(8, "little")
_GIVEN = frozenset({"core", "config", "process_row", "log"})  # attributes without a default


class BoundListener(NamedTuple):
    """A listener with the ports it really has. `control`: it is the control plane's; `removed`: it was one, and
    requests of its connections may still be under way."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    name: str
    protocol: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    control: bool
    removed: bool = False

    @property
    def url(self) -> str:
        """NAME://HOST:PORT as bound; a listener on every interface shows 0.0.0.0 or ::."""
        host = self.host or "0.0.0.0"
        return f"{self.name}://[{host}]:{self.port}" if ":" in host else f"{self.name}://{host}:{self.port}"


class ProcessContext:
    """One worker's surroundings.

    core         all shared memory
    config       BrokerConfig in force when this process was forked
    role, index  what it is, e.g. ("handler", 1); `slot` its number in the process table, `process_row` that row
    incarnation  how often this slot was forked; 1 for the first process
    boot_secret  random bytes of this start that no client sees: member ids are made from them
    listeners    every BoundListener, by index, those that were removed included; a reload renews them. `listener`: the
                 index of its own (processor) or None
    listen_socket  admin: the listening socket
    listen_sockets, listener_channel  acceptor: the sockets of the listeners that there were when it was forked, by
                 index; where further ones come from (network/listener_passing.py)
    processors   acceptor: indexes of each listener's processors, in round-robin order; a reload renews them
    handovers    socketpair ends to the acceptor (processor: one) or to processors (acceptor: by processor index, also
                 those that may come)
    eventfds     one per processor: written to wake it
    lanes        names of the trace lanes, by processor index
    trace_notices_fd  the pipe of trace/notice.py: its writing end (processors), its reading end (tracer), or -1
    trace_bell_fd  an eventfd that processors write when a lane becomes half full, for the tracer; -1: no traces
    names        every name in /dev/shm of this broker, for the tracer to unlink when the supervisor is gone
    data_dirs    log.dirs as absolute paths, and the directory.id of each; an offline one may have none
    roles, judge admin: names of roles by number; what is not well with the broker, from its page
    began        when the broker was started; None: not known
    may_trace    tracer: False while what is left on a full disk is not for traces
    log          this process's lines
    """

    core: Core
    config: BrokerConfig
    process_row: ProcessRow
    log: Events

    def __init__(self, **fields: Any) -> None:
        self.role = ""
        self.index = 0
        self.slot = 0
        self.incarnation = 0
        self.boot_id = 0
        self.boot_secret = b""
        self.cluster_id = ""
        self.listeners: tuple[BoundListener, ...] = ()
        self.listener: int | None = None
        self.listen_socket: socket.socket | None = None
        self.listen_sockets: Mapping[int, socket.socket] = {}
        self.listener_channel: socket.socket | None = None
        self.processors: Mapping[int, tuple[int, ...]] = {}
        self.handovers: dict[int, socket.socket] = {}
        self.eventfds: tuple[int, ...] = ()
        self.lanes: tuple[str, ...] = ()
        self.trace_notices_fd = -1
        self.trace_bell_fd = -1
        self.names: tuple[str, ...] = ()
        self.data_dirs: tuple[str, ...] = ()
        self.directory_ids: tuple[str, ...] = ()
        self.may_trace: Callable[[], bool] = lambda: True
        self.roles: dict[int, str] = {}
        self.judge: Callable[[PageView], Sequence[Any]] = lambda page: ()
        self.api_versions: dict[int, tuple[int, int]] = {}  # api key → oldest and newest version served
        self.supervisor_pid = 0
        self.began: Began | None = None
        self.notice_fd = -1
        self.config_fd = -1
        self.settings_fd = -1  # the board of settings_board.py
        self.controller_fd = -1  # the board of controller_board.py, in a cluster only
        self.wakeup_fd = -1  # readable after a signal: put it into the epoll set
        self._wakeup_write: int | None = None
        self.stopping = False
        self.reloading = False
        for name, value in fields.items():
            if name not in self.__dict__ and name not in _GIVEN:
                raise AttributeError(f"a process context has no {name}")
            setattr(self, name, value)

    def install_signals(self) -> None:
        """Set this process's handlers: SIGTERM and SIGHUP set flags, SIGINT belongs to the supervisor."""
        self.wakeup_fd, self._wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def stop_requested(self) -> bool:
        """Whether SIGTERM came: finish what is in hand and return from main."""
        return self.stopping

    @property
    def serves_control_plane(self) -> bool:
        """Whether this is the acceptor of a broker with a control plane, the processor of that listener, or a handler
        reserved for it."""
        if self.role == "handler":
            return self.index < self.config.reserved_handlers
        if self.role == "acceptor":
            return any(listener.control for listener in self.listeners)
        return self.listener is not None and self.listeners[self.listener].control

    def supervisor_gone(self) -> bool:
        """Whether the supervisor died; a process that outlives it (the tracer) ends soon."""
        return os.getppid() != self.supervisor_pid

    def drain_wakeups(self) -> None:
        """Empty the signal pipe after it made epoll return."""
        try:
            while os.read(self.wakeup_fd, 512):
                pass
        except BlockingIOError:
            pass

    def running(self) -> None:
        """This process serves now: says so in the process table and to the supervisor, which may wait for it."""
        self.process_row.running()
        os.write(self.notice_fd, _ONE)

    def take_reload(self) -> BrokerConfig | None:
        """The new BrokerConfig if one was announced since the last call, else None; also becomes `self.config`."""
        if not self.reloading:
            return None
        self.reloading = False
        self.config = self._read_config()
        if self.log is not None:  # tests that step a process have none
            self.log.use_config(self.config)
        return self.config

    def renew_listeners(self) -> tuple[BoundListener, ...]:
        """The listeners as the supervisor published them last, for who meets one that it does not know yet."""
        if os.fstat(self.config_fd).st_size:
            self.listeners = tuple(BoundListener(*each) for each in self._published()["listeners"])
        return self.listeners

    def _published(self) -> Any:
        """What the supervisor published last. It may be writing: then it is read again."""
        for _ in range(_READ_TRIES):
            try:
                return json.loads(os.pread(self.config_fd, MAX_CONFIG_BYTES, 0))
            except ValueError:
                time.sleep(_READ_AGAIN_S)
        raise RuntimeError("what the supervisor published cannot be read")

    def _read_config(self) -> BrokerConfig:
        """What the supervisor published: the texts of all settings, checked by it already."""
        document = self._published()
        self.listeners = tuple(BoundListener(*each) for each in document["listeners"])
        if self.role == "acceptor":
            self.processors = {int(index): tuple(places) for index, places in document["processors"].items()}
        dynamic = DynamicSettings(document["cluster"], document["broker"], document["groups"])
        return build_broker_config(Given(document["texts"], {}, ()), document["cores"], dynamic)

    def handed_over(self) -> None:
        """Agent of a broker that is to stop: others lead what it led; the supervisor may go on."""
        self.process_row.set_state(ProcessState.STOPPING)
        os.write(self.notice_fd, _ONE)

    def publish_settings(self, settings: DynamicSettings) -> None:
        """Controller: these dynamic settings are stored; the supervisor is to take them over and tell everybody."""
        settings_board.write(self.settings_fd, settings)
        os.write(self.notice_fd, _ONE)

    def stored_settings(self) -> DynamicSettings | None:
        """The dynamic settings as the controller stored them last; None: it has not said yet."""
        return settings_board.read(self.settings_fd)

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stopping = True

    def _on_reload(self, _number: int, _frame: object) -> None:
        self.reloading = True
