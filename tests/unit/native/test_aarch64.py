"""The C core and its test programs compile for a machine with weaker memory order and other sizes of the C library's
types, where a cross compiler is installed. `make -C native aarch64-run` runs the programs under qemu-user."""

import shutil
import subprocess

import pytest

from tests.tidy.layers import NATIVE_ROOMS
from tests.tidy.source_tree import ROOT

CC = "aarch64-linux-gnu-gcc"
NATIVE = ROOT / "native"
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
FLAGS = ["-std=gnu11", "-O0", *WARNINGS, "-pthread", "-fno-strict-aliasing", f"-I{NATIVE}"]
WITH_CRASH_POINTS = "-DMPB_INJECT=1"


def compiled(sources, where, *flags):
    """Compiled wholly: a look at the syntax alone does not see what nobody uses there."""
    names = [str(path) for path in sources]
    return subprocess.run([CC, *FLAGS, "-c", *flags, *names], cwd=where, capture_output=True, text=True)


@pytest.mark.skipif(not shutil.which(CC), reason=f"{CC} is not installed")
@pytest.mark.parametrize("what, flags", [("core", []), ("core", [WITH_CRASH_POINTS]), ("tests", [WITH_CRASH_POINTS])])
def test_it_compiles_for_aarch64(tmp_path, what, flags):
    rooms = [room for room in NATIVE_ROOMS if room != "python"] if what == "core" else ["tests/*"]
    sources = [path for room in rooms for path in sorted(NATIVE.glob(f"{room}/*.c"))]
    assert len(sources) > 30
    done = compiled(sources, tmp_path, *flags)
    assert done.returncode == 0, done.stderr[-3000:]
