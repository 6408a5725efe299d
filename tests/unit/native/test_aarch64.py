"""The C core compiles for a machine with weaker memory order and other sizes of the C library's types, where a cross
compiler is installed. `make -C native aarch64-run` runs its tests under qemu-user."""

import shutil
import subprocess

import pytest

from tests.tidy.layers import NATIVE_ROOMS
from tests.tidy.source_tree import ROOT

CC = "aarch64-linux-gnu-gcc"
NATIVE = ROOT / "native"


@pytest.mark.skipif(not shutil.which(CC), reason=f"{CC} is not installed")
def test_the_core_compiles_for_aarch64():
    rooms = [room for room in NATIVE_ROOMS if room != "python"]
    sources = [str(path) for room in rooms for path in sorted((NATIVE / room).glob("*.c"))]
    flags = [
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
        "-pthread",
        "-fno-strict-aliasing",
        "-I.",
        "-fsyntax-only",
    ]
    done = subprocess.run([CC, *flags, *sources], cwd=NATIVE, capture_output=True, text=True)
    assert len(sources) > 30
    assert done.returncode == 0, done.stderr[-3000:]
