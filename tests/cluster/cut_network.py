"""A network namespace for each broker on one bridge, whose directions can be cut one by one.

Needs a process that may make namespaces and is in one of its own (`unshare --net`), so nothing of the machine's network
changes and the end of the process ends it all. A direction is cut by a neighbour entry with a hardware address that
nobody has: packets that way are lost without an error, those of the other way arrive.
"""

import os
import subprocess
import time

NOBODY = "02:00:00:00:00:99"
ALONE = "there are no network namespaces here: cuts are left out"
START_S = 5.0


def address(broker):
    """Where a broker listens; 254: this process, with the clients."""
    return f"10.99.0.{broker}"


class CutNetwork:
    """A context manager. `inside(broker)`: words before a command that is to run as that broker's."""

    def __init__(self, brokers):
        self._brokers = tuple(brokers)
        self._holders = {}
        self._cuts = set()

    def __enter__(self):
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "br0", "type", "bridge")
        _ip("addr", "add", f"{address(254)}/24", "dev", "br0")
        _ip("link", "set", "br0", "up")
        for broker in self._brokers:
            holder = self._holders[broker] = subprocess.Popen(["unshare", "--net", "sleep", "100000"])
            _await_own_namespace(holder.pid)
            _ip("link", "add", f"v{broker}", "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
            _ip("link", "set", f"v{broker}", "master", "br0", "up")
            self._within(broker, "link", "set", "lo", "up")
            self._within(broker, "addr", "add", f"{address(broker)}/24", "dev", "eth0")
            self._within(broker, "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_):
        for holder in self._holders.values():
            holder.kill()
            holder.wait()

    def inside(self, broker):
        """To run a command in a broker's namespace; it replaces the process."""
        return ["nsenter", "--target", str(self._holders[broker].pid), "--net"]

    def cut(self, source, target):
        """What `source` sends to `target` is lost."""
        self._cuts.add((source, target))
        self._within(source, "neigh", "replace", address(target), "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")

    def mend(self, source, target):
        """It arrives again."""
        if (source, target) in self._cuts:
            self._cuts.discard((source, target))
            self._within(source, "neigh", "del", address(target), "dev", "eth0")

    def mend_all(self):
        """Everything arrives."""
        for source, target in list(self._cuts):
            self.mend(source, target)

    def _within(self, broker, *words):
        subprocess.run([*self.inside(broker), "ip", *words], check=True)


def is_possible():
    """Whether this machine lets us make namespaces with bridges."""
    words = "ip link add br0 type bridge && ip link add v1 type veth peer name v2"
    done = subprocess.run(["unshare", "--net", "sh", "-c", words], capture_output=True, check=False)
    return done.returncode == 0


def _ip(*words):
    subprocess.run(["ip", *words], check=True)


def _await_own_namespace(pid):
    deadline = time.monotonic() + START_S
    own = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{pid}/ns/net") == own:
        assert time.monotonic() < deadline, "unshare does not get into its namespace"
        time.sleep(0.002)
