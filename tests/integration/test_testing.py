"""mpbroker.testing: a broker for other people's tests, and the demo that uses it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mpbroker import testing
from mpbroker.cli import demo_clients, demo_study
from mpbroker.cli.main import main
from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic, describe_topic
from tests.tidy.source_tree import ROOT


def _alive(pid):
    return Path(f"/proc/{pid}").exists()


def test_a_broker_lasts_as_long_as_the_block():
    with testing.broker({"num.partitions": 3, "auto.create.topics.enable": False}) as running:
        with connect(running.bootstrap) as client:
            create_topic(client, "t", -1, {})
            assert len(describe_topic(client, "t").partitions) == 3
        assert "auto.create" not in running.log() and "ready" in running.log() and _alive(running.pid)
    assert not _alive(running.pid) and not running.data_dir.parent.exists()


def test_two_at_once():
    with testing.broker() as one, testing.broker() as other:
        assert one.bootstrap != other.bootstrap and one.data_dir != other.data_dir


def test_it_ends_with_a_test_that_fails():
    with pytest.raises(ZeroDivisionError), testing.broker() as running:
        raise ZeroDivisionError
    assert not _alive(running.pid) and not running.data_dir.parent.exists()


def test_a_broker_that_has_ended_by_itself_is_no_second_error():
    with testing.broker() as running:
        running._process.terminate()
        running._process.wait()
    assert not running.data_dir.parent.exists()


def test_the_environments_settings_do_not_reach_it(monkeypatch):
    monkeypatch.setenv("MPBROKER_LISTENERS", "PLAINTEXT://127.0.0.1:1")
    monkeypatch.setenv("MPBROKER_NO_SUCH_SETTING", "1")
    with testing.broker() as running:
        assert not running.bootstrap.endswith(":1")


def test_a_broker_that_does_not_start_says_why():
    said = r"(?s)did not start:.*num.io.thread.*did you mean num.io.threads"
    with pytest.raises(testing.BrokerFailed, match=said), testing.broker({"num.io.thread": 1}):
        pass


def test_it_imports_nothing_of_the_broker():
    script = "import sys, mpbroker.testing; print(sorted(m for m in sys.modules if m.startswith('mpbroker')))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "['mpbroker', 'mpbroker.errors', 'mpbroker.testing']"


def test_the_readme_shows_it(tmp_path):
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"^(    from mpbroker\.testing.*\n(?:(?:    .*)?\n)*)", text, re.MULTILINE)
    code = re.sub(r"^    ", "", block, flags=re.MULTILINE)
    use = "def test_it(bootstrap):\n    assert bootstrap.startswith('127.0.0.1:')\n"
    (tmp_path / "test_it.py").write_text(f"import pytest\n{code}\n{use}")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0 and "1 passed" in found.stdout, found.stdout + found.stderr


def test_the_demo_without_another_client_uses_one_connection(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo_clients, "find_spec", lambda name: None)
    monkeypatch.setattr(demo_study, "find_spec", lambda name: None)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--records", "2000", "--out", "out"]) == 0
    said = capsys.readouterr().out
    assert "2000 of 2000 records read back, each once, in order: nothing was lost" in said
    assert said.count("kill -9") == 2
    counts = {api: int(count) for api, count in re.findall(r"^(\w+) +queue +(\d+)", said, re.MULTILINE)}
    assert counts["Produce"] >= 40, said  # 50 records each, and what was sent again after a kill
    assert counts.get("ApiVersions", 0) <= 3, said  # one connection, and one more after each kill
    assert os.listdir("out") == ["traces"]
