"""`status`, `stop` and `trace` find this user's brokers by themselves, say which there are, and touch nobody else's."""

import json
import os
import pwd
import subprocess
import sys

import pytest

from mpbroker.supervisor import broker_list
from tests.harness.broker import Broker, wait_until
from tests.harness.other_user import NOBODY, run_as

OWNER = "user root (uid 0)"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def _cli(*words, directory):
    command = [sys.executable, "-m", "mpbroker", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=directory)


def _only(monkeypatch, *brokers):
    """Of the pages on this machine, only those of these brokers: other tests run theirs at the same time."""
    pages = broker_list._pages()
    ours = {broker.names[0] for broker in brokers}
    monkeypatch.setattr(broker_list, "_pages", lambda: [page for page in pages if page[0] in ours])


def _main(monkeypatch, tmp_path, capsys, *words):
    from mpbroker.cli.main import main

    monkeypatch.chdir(tmp_path)
    code = main(list(words))
    return (code, *capsys.readouterr())


def test_every_running_broker_is_listed(broker):
    found = {one.data_dir: one for one in broker_list.own_brokers()}
    assert found[str(broker.data_dir)].pid == broker.pid
    assert found[str(broker.data_dir)].listeners == (f"PLAINTEXT://{broker.bootstrap}",)


def _begun(traces):
    """Segments that say what they are: one that has just been made is empty."""
    return [path for path in traces.glob("*.mpt") if path.stat().st_size]


def test_one_broker_is_used(broker, monkeypatch, tmp_path, capsys):
    _only(monkeypatch, broker)
    code, out, error = _main(monkeypatch, tmp_path, capsys, "status", "--json")
    assert (code, error, json.loads(out)["pid"]) == (0, "", broker.pid)
    wait_until(lambda: _begun(broker.data_dir / "traces"), "a trace segment")
    code, out, error = _main(monkeypatch, tmp_path, capsys, "trace", "ls")
    assert code == 0 and error == f"mpbroker: traces of the broker on {broker.data_dir}\n" and ".mpt" in out
    code, _, error = _main(monkeypatch, tmp_path, capsys, "trace", "mark", "here")
    assert (code, error) == (0, "")


def test_several_are_listed_with_the_command_that_names_one(broker, monkeypatch, tmp_path, capsys):
    with Broker(tmp_path / "second") as second:
        _only(monkeypatch, broker, second)
        for words in (["status"], ["stop"], ["trace", "stats"], ["trace", "mark", "x"]):
            code, out, error = _main(monkeypatch, tmp_path, capsys, *words)
            assert (code, out) == (2, "")
            head, *lines = error.splitlines()
            assert head == "mpbroker: 2 of your brokers run here; name the one you mean:"
            part = " ".join(words[:2] if words[0] == "trace" else words[:1])
            assert sorted(lines) == sorted(
                f"  mpbroker {part} --data-dir {one.data_dir}    (PLAINTEXT://{one.bootstrap})"
                for one in (broker, second)
            )
        assert second.process.poll() is None


def test_the_default_directory_comes_first(broker, monkeypatch, tmp_path, capsys):
    default = Broker(tmp_path)
    default.data_dir = tmp_path / "mpbroker-data"
    with default as running:
        _only(monkeypatch, broker, running)
        code, out, _ = _main(monkeypatch, tmp_path, capsys, "status", "--json")
        assert (code, json.loads(out)["pid"]) == (0, running.pid)


def test_stop_says_which_one_it_stops(tmp_path, monkeypatch, capsys):
    with Broker(tmp_path / "b") as broker:
        _only(monkeypatch, broker)
        code, _, error = _main(monkeypatch, tmp_path, capsys, "stop")
        first, *progress = error.splitlines()
        assert (code, first) == (0, f"mpbroker: stopping the broker on {broker.data_dir} (pid {broker.pid})")
        assert all(" is stopping, " in line for line in progress)  # a line for each second
        assert broker.process.wait(5) == 0


def test_none_is_a_sentence(monkeypatch, tmp_path, capsys):
    _only(monkeypatch)
    for word in ("status", "stop"):
        code, out, error = _main(monkeypatch, tmp_path, capsys, word)
        assert (code, out) == (3, "")
        assert error == f"mpbroker: no broker of yours runs here: none on {tmp_path}/mpbroker-data, none elsewhere\n"


def test_a_killed_brokers_page_is_no_broker(tmp_path, monkeypatch):
    broker = Broker(tmp_path).start()
    name, path = broker.names[0], f"/dev/shm{broker.names[0]}"
    with open(path, "rb") as file:
        content = file.read()
    broker.destroy()
    with open(path, "wb") as file:
        file.write(content)
    try:
        wait_until(lambda: not broker_list.runs_on(str(broker.data_dir)), "the lock to be free")
        assert str(broker.data_dir) not in {one.data_dir for one in broker_list.own_brokers()}
        assert name in {page for page, _ in broker_list._pages()}
    finally:
        os.unlink(path)


@pytest.fixture
def open_directory(tmp_path):
    """A directory that every user may enter."""
    path = tmp_path
    while path.stat().st_uid == os.geteuid() and path.parent != path:
        if path.stat().st_mode & 0o005 != 0o005:
            path.chmod(0o755)
        path = path.parent
    return tmp_path


@pytest.mark.parametrize("words", [["status"], ["status", "--check"], ["status", "--stacks"], ["stop"]])
def test_another_users_broker_is_named_with_its_owner(open_directory, words):
    with Broker(open_directory / "b") as broker:
        found = run_as(NOBODY, *words, "--data-dir", str(broker.data_dir))
        assert (found.returncode, found.stdout) == (1, "")
        assert f"belongs to {OWNER}; run this as that user, or as root\n" in found.stderr
        assert found.stderr.count("\n") == 1
        assert broker.process.poll() is None


def test_a_directory_that_may_not_be_looked_into(open_directory):
    with Broker(open_directory / "b") as broker:
        broker.data_dir.chmod(0o700)
        for words in (["status"], ["stop"], ["trace", "stats"]):
            found = run_as(NOBODY, *words, "--data-dir", str(broker.data_dir))
            assert found.returncode != 0 and found.stderr.count("\n") == 1, found.stderr
            assert OWNER in found.stderr


def test_others_brokers_are_counted_but_not_used(open_directory):
    with Broker(open_directory / "b") as broker:
        found = run_as(NOBODY, "stop", directory=str(open_directory))
        assert found.returncode == 3 and broker.process.poll() is None
        assert "no broker of yours runs here" in found.stderr and f"of {OWNER}" in found.stderr
        assert pwd.getpwuid(0).pw_name == "root"
