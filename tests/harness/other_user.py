"""A command of ours run as another user, really: a child of root that gives up its rights before the command begins."""

import os
import subprocess
import sys

import pytest

NOBODY = 65534

#: Everything is imported first: afterwards the interpreter's own files may be out of reach.
_SCRIPT = """
import importlib, os, pkgutil, sys
import mpbroker.cli, mpbroker.supervisor, mpbroker.cli.main
for package in (mpbroker.supervisor, mpbroker.cli):
    for module in pkgutil.iter_modules(package.__path__):
        try:
            importlib.import_module(f"{package.__name__}.{module.name}")
        except ImportError:
            pass
import mpbroker.metadata.store_peek
import argparse, encodings.ascii, encodings.idna, encodings.unicode_escape, json, pwd, socket, traceback
os.chdir(sys.argv[2])
os.setgroups([])
os.setresgid(*[int(sys.argv[1])] * 3)
os.setresuid(*[int(sys.argv[1])] * 3)
sys.exit(mpbroker.cli.main.main(sys.argv[3:]))
"""


def run_as(uid: int, *words: str, directory: str = "/") -> subprocess.CompletedProcess[str]:
    """`mpbroker …` in a directory as a user; skips the test where that is not possible."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a command as another user")
    command = [sys.executable, "-c", _SCRIPT, str(uid), directory, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
