"""The loops of the two controller processes: what is done before they serve, in each turn, and at the end."""

from types import SimpleNamespace

import pytest

from mpbroker.config.cluster_store import ClusterStorePlace
from mpbroker.controller import agent_process, cluster_process, controller
from mpbroker.metadata.meta_store import StoreError
from mpbroker.shm.process_table import ProcessState


class Done(list):
    """Notes every call of a method by its name; `given` are the answers of some."""

    def note(self, name, given=None):
        def call(*arguments):
            self.append((name, *arguments) if arguments else name)
            return given

        return call


@pytest.fixture
def done():
    return Done()


def context(done, turns, reloads, **more):
    """Asked to stop after so many turns."""
    left, configs = iter(range(turns)), iter(reloads)
    row = SimpleNamespace(set_state=done.note("state"), beat=done.note("beat"))
    fields = {
        "core": SimpleNamespace(metadata_generation=9, crash_point=done.note("point")),
        "config": SimpleNamespace(cluster_store=None),
        "process_row": row,
        "running": done.note("running"),
        "stop_requested": lambda: next(left, None) is None,
        "take_reload": lambda: next(configs),
    }
    return SimpleNamespace(**fields | more)


def files_of(done, wanted):
    """Gives descriptors of removed files back, of nothing but `wanted`."""

    def made(log, clock):
        assert log == wanted and clock.monotonic_ms() > 0
        return SimpleNamespace(give_back=done.note("given back"))

    return made


def test_a_controller_recovers_before_it_serves_and_closes_at_the_end(done, monkeypatch):
    made = SimpleNamespace(
        recover=done.note("recover"),
        note_moves=done.note("moves"),
        use_config=done.note("config"),
        close=done.note("close"),
    )

    def serve_one(given, channel, generation, wait_ms, crash_point):
        assert (given, channel.name, wait_ms) == (made, "channel", controller.WAIT_MS) and generation() == 9
        crash_point("a")
        done.append("serve")

    channel = SimpleNamespace(name="channel", recover=done.note("channel recovers"))
    monkeypatch.setattr(controller, "build_controller", lambda ctx: made)
    monkeypatch.setattr(controller, "CommandChannel", lambda core: channel)
    monkeypatch.setattr(controller, "release_library_pages", done.note("pages"))
    monkeypatch.setattr(controller, "serve_one", serve_one)
    monkeypatch.setattr(controller, "RemovedFiles", files_of(done, made))
    monkeypatch.setattr(controller, "say_left_log", done.note("left log"))
    controller.main(context(done, 2, [None, "new"], data_dirs=["/d"], log="events"))
    turn = [("point", "a"), "serve", "beat", "moves", "given back"]
    assert done == [
        ("state", ProcessState.RECOVERING), "recover", "channel recovers", "running", "pages",
        *turn, *turn, ("config", "new"), "close", ("left log", "/d", "events"),
    ]  # fmt: skip


def test_in_a_cluster_its_process_is_the_agents(done, monkeypatch):
    ctx = context(done, 1, [None], config=SimpleNamespace(cluster_store="etcd"))
    agent = SimpleNamespace(main=done.note("agent"))
    monkeypatch.setattr(controller, "import_module", lambda name: {"mpbroker.controller.agent_process": agent}[name])
    controller.main(ctx)
    assert done == [("agent", ctx)]


def test_ids_of_topics_are_random_and_of_version_4():
    found = {controller.new_topic_id() for _ in range(50)}
    assert len(found) == 50 and {(len(one), one[6] >> 4, one[8] >> 6) for one in found} == {(16, 4, 2)}
    assert len({one[6] & 0x0F for one in found}) > 3 and len({one[8] & 0x3F for one in found}) > 3


