"""The client of etcd's gateway: which failures it hides, which it reports, and what it does not do twice."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mpbroker.metadata.etcd_gateway import EndPoint
from mpbroker.metadata.etcd_store import EtcdStore
from mpbroker.metadata.meta_store import Committed, Put, StoreError, StoreTimeout, Unknown

STATUS = {"header": {"member_id": "1"}, "version": "3.6.16", "raftTerm": "2"}
GONE = "gone"  # the connection ends without an answer


class Member:
    """A member that answers what a test says: path → (HTTP status, document), or GONE."""

    def __init__(self):
        member = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                member.connections += 1
                super().setup()

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                member.asked.append(self.path)
                answer = member.answers.get(self.path, (404, {"code": 5, "message": "no such path"}))
                if answer == GONE:
                    self.close_connection = True
                    return
                body = json.dumps(answer[1]).encode()
                self.send_response(answer[0])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.asked, self.connections = [], 0
        self.answers = {"/v3/maintenance/status": (200, STATUS)}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.end_point = EndPoint("127.0.0.1", self._server.server_port)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def members():
    made = [Member(), Member()]
    yield made
    for member in made:
        member.close()


def _open(members, timeout_ms=20_000, **more):
    return EtcdStore([member.end_point for member in members], timeout_ms=timeout_ms, **more)


def _put(store):
    return store.txn([], [Put("a", b"1")], tag="mine")


def test_a_read_goes_on_to_the_next_member(members):
    store = _open(members)
    members[0].answers["/v3/kv/range"] = (503, {"code": 14, "message": "etcdserver: no leader"})
    members[1].answers["/v3/kv/range"] = (200, {"header": {"revision": "7"}})
    assert store.revision() == 7
    assert store.revision() == 7
    assert members[0].asked.count("/v3/kv/range") == 1  # it stays with the one that answers
    store.close()


def test_one_connection_serves_many_requests(members):
    store = _open(members)
    members[0].answers["/v3/kv/range"] = (200, {"header": {"revision": "7"}})
    members[0].answers["/v3/kv/txn"] = (200, {"header": {"revision": "8"}, "succeeded": True})
    assert [store.revision() for _ in range(5)] == [7] * 5 and _put(store) == _put(store) == Committed(8)
    assert (members[0].connections, members[1].connections) == (1, 0)
    store.close()


def test_a_read_that_nobody_answers_ends_at_its_deadline(members):
    store = _open(members, timeout_ms=500)
    for member in members:
        member.answers["/v3/kv/range"] = GONE
    with pytest.raises(StoreTimeout, match=r"no member of etcd answers in 500 ms"):
        store.revision()
    store.close()


@pytest.mark.parametrize("answer", [GONE, (503, {"code": 14, "message": "etcdserver: leader changed"})])
def test_a_write_whose_answer_is_lost_is_unknown_and_not_done_again(members, answer):
    store = _open(members)
    for member in members:
        member.answers["/v3/kv/txn"] = answer
    assert _put(store) == Unknown("mine")
    assert [member.asked.count("/v3/kv/txn") for member in members] == [1, 0]
    store.close()


def test_a_write_that_could_not_be_sent_goes_to_the_next_member(members):
    store = _open(members)
    members[0].close()
    members[0]._server.server_close = lambda: None
    store._gateway._drop(members[0].end_point)
    members[1].answers["/v3/kv/txn"] = (200, {"header": {"revision": "3"}, "succeeded": True})
    assert _put(store) == Committed(3)
    members[1].answers["/v3/kv/txn"] = (200, {"header": {"revision": "4"}, "succeeded": True})
    assert _put(store) == Committed(4)
    store.close()


def test_nobody_to_write_to_is_a_timeout_that_changed_nothing(members):
    store = _open(members[:1], timeout_ms=500)
    store._gateway.end_points = (EndPoint("127.0.0.1", 1),)
    with pytest.raises(StoreTimeout, match="can be reached"):
        _put(store)
    store.close()


def test_a_connection_that_the_member_closed_meanwhile_is_no_unknown_write(members):
    store = _open(members[:1])
    store._gateway._connections[members[0].end_point].sock.shutdown(0)  # as its end looks
    members[0].answers["/v3/kv/txn"] = (200, {"header": {"revision": "3"}, "succeeded": True})
    assert _put(store) == Committed(3)
    store.close()


@pytest.mark.parametrize(
    ("code", "text", "said"),
    [
        (5, "etcdserver: requested lease not found", "a session has ended"),
        (8, "etcdserver: mvcc: database space exceeded", "no space left"),
        (3, "etcdserver: duplicate key given in txn request", "duplicate key"),
    ],
)
def test_an_error_that_repeating_does_not_cure_is_a_sentence(members, code, text, said):
    store = _open(members)
    members[0].answers["/v3/kv/txn"] = (400, {"code": code, "message": text})
    with pytest.raises(StoreError, match=said):
        _put(store)
    store.close()


@pytest.mark.parametrize(
    ("version", "said"), [("3.4.23", "too old: use 3.5 or later"), ("", "does not say which version")]
)
def test_a_version_that_is_too_old_is_refused(members, version, said):
    members[0].answers["/v3/maintenance/status"] = (200, STATUS | {"version": version})
    with pytest.raises(StoreError, match=said):
        _open(members)


def test_something_else_on_the_port_is_not_taken_for_etcd(members):
    members[0].answers["/v3/maintenance/status"] = (404, ["not found"])
    with pytest.raises(StoreTimeout, match="does not speak etcd's JSON"):
        _open(members[:1], timeout_ms=500)
