"""Which topics' Produce requests the native path may serve without this interpreter. One per request handler process.

The native path (native/produce/produce_path.c) makes the same checks and the same append as handlers/produce.py and
refuses, before any effect, whatever it does not know. A topic is taught to it after the Python handler has served a
request for it once; any change of metadata makes it forget all of them.
"""

from __future__ import annotations

from mpbroker.shm.counters import Counter

NO_GENERATION = 2**64 - 1


class PlainProduce:
    """Teaches and runs the native path. Nothing is kept that another process would miss."""

    def __init__(self, context) -> None:
        self._context = context
        self._enabled = not context.log_manager.flush_on_commit  # a sync to wait for is not plain
        self._native = context.log_manager.plain_produce(context.port)
        self._generation = -1
        self._known: set[str] = set()
        self._wall_ms = context.clock.wall_ms
        self._run = self._native.run

    def serve(self) -> None:
        """Lets the port serve plain requests inside `claim`, by the clock of the system: for a real handler process."""
        self._native.serve(Counter.PRODUCE_PARTITION_ERRORS)

    def run(self, request) -> bool:
        """Serves the request if it is plain; False: nothing was done, dispatch it."""
        done = self._run(request, self._wall_ms())
        if done is None:
            return False
        if done:
            self._unusual(request, done)
        return True

    def _unusual(self, request, done: int | bytes) -> None:
        """Some partitions were refused, or the answer found no memory."""
        if isinstance(done, bytes):
            self._context.answer_later(request, done)
        else:
            self._context.count("produce_partition_errors", done)

    def forget(self) -> None:
        """The settings of all topics may have changed without a change of metadata."""
        self._native.reset(NO_GENERATION)
        self._generation = -1
        self._known.clear()

    def learn(self, topic) -> None:
        """Lets the native path serve a topic of the metadata in force, if its settings allow that."""
        generation = self._context.metadata.generation
        if generation != self._generation:
            self._native.reset(generation)
            self._generation = generation
            self._known.clear()
        if topic.name in self._known or not self._enabled:
            return
        self._known.add(topic.name)
        options, rules = self._context.log_manager.options_of(topic)
        if not topic.internal and rules.target_codec is None:
            self._native.add(topic.name, topic.id, topic.partitions, options)
