"""`mpbroker status --stacks` of a real broker: every process answers, and for those that do not the reason is said."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from mpbroker.supervisor import stacks
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, api_versions
from tests.tidy.source_tree import ROOT

FEW_S = 30  # asked once, all have two seconds together: a busy machine may need another try


def _cli(*words):
    return subprocess.run([sys.executable, "-m", "mpbroker", *words], capture_output=True, text=True, timeout=30)


def _stacks(broker):
    found = _cli("status", "--stacks", "--json", "--data-dir", str(broker.data_dir))
    assert found.returncode == 0, found.stderr
    return {(one["role"], one["index"]): one for one in json.loads(found.stdout)["stacks"]}


def _text(broker):
    return _cli("status", "--stacks", "--data-dir", str(broker.data_dir)).stdout


def _all_answer(by_role):
    return all(one["frames"] and one["no_answer"] is None for one in by_role.values())


def _all_wait(by_role):
    """Where those stand who have nothing to do; each of them wakes up for a moment now and then."""
    if not _all_answer(by_role):
        return False
    innermost = {who: one["frames"][0].rpartition("/")[2] for who, one in by_role.items()}
    # A handler waits in C, in the call that this line makes.
    return innermost["handler", 0].startswith("request_handler.py") and innermost["supervisor", 0].startswith(
        "supervisor.py"
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def test_every_process_shows_where_it_is(broker):
    for _ in range(2):  # what the first one wrote is not in the second one's answer
        by_role = wait_until(lambda: _all_wait(found := _stacks(broker)) and found, "all to tell that they wait", FEW_S)
        assert {one["pid"] for one in by_role.values()} == set(broker.processes())
        assert len(by_role["handler", 0]["frames"]) <= 6, "the frames of the parent that forked it are left out"
    shown = f"handler 0, pid {broker.row('handler')['pid']}, in its wait `request`\n    File "
    wait_until(lambda: shown in _text(broker), "a handler's stack as text", FEW_S)


def test_a_stopped_process_is_named_and_the_others_answer(broker):
    pid = broker.kill("handler", 0, signal.SIGSTOP)
    try:
        wait_until(lambda: _state(pid) == "T", "the handler to stop")
        text = wait_until(
            lambda: (found := _text(broker)).count("no answer") == 1 and found, "the others to answer", FEW_S
        )
    finally:
        os.kill(pid, signal.SIGCONT)
    assert f"handler 0, pid {pid}," in text and "no answer: it is stopped: by SIGSTOP" in text


def _state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_asking_disturbs_nobody(broker):
    before = {row["pid"] for row in broker.status()["processes"]}
    with RawConnection(broker.port()) as connection:
        for n in range(20):
            stacks.ask(before, timeout_s=1.0)
            assert connection.ask(api_versions(n))[0] == n
    assert {row["pid"] for row in broker.status()["processes"]} == before


def test_a_process_that_has_ended_is_a_reason_and_no_error():
    ended = subprocess.Popen(["true"])
    ended.wait()
    (stack,) = stacks.ask([ended.pid])
    assert (stack.frames, stack.reason) == ((), "it has ended")


def test_a_process_that_has_not_registered_is_not_killed_by_the_question():
    with subprocess.Popen(["sleep", "30"]) as other:
        (stack,) = stacks.ask([other.pid])
        assert "cannot answer yet" in stack.reason and other.poll() is None
        other.kill()


def test_a_fault_leaves_its_stack_in_the_log(tmp_path):
    with Broker(tmp_path) as broker:
        pid = broker.kill("handler", 0, signal.SIGSEGV)
        broker.wait_restarted("handler", 0, pid)
        assert "Fatal Python error: Segmentation fault" in broker.log() and "in do_work" in broker.log()


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_the_recipe_with_gdb_shows_the_native_frames(broker):
    """The command in docs/operations.md, as it stands there."""
    page = (ROOT / "docs" / "operations.md").read_text()
    (line,) = [line.strip() for line in page.splitlines() if line.strip().startswith("gdb ")]
    words = line.replace("PID", str(broker.row("handler")["pid"]))
    found = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=60)
    if "ptrace: Operation not permitted" in found.stderr:
        pytest.skip("this system does not let gdb attach")
    assert "mpb_handler_sleep" in found.stdout and "mpb_handler_wait" in found.stdout, found.stdout + found.stderr


FORKING = """
import os, signal, sys
from mpbroker.supervisor import stacks
stacks.register()
signal.pthread_sigmask(signal.SIG_BLOCK, [stacks.SIGNAL])
with stacks.of_children(1):
    print("two", flush=True)
    sys.stdin.readline()
signal.pthread_sigmask(signal.SIG_UNBLOCK, [stacks.SIGNAL])
print("one", flush=True)
sys.stdin.readline()
"""


def test_a_process_that_is_just_forking_is_asked_once_it_has_one_memfd(monkeypatch):
    """Around a fork parent and child hold two; an answer expected in the other one's would never come."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", FORKING], **pipes) as process:
        assert process.stdout.readline() == "two\n"
        (stack,) = stacks.ask([process.pid])
        assert "ask again" in stack.reason
        monkeypatch.setattr(stacks, "_LOOKS", 500)  # however late this process and the child come to a core
        asked = ThreadPoolExecutor(1).submit(stacks.ask, [process.pid])
        process.stdin.write("\n")
        process.stdin.flush()
        (stack,) = asked.result(10)
        assert stack.frames and not stack.reason
        process.communicate("\n", timeout=10)
