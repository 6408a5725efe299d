"""The stages of a request's trace: those of an answer follow those of its work, whoever answered."""

import pytest

from mpbroker.protocol.messages_by_key import REQUESTS
from mpbroker.shm.clock import SystemClock
from mpbroker.trace.record import NOT_REACHED, STAGES
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, fetch, produce

API_VERSIONS = 18


@pytest.mark.parametrize(
    ("request_of", "version"),
    [
        (lambda: REQUESTS[API_VERSIONS](), 3),
        (lambda: fetch(offset=0), 11),
        (lambda: produce(records=batch(b"b")), 7),
        (lambda: fetch(offset=9), 11),
    ],
    ids=["python", "fetch", "produce", "refused"],
)
def test_they_follow_each_other(tmp_path, request_of, version):
    broker = InProcessBroker(tmp_path, is_traced=True)
    broker.clock = SystemClock()  # the one by which the stages are told
    broker.create_topic("t")
    broker.call(produce(records=batch(b"a")), 7)
    broker.traced()
    broker.send(request_of(), version)
    broker.step()
    [(_, _, frame)] = broker.collect()
    [record] = broker.traced()
    assert record.resp_bytes == len(frame)
    reached = [at for at in record.stage if at != NOT_REACHED]
    assert reached == sorted(reached)
    assert record.stage[STAGES.index("resp_enq")] > record.stage[STAGES.index("dequeued")] > 0
