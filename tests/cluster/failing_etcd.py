"""etcd of three members as a cluster's store, and what fails of it: its leader dies or stands still, its history is
compacted, a lease ends although its owner lives (who then is a broker, or a controller, that nobody knows any more)."""

from tests.harness.etcd_server import EtcdServer

START_S = 30.0


class FailingEtcd:
    """A context manager. `place`: what mpbroker.cluster.store takes."""

    def __init__(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        self._server = EtcdServer(directory, 3)

    def __enter__(self):
        self._server.__enter__()
        return self

    def __exit__(self, *_):
        for member in self._server.members:
            self._server.resume(member)
        self._server.__exit__()

    @property
    def place(self):
        """Its members."""
        return "etcd://" + ",".join(self._server.addresses)

    def fail(self, random):
        """(what failed, what mends it)."""
        return random.choice((self._kill, self._pause, self._compact, self._expire, self._expire))(random)

    def _kill(self, random):
        member = self._leader(random)
        self._server.kill(member)
        return "etcd killed", lambda: self._server.start(member)

    def _pause(self, random):
        member = self._leader(random)
        self._server.pause(member)
        return "etcd paused", lambda: self._server.resume(member)

    def _compact(self, random):
        status = self._ask("/v3/maintenance/status")
        if status:
            self._ask("/v3/kv/compaction", {"revision": status["header"]["revision"]})
        return "etcd compacted", lambda: None

    def _expire(self, random):
        leases = self._ask("/v3/lease/leases").get("leases", [])
        if leases:
            self._ask("/v3/lease/revoke", {"ID": random.choice(leases)["ID"]})
        return "lease ended", lambda: None

    def _leader(self, random):
        try:
            return self._server.leader()
        except AssertionError:
            return random.choice(self._server.members)

    def _ask(self, path, body=None):
        for member in self._server.members:
            answer = self._server.ask(member, path, body or {})
            if answer:
                return answer
        return {}
