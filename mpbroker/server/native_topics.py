"""The topics whose Produce and Fetch requests the native paths serve without Python. One table per handler process.

The native path of Produce (native/produce/serve_produce.c) makes the checks of docs/produce-checks.md and the append as
handlers/produce.py does, and passes a request on, before any effect, when it does not know its topic. It learns a topic
when a Python handler has served a request for it; any change of metadata makes it forget all topics. That of Fetch
(native/fetch/serve_fetch.c) uses the same table.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import HandlerPort
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.limits import LARGEST_ANSWER_BYTES
from mpbroker.log.log_manager import LogManager
from mpbroker.metadata.metadata_cache import MetadataCache, Topic

NO_GENERATION = 2**64 - 1


class NativeTopics:
    """Adds topics to the native path and removes them. Nothing is kept that another process would miss."""

    def __init__(self, log_manager: LogManager, port: HandlerPort, metadata: MetadataCache) -> None:
        self._log_manager = log_manager
        self._metadata = metadata
        self._enabled = not log_manager.flush_on_commit  # a sync to wait for is Python's business
        self.native = log_manager.serve_natively(port)
        self.fetch = log_manager.fetch_natively(port, self.native)
        self.fetch.parks = True
        self._generation = -1
        self._known: set[str] = set()

    def use_config(self, config: BrokerConfig) -> None:
        """Settings may have changed, also those of topics without a change of metadata."""
        self.fetch.max_bytes = min(config.fetch_max_bytes, LARGEST_ANSWER_BYTES)
        self.forget()

    def forget(self) -> None:
        """The settings of all topics may have changed without a change of metadata."""
        self.native.reset(NO_GENERATION)
        self._generation = -1
        self._known.clear()

    def learn(self, topic: Topic) -> None:
        """Lets the native path serve a topic of the metadata in force, if its settings allow that."""
        generation = self._metadata.generation
        if generation != self._generation:
            self.native.reset(generation)
            self.fetch.serves_followers = self._log_manager.log.is_replicated()
            self._generation = generation
            self._known.clear()
        if topic.name in self._known:
            return
        self._known.add(topic.name)
        options, rules = self._log_manager.options_of(topic)
        produces = self._enabled and not topic.internal and rules.target_codec is None
        is_zstd = topic.settings.compression_type == "zstd"
        if topic.settings.leader_replication_throttled_replicas:  # whose share is Python's business
            self.fetch.serves_followers = False
        self.native.add(topic.name, topic.id, topic.partitions, options, produces, is_zstd)
