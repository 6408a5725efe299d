"""The frame of the command: help, exit codes, errors as one sentence, and what is imported when."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mpbroker.cli import main as cli
from mpbroker.errors import ConfigError, DataDirectoryInUse, ErrorCode, KafkaError, NothingRuns


@pytest.fixture
def command(monkeypatch):
    """command(run) makes `mpbroker fake` a command that calls run(arguments)."""

    def install(run):
        module = SimpleNamespace(
            DESCRIPTION="Fake.",
            EXAMPLES=(("mpbroker fake", "fakes"),),
            run=run,
            define=lambda parser: parser.add_argument("--n", type=int, default=0),
        )
        monkeypatch.setitem(cli.COMMANDS, "fake", "fakes")
        monkeypatch.setattr(cli, "import_module", lambda name: module)

    return install


def test_help_names_every_command_and_has_examples(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in cli.COMMANDS)
    assert "examples:" in text


def test_no_command_shows_help_and_is_a_usage_error(capsys):
    assert cli.main([]) == 2
    assert "usage: mpbroker" in capsys.readouterr().out


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mpbroker 0.")


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_teaches_with_examples(name, capsys):
    assert cli.main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: mpbroker {name}" in text
    assert f"  mpbroker {name}" in text.partition("examples:")[2]


def test_an_unknown_command(capsys):
    assert cli.main(["strat"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "mpbroker: there is no command 'strat'; did you mean start?\n"
    assert cli.main(["xyzzy"]) == 2
    assert capsys.readouterr().err.startswith("mpbroker: there is no command 'xyzzy'; there are: start,")


def test_a_wrong_argument_is_one_sentence(command, capsys):
    command(lambda arguments: 0)
    assert cli.main(["fake", "--n", "x"]) == 2
    assert capsys.readouterr().err == ("mpbroker: argument --n: invalid int value: 'x' (see `mpbroker fake --help`)\n")


def test_abbreviated_options_are_not_guessed(capsys):
    assert cli.main(["start", "--over", "a=b"]) == 2
    error = capsys.readouterr().err
    assert "unrecognized arguments: --over; did you mean --override? (see `mpbroker start --help`)" in error


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (ConfigError("a.b", "x", "a number"), 2, "mpbroker: a.b=x: must be a number\n"),
        (DataDirectoryInUse("/d", 7), 3, "mpbroker: data directory /d is in use by pid 7\n"),
        (NothingRuns("/d"), 3, "mpbroker: no broker runs on data directory /d\n"),
        (
            KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about="t"),
            1,
            "mpbroker: UNKNOWN_TOPIC_OR_PARTITION (3): t: This broker has no such topic or partition.\n",
        ),
        (ConnectionRefusedError(111, "Connection refused"), 1, "mpbroker: Connection refused\n"),
        (FileNotFoundError(2, "No such file or directory", "f"), 1, "mpbroker: f: No such file or directory\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_a_sentence_and_an_exit_code(command, capsys, error, code, sentence):
    def run(arguments):
        raise error

    command(run)
    assert cli.main(["fake"]) == code
    assert capsys.readouterr().err == sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["topic", "crate"], "did you mean create? (see `mpbroker topic --help`)"),
        (["topic", "create"], "required: TOPIC (see `mpbroker topic create --help`)"),
        (
            ["topic", "create", "t", "--partition", "2"],
            "did you mean --partitions? (see `mpbroker topic create --help`)",
        ),
        (["trace", "stats", "--jsn"], "(see `mpbroker trace stats --help`)"),
        (["produce", "t", "-z", "gzib"], "did you mean gzip? (see `mpbroker produce --help`)"),
    ],
)
def test_a_usage_error_names_the_help_of_the_subcommand_and_guesses(words, sentence, capsys):
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_help_before_a_command_is_help_after_it(capsys):
    assert cli.main(["help", "start"]) == 0
    first = capsys.readouterr().out
    assert cli.main(["start", "--help"]) == 0
    assert capsys.readouterr().out == first
    assert cli.main(["help", "topic", "create"]) == 0
    text = capsys.readouterr().out
    assert "usage: mpbroker topic create" in text and "examples:" in text


def test_the_commands_own_exit_code_is_kept(command):
    command(lambda arguments: arguments.n)
    assert [cli.main(["fake", "--n", str(n)]) for n in (0, 1, 3)] == [0, 1, 3]


def test_a_bug_shows_its_traceback(command):
    def run(arguments):
        raise ZeroDivisionError

    command(run)
    with pytest.raises(ZeroDivisionError):
        cli.main(["fake"])


def test_a_line_is_written_at_once_also_without_buffers():
    """Read from a pipe that keeps writes apart."""
    reader, writer = os.pipe2(os.O_DIRECT)
    command = [sys.executable, "-m", "mpbroker", "--version"]
    subprocess.run(command, stdout=writer, env={**os.environ, "PYTHONUNBUFFERED": "1"}, check=True)
    os.close(writer)
    assert os.read(reader, 4096).endswith(b"\n") and os.read(reader, 4096) == b""
    os.close(reader)


def test_a_reader_that_goes_away_is_no_error():
    script = (
        "import sys; from mpbroker.cli import main as c; c.overview = lambda: 'x' * 300000; sys.exit(c.main(['help']))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_the_frame_imports_no_command_and_no_parser():
    script = (
        "import sys, mpbroker.cli.main; "
        "print(sorted(m for m in sys.modules if m.startswith('mpbroker') or m == 'argparse'))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "['mpbroker', 'mpbroker.cli', 'mpbroker.cli.main', 'mpbroker.cli.usage', 'mpbroker.errors']"


def test_the_module_runs_as_the_command():
    done = subprocess.run([sys.executable, "-m", "mpbroker", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mpbroker ")
