"""The `mpbroker` command: finds the subcommand's module, parses its arguments, turns errors into sentences and exit
codes.

A command is a module of this package with `DESCRIPTION`, `EXAMPLES` (pairs of command line and meaning),
`define(parser)` and `run(arguments) -> exit code`; `plain(words) -> arguments or None`, if it has one, spares it the
parser. To add one, write the module and its line in `COMMANDS`. Nothing else is imported before the command is known,
so that `mpbroker start` answers its first request soon.

Exit codes: 0 clean, 1 failure while running, 2 configuration or usage, 3 data directory in use (for commands that reach
a running broker: nothing runs there), 130 after Ctrl-C, without a word, in every command but `start`, which it stops.
"""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mpbroker.cli.usage import USAGE, UsageError, example_text, guess
from mpbroker.errors import ConfigError, MpbrokerError

if TYPE_CHECKING:
    from mpbroker.cli.parsers import Parser

OK, FAILED, NOT_AVAILABLE, INTERRUPTED = 0, 1, 3, 130

COMMANDS = {
    "start": "run a broker in the foreground",
    "cluster": "run several brokers on this machine as one cluster",
    "demo": "see a broker lose a worker and nothing else",
    "status": "show what every process of a broker does",
    "top": "watch processes, rates, latencies, topics and groups",
    "stop": "end the broker of a data directory",
    "topic": "create, list, describe, alter and delete topics",
    "group": "list, describe, reset and delete consumer groups",
    "txn": "list, describe and abort transactions",
    "config": "show and change settings of topics and brokers",
    "produce": "write lines, JSON or a whole file to a topic",
    "consume": "print the records of a topic",
    "log": "look into segments, indexes and snapshots of a partition",
    "format": "prepare a data directory without starting a broker",
    "adopt": "make topics of partition directories that belong to none",
    "trace": "show where requests spent their time",
    "lab": "run an experiment: scenarios, open-loop load, studies, a report",
    "bench": "measure a broker: throughput, CPU per request, latency",
    "completion": "print a completion script for bash, zsh or fish",
}

_FIRST_STEPS = (
    ("mpbroker start", "a broker on 127.0.0.1:9092, its records in ./mpbroker-data"),
    ("mpbroker COMMAND --help", "what a command takes, with examples"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Every expected error is one sentence on stderr."""
    words = list(sys.argv[1:] if argv is None else argv)
    _write_whole_lines()
    try:
        code = _dispatch(words)
        if sys.stdout is not None:  # started with stdout closed
            sys.stdout.flush()
        return code
    except ConfigError as error:
        for one in error.errors:
            _complain(str(one), error.exit_code)
        return error.exit_code
    except MpbrokerError as error:
        return _complain(str(error), error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): nobody is left to tell, and Python must not try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}{_whose(error)}", FAILED)
    except SystemExit as ended:  # argparse has printed the help
        return int(ended.code or OK)
    except KeyboardInterrupt:  # whoever pressed Ctrl-C knows; the code is the one a shell gives such a command
        return INTERRUPTED


def _write_whole_lines() -> None:
    """Where PYTHONUNBUFFERED is set, as in containers, `print` writes a line and its end one after the other, and who
    writes to the same pipe, as a broker and its clients in a script do, comes between."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.write_through:
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _whose(error: OSError) -> str:
    """Whose the file is that this user may not touch."""
    if not isinstance(error, PermissionError) or not isinstance(error.filename, str):
        return ""
    from mpbroker.shm.owner import owner_of, user_name

    uid = owner_of(os.path.abspath(error.filename))
    return "" if uid is None or uid == os.geteuid() else f"; it belongs to {user_name(uid)}"


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return OK if words else USAGE
    if words[0] in ("-V", "--version"):
        from mpbroker import __version__

        print(f"mpbroker {__version__}")
        return OK
    command = load(words[0])
    plain = getattr(command, "plain", None)
    arguments = (plain and plain(words[1:])) or parser_for(words[0], command).read(words[1:])
    return int(command.run(arguments))


def load(name: str) -> Any:
    """The module of a command; UsageError for an unknown one."""
    if name not in COMMANDS:
        near = guess(name, COMMANDS) or f"; there are: {', '.join(COMMANDS)}"
        raise UsageError(f"there is no command {name!r}{near}")
    return import_module(f"mpbroker.cli.{name.replace('-', '_')}")


def parser_for(name: str, command: Any) -> "Parser":
    """The argument parser of a command; its mistakes become UsageErrors."""
    from mpbroker.cli import parsers

    return parsers.parser_for(name, command)


def overview() -> str:
    """The help of the command itself."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: mpbroker COMMAND …",
            "",
            "A Kafka-compatible broker made of cooperating processes.",
            "",
            "commands:",
            *lines,
            "",
            example_text(_FIRST_STEPS),
        ]
    )


def _complain(sentence: str, code: int) -> int:
    print(f"mpbroker: {sentence}", file=sys.stderr)
    return code
