"""The coordinator beside an InProcessBroker: its shell on the same shared memory and log files, stepped by the test.

Its topics are made here, as by the controller. What handlers hand over waits until `step`; `start` once more is what
follows a SIGKILL: a successor that takes over what its predecessor held.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import HandlerPort, Request
from mpbroker.coordinator.shell import Shell, open_shell
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from mpbroker.metrics.event_log import EventLog
from mpbroker.server.api_table import API_TABLE
from mpbroker.shm.layout import SLOT_COORDINATOR
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState, ProcessRow
from tests.harness.in_process_broker import InProcessBroker

GROUP_PARTITIONS, TRANSACTION_PARTITIONS = 3, 2


class InProcessCoordinator:
    """Beside a broker that was made with `coordinator=True`."""

    def __init__(self, broker: InProcessBroker) -> None:
        self.broker = broker
        self.offsets = broker.create_topic(OFFSETS_TOPIC, GROUP_PARTITIONS, internal=True)
        self.states = broker.create_topic(TRANSACTIONS_TOPIC, TRANSACTION_PARTITIONS, internal=True)
        broker.core.state = BrokerState.RUNNING
        broker.handler.context.port.hand_over(list(API_TABLE.handed_over))
        self.row = ProcessRow(broker.core, SLOT_COORDINATOR)
        self._incarnation = 0
        self.start()

    def start(self) -> None:
        """A new process; what its predecessor held is put back first."""
        self._incarnation += 1
        self.port = HandlerPort(self.broker.core, self.broker.core.coordinator)
        context = ProcessContext(
            core=self.broker.core,
            config=self.broker.config,
            role="coordinator",
            slot=SLOT_COORDINATOR,
            incarnation=self._incarnation,
            process_row=self.row,
            log=EventLog("coordinator"),
            boot_secret=bytes(16),
            data_dirs=(self.broker.directory,),
        )
        if self._incarnation > 1:
            self.port.recover()
        metadata = MetadataCache(self.broker.core, self.broker.config)
        metadata.refresh()
        self.shell: Shell = open_shell(context, self.port, self.broker.clock, metadata)
        for _ in range(20):
            self.shell.deliver(True, [])

    def claim(self) -> Request | None:
        """What handlers handed over, one request; a bell that rang meanwhile is heard first."""
        request = self.port.serve_or_claim(0)
        if request is None:
            self.shell.deliver(*self.port.take_dirty())
            request = self.port.serve_or_claim(0)
        return request

    def step(self) -> None:
        """Everything that was handed over, then bells and deadlines."""
        while (request := self.claim()) is not None:
            self.shell.execute(request)
        self.shell.deliver(*self.port.take_dirty())

    def advance(self, milliseconds: int) -> None:
        """Time passes."""
        self.broker.clock.advance(milliseconds)
        self.step()

    def call(self, message, version: int, client_id: str = "test"):
        """One request that is answered at once."""
        self.broker.send(message, version, client_id)
        self.broker.step()
        self.step()
        self.broker.step()
        [(_, _, frame)] = self.broker.collect()
        return self.broker.decode(message, version, frame)
