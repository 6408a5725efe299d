"""Completion is what the shells really offer: each script is loaded by its shell, where that is installed."""

import shutil
import subprocess

import pytest

from mpbroker.cli import completion, main, parsers

BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_mpbroker
printf '%s\\n' "${COMPREPLY[@]}"
"""
#: zsh's own functions, as far as the script calls them: they print what they are given.
ZSH = """
compdef() { : }
_files() { print -l -- *(N) }
compadd() { [[ $1 == -- ]] && shift; print -l -- "$@" }
_describe() { [[ $1 == -o ]] && shift; for one in "${(@P)2}"; do print -r -- "${one%%:*}"; done }
source "$1"
shift
words=("$@")
CURRENT=$#
_mpbroker
"""
CASES = [
    (["mpbroker", "st"], {"start", "status", "stop"}, {"topic"}),
    (["mpbroker", ""], {*main.COMMANDS, "help"}, set()),
    (["mpbroker", "topic", ""], {"create", "list", "describe", "alter", "add-partitions", "delete"}, {"topic"}),
    (["mpbroker", "log", "dump", "--"], {"--batches", "--offsets", "--json"}, {"--bootstrap-server"}),
    (["mpbroker", "group", ""], {"list", "describe", "reset", "delete"}, {"create"}),
    (["mpbroker", "group", "reset", "--to-"], {"--to-earliest", "--to-latest", "--to-offset"}, {"--topic"}),
    (["mpbroker", "topic", "create", "--p"], {"--partitions"}, {"--json"}),
    (["mpbroker", "help", "to"], {"topic"}, {"start"}),
    (["mpbroker", "help", "topic", "de"], {"describe", "delete"}, {"create"}),
    (["mpbroker", "produce", "orders", "-z", ""], {"none", "gzip", "snappy", "lz4", "zstd"}, {"--acks"}),
    (["mpbroker", "produce", "orders", "--compression", "l"], {"lz4"}, {"gzip"}),
    (["mpbroker", "completion", ""], {"bash", "zsh", "fish"}, set()),
    (["mpbroker", "trace", "stu"], {"study"}, {"tail"}),
    (["mpbroker", "start", "--data-dir", "my"], {"my folder"}, {"--listener"}),
]


@pytest.fixture
def offered(tmp_path, capsys, monkeypatch):
    """What a shell offers for some words, in a folder that has `my folder`."""

    def ask(shell, words):
        program = shutil.which(shell)
        if program is None:
            pytest.skip(f"{shell} is not installed")
        assert main.main(["completion", shell]) == 0
        script = tmp_path / "script"
        script.write_text(capsys.readouterr().out)
        (tmp_path / "place" / "my folder").mkdir(parents=True)
        if shell == "fish":
            text = " ".join(words)
            command = [program, "--no-config", "-c", f"source {script}; complete -C '{text}'"]
        else:
            options = ["--norc", "--noprofile"] if shell == "bash" else ["-f"]
            command = [program, *options, "-c", BASH if shell == "bash" else ZSH, shell, str(script), *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path / "place", timeout=30)
        assert (done.returncode, done.stderr) == (0, "")
        found = {line.partition("\t")[0].rstrip("/").replace("\\", "") for line in done.stdout.splitlines()}
        # zsh and fish leave it to the shell to pick those that begin like the last word
        return {word for word in found if word.startswith(words[-1])}

    return ask


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(("words", "there", "not_there"), CASES, ids=lambda value: None)
def test_a_shell_offers_what_may_follow(offered, shell, words, there, not_there):
    found = offered(shell, words)
    assert there <= found and not not_there & found


def test_bash_offers_nothing_that_does_not_fit(offered):
    assert offered("bash", ["mpbroker", "topic", "create", "--part"]) == {"--partitions"}


def test_every_flag_of_every_command_is_known(capsys):
    places = {place.path: place for place in completion.places()}
    assert set(main.COMMANDS) == {path[0] for path in places if len(path) == 1}
    for name in main.COMMANDS:
        parser = main.parser_for(name, main.load(name))
        below = parsers.subcommands(parser)
        assert set(below) <= set(places[(name,)].words)
        for path, one in [((name,), parser), *(((name, verb), each) for verb, each in below.items())]:
            assert parsers.flags(one) == [flag for row in places[path].options for flag in row.flags]


def test_another_shell_is_a_usage_error(capsys):
    assert main.main(["completion", "tcsh"]) == 2
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err
