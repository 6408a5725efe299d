"""`start`: builds the configuration, says where records are kept, hands over to the supervisor."""

import subprocess
import sys
from types import ModuleType

import pytest

from mpbroker.cli import main as cli


@pytest.fixture
def supervised(monkeypatch):
    """What the supervisor was called with; it answers with exit code 1 to be told from 0."""
    calls = []
    module = ModuleType("mpbroker.supervisor.supervisor")
    module.run = lambda config, ready_file, read_config: calls.append((config, ready_file, read_config)) or 1
    monkeypatch.setitem(sys.modules, "mpbroker.supervisor", ModuleType("mpbroker.supervisor"))
    monkeypatch.setitem(sys.modules, "mpbroker.supervisor.supervisor", module)
    monkeypatch.setattr("os.environ", {"KAFKA_HEAP_OPTS": "-Xmx1g"})
    return calls


def test_start_hands_the_configuration_to_the_supervisor(supervised, capsys, tmp_path):
    code = cli.main(["start", "--data-dir", str(tmp_path), "--ready-file", "r.json", "--override", "node.id=3"])
    ((config, ready_file, read_config),) = supervised
    assert read_config().texts == config.texts
    assert (code, config.node_id, config.data_dir, ready_file) == (1, 3, str(tmp_path), "r.json")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"mpbroker: data directory {tmp_path}",
        "mpbroker: KAFKA_HEAP_OPTS is ignored: it is not a setting of this broker",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--listener", "INTERNAL://127.0.0.1:0"],
            "listeners=INTERNAL://127.0.0.1:0: INTERNAL has no security protocol; "
            "add INTERNAL:PLAINTEXT to listener.security.protocol.map",
        ),
        (["--override", "num.io.thread=4"], "did you mean num.io.threads?"),
        (["--override", "num.io.threads=none"], "num.io.threads=none: must be a whole number from 1 to 63"),
        (["no-such-file"], "configuration file no-such-file cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_configuration_is_one_sentence_and_exit_code_2(supervised, capsys, words, sentence):
    assert cli.main(["start", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert supervised == []


def test_the_way_to_the_supervisor_imports_little():
    """Slow modules have no place before the first fork; dataclasses alone imports inspect, ast and tokenize."""
    script = (
        "import sys, mpbroker.cli.start, mpbroker.config.load_config as b; b.load_broker_config(environ={}); "
        "print(' '.join(sys.modules))"
    )
    found = modules_after(script)
    slow = {
        "argparse",
        "shutil",
        "encodings.ascii",
        "dataclasses",
        "inspect",
        "ast",
        "json",
        "logging",
        "socket",
        "asyncio",
        "ssl",
        "subprocess",
        "sqlite3",
        "difflib",
        "ipaddress",
        "pathlib",
        "tempfile",
        "multiprocessing",
        "concurrent",
        "urllib",
        "mpbroker.protocol",
        "mpbroker.config.describe",
        "mpbroker.config.document",
        "mpbroker.config.topic_config",
    }
    assert found & slow == set()
    assert len([name for name in found if name.startswith("mpbroker")]) <= 27


def test_what_is_forked_first_imports_little():
    """A broker does without what msgspec brings for others, and pathlib with its URLs; each costs milliseconds of a
    start and memory of every process. What was left out of msgspec is there when it is asked for."""
    script = (
        "import sys; before = {*sys.modules}; import mpbroker.supervisor.lean_imports as m; m.import_msgspec(); "
        "import mpbroker.supervisor.supervisor; "
        "from mpbroker.supervisor.process_types import resolve_mains; resolve_mains(False); "
        "print(' '.join({*sys.modules} - before)); import msgspec, uuid, platform; "
        "assert msgspec.json.schema(int) == {'type': 'integer'} and msgspec.inspect.type_info(int) and uuid.uuid4(); "
        "assert msgspec.toml and platform.machine() and not hasattr(msgspec, 'nothing')"
    )
    slow = {"argparse", "dataclasses", "inspect", "ipaddress", "logging", "msgspec.inspect", "pathlib", "platform"}
    slow |= {"mpbroker.protocol.messages_by_key", "shutil", "subprocess", "tempfile", "textwrap", "typing_extensions"}
    assert modules_after(script) & slow == set()


def test_the_tracer_gets_pathlib_without_addresses():
    """Turning a path into an address is there when it is asked for."""
    script = (
        "import sys, msgspec; del msgspec; import mpbroker.supervisor.lean_imports as m; m.import_pathlib(); "
        "import pathlib; print(' '.join(sys.modules)); import urllib.parse; "
        "assert pathlib.Path('/a b').as_uri() == 'file:///a%20b' and urllib.parse.quote('a b') == 'a%20b'"
    )
    found = modules_after(script)
    assert "pathlib" in found
    assert {"urllib.parse", "ipaddress"} & found == set()


def modules_after(script):
    """What a Python has imported that ran a script which prints it."""
    command = [sys.executable, "-c" if "msgspec" in script else "-Sc", script]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