def test_a_cluster_controllers_turns(done, monkeypatch):
    """A store that cannot be reached is told, and the turn after it tries again."""
    taken = iter(([], ["a", "b"], ["c"]))
    problems = iter((None, None, StoreError("away")))

    def turn():
        done.append("turn")
        problem = next(problems)
        if problem:
            raise problem

    process = SimpleNamespace(
        register=lambda poll: done.append(("register", poll.fds)),
        wait_ms=lambda: 70,
        use_config=done.note("config"),
        command=done.note("command"),
        turn=turn,
        close=done.note("close"),
    )
    inbox = SimpleNamespace(start=done.note("inbox"), fileno=lambda: 5, take=lambda: next(taken))

    class Poll:
        def __init__(self):
            self.fds = []

        def register(self, fd, events):
            self.fds.append((fd, events))

        def poll(self, wait_ms):
            done.append(("poll", wait_ms))

    ctx = context(
        done, 3, [None, "new", None], config=SimpleNamespace(cluster_store="place"), wakeup_fd=6,
        drain_wakeups=done.note("drained"),
        log=SimpleNamespace(warning=lambda event, problem: done.append((event, problem))),
    )  # fmt: skip
    monkeypatch.setattr(cluster_process, "CommandChannel", lambda core, slot: ("channel", slot))
    monkeypatch.setattr(cluster_process, "open_cluster_store", lambda place: f"store at {place}")
    monkeypatch.setattr(cluster_process, "ClusterProcess", lambda *given: done.append(given[1:]) or process)
    monkeypatch.setattr(cluster_process, "CommandInbox", lambda channel, stop: inbox)
    monkeypatch.setattr(cluster_process, "select", SimpleNamespace(poll=Poll, POLLIN=1))
    cluster_process.main(ctx)
    begin = [("register", [(5, 1), (6, 1)]), ("poll", 70), "drained"]
    assert done == [
        ("store at place", ("channel", cluster_process.SLOT_CLUSTER_CONTROLLER)), "inbox", "running",
        *begin, "turn", "beat",
        *begin, ("config", "new"), ("command", "a"), ("command", "b"), "turn", "beat",
        *begin, ("command", "c"), "turn", ("store_unavailable", "away"), "beat",
        "close",
    ]  # fmt: skip


def test_an_agents_turns(done, monkeypatch):
    """Its state is shown first; connections are polled once they are open, at any descriptor."""
    agent = SimpleNamespace(
        recover=done.note("recover"), close=done.note("close"), watch_fd=lambda: 7,
        channels=lambda: [SimpleNamespace(fileno=lambda fd=fd: fd, events=lambda: 4) for fd in (-1, 0, 9)],
    )  # fmt: skip
    inbox = SimpleNamespace(start=done.note("inbox"), fileno=lambda: 5)

    class Poll:
        def __init__(self):
            self.fds = []

        def register(self, fd, events):
            self.fds.append((fd, events))

        def poll(self, wait_ms):
            done.append(("poll", wait_ms, self.fds))

    place = ClusterStorePlace("", "/store.db")
    ctx = context(
        done, 2, [], config=SimpleNamespace(cluster_store=place), wakeup_fd=6, boot_id=0x77, data_dirs=("/a", "/b"),
        drain_wakeups=done.note("drained"), log=SimpleNamespace(warning=lambda event, **_: done.append(event)),
    )  # fmt: skip
    unclean = iter((True, False))
    monkeypatch.setattr(agent_process, "unclean_start", lambda *words: done.append(words[::2]) or next(unclean))
    monkeypatch.setattr(agent_process, "open_log", lambda ctx: "log")
    monkeypatch.setattr(agent_process, "build_logs", lambda ctx, log: "logs")
    monkeypatch.setattr(agent_process, "open_cluster_store", lambda *words: "store")
    monkeypatch.setattr(agent_process, "Agent", lambda *given: done.append(given[1:]) or agent)
    monkeypatch.setattr(agent_process, "CommandChannel", lambda core: "channel")
    monkeypatch.setattr(agent_process, "CommandInbox", lambda channel, stop: inbox)
    monkeypatch.setattr(agent_process, "select", SimpleNamespace(poll=Poll, POLLIN=1))
    monkeypatch.setattr(agent_process, "RemovedFiles", files_of(done, "log"))
    monkeypatch.setattr(agent_process, "_turn", lambda *given: done.append(("turn", given[3])))
    agent_process.main(ctx)
    start = (["/a", "/b"], f"{0x77:016x}")
    turn = [
        ("poll", agent_process.TURN_MS, [(5, 1), (7, 1), (6, 1), (0, 4), (9, 4)]), "drained", ("turn", "channel"),
        "given back",
    ]  # fmt: skip
    began = ["recover", "inbox", "running", *turn, *turn, "close"]
    assert done == [
        ("state", ProcessState.RECOVERING), start, "unclean_start", ("store", "log", "logs", True), *began,
    ]  # fmt: skip
    done.clear()
    ctx.stop_requested = lambda: True
    agent_process.main(ctx)
    assert done[1:] == [start, ("store", "log", "logs", False), "recover", "inbox", "running", "close"]
