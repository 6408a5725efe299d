"""librdkafka's one way to write a record twice although it is idempotent, told from a fault of brokers.

A leader appends a batch and dies before it answers. The next one is alone for a while and refuses the repetition with
NOT_ENOUGH_REPLICAS, before anybody looks at its sequence number; then a follower catches up, and the batches behind it,
under way already, leave a gap: OUT_OF_ORDER_SEQUENCE_NUMBER. Kafka answers both the same. Upon a gap librdkafka raises
its producer epoch, numbers whatever it holds from 0 and sends it again, the first batch too ("skipped sequence
numbers" in its rdkafka_request.c): to any broker that is something new.

So what stands twice under one producer epoch is a broker's fault. It raises its epoch upon any other refusal for good,
too, so each of those would be one. Whether a gap is one, no trace can tell: what came before it may have been refused
by another broker, which led until then, or be unanswered there; the client itself can (writers.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.record.record_batch import iterate_batches, producer_of
from mpbroker.trace import manifest, record, segment
from tests.harness.checker import Anomaly
from tests.harness.history import History, Value, final_log

PRODUCE = 0


class Stamp(NamedTuple):
    """Whose records lie at the offsets `first` to `last`."""

    first: int
    last: int
    producer_id: int
    epoch: int


def stamps_of(log: Path) -> list[Stamp]:
    """The batches of a partition's directory, in their order."""
    found = []
    for file in sorted(log.glob("*.log")):
        for info, data in iterate_batches(file.read_bytes()):
            found.append(Stamp(info.base_offset, info.base_offset + info.last_offset_delta, *producer_of(data)))
    return found


def renumbered(history: History, stamps: dict[int, list[Stamp]]) -> set[tuple[int, Value]]:
    """(partition, value) of what stands several times, each time under another epoch of the same producer."""
    found = set()
    for partition, records in final_log(history.reads).items():
        places: dict[Value, list[int]] = {}
        for offset, value in records:
            places.setdefault(value, []).append(offset)
        for value, offsets in places.items():
            if len(offsets) > 1 and _is_by_the_client([_stamp_at(stamps.get(partition, []), one) for one in offsets]):
                found.add((partition, value))
    return found


def _stamp_at(stamps: list[Stamp], offset: int) -> Stamp | None:
    return next((stamp for stamp in stamps if stamp.first <= offset <= stamp.last), None)


def _is_by_the_client(copies: list[Stamp | None]) -> bool:
    known = [copy for copy in copies if copy is not None and copy.producer_id >= 0]
    epochs = [copy.epoch for copy in known]
    return (
        len(known) == len(copies)
        and len({copy.producer_id for copy in known}) == 1
        and epochs == sorted(set(epochs))  # each is another, and they rise
    )


def wrong_refusals(broker: int, traces: Path) -> Iterator[Anomaly]:
    """Produce requests that were refused for good, but for gaps."""
    for number, error in _produce_requests(traces):
        if error not in (ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) and not ERRORS[error].retriable:
            yield Anomaly("refused", -1, f"broker {broker}: request {number} was refused for good, error {error}")


def _produce_requests(traces: Path) -> Iterator[tuple[int, int]]:
    """(correlation id, error)."""
    for info in manifest.segments(traces):
        for chunk in segment.read_chunks(info):
            for at in range(0, len(chunk), record.RECORD_BYTES):
                one = record.unpack(chunk, at)
                if one.kind == record.REQUEST and one.api_key == PRODUCE:
                    yield one.corr_id, one.error
