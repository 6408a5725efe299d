"""Records which test touches which function: `python -m tests.mutation.record`, or a part: `unit`, other words for
pytest, or `programs [NAME ...]` of native/tests.

Takes some three times as long as the tests themselves: minutes for `unit` and `programs`, which is what `make mutants`
asks for. What is recorded stands in `.mutants/touched` and holds until
tests move; the nearest tests of a change (nearest.py) come from it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from tests.mutation.native_build import NativeBuild
from tests.mutation.nearest import NOT_PICKED
from tests.mutation.touched import MAP_BYTES, PLACES, place
from tests.mutation.working_copy import WorkingCopy, heed_signals

ROOT = Path(__file__).resolve().parents[2]
TOUCHED = ROOT / ".mutants" / "touched"
HERE = Path(__file__).parent
INSTRUMENTED = ["-O1", "-g", "-fno-inline", "-falign-functions=16", "-finstrument-functions"]
PROGRAM_LIMIT_S, PYTEST_LIMIT_S = 60, 3600


def native_places(binary: Path) -> dict[int, int]:
    """Place by address in a binary → number of the function there."""
    names = subprocess.run(["nm", "--defined-only", str(binary)], capture_output=True, text=True, check=True).stdout
    addresses = [line.split()[0] for line in names.splitlines() if line.split()[1] in "tT"]
    asked = ["addr2line", "-f", "-e", str(binary), *addresses]
    lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for address, name, source in zip(addresses, lines[::2], lines[1::2], strict=True):
        path = source.rpartition("/native/")[2].partition(":")[0]
        if path.endswith(".c"):
            found[PLACES + (int(address, 16) >> 4) % PLACES] = place(f"native/{path}", name)
    return found


class Recorder:
    """An instrumented copy of the tree."""

    def __init__(self, directory: Path) -> None:
        TOUCHED.mkdir(parents=True, exist_ok=True)
        self._copy = WorkingCopy(ROOT, directory)
        self._native = NativeBuild(self._copy.tree, self._copy.build, TOUCHED.parent / "objects", INSTRUMENTED)
        self._watcher = directory / "touched.o"
        flags = ["-O2", "-fPIC", f"-I{sysconfig.get_path('include')}"]
        source = str(HERE / "touched.c")
        subprocess.run(["gcc", *flags, "-c", source, "-o", str(self._watcher)], check=True)
        self._program_map = directory / "map"
        self._modules = directory / "modules"
        self._modules.mkdir()
        module = str(self._modules / f"mpbroker_touched{sysconfig.get_config_var('EXT_SUFFIX')}")
        subprocess.run(["gcc", *flags, "-DPYTHON", "-shared", source, "-o", module], check=True)

    def programs(self, names: list[str]) -> None:
        """Each program of native/tests once, or those named."""
        names = names or sorted(path.stem[5:] for path in (ROOT / "native" / "tests").glob("*/test_*.c"))
        for name in names:
            (TOUCHED / f"program_{name}.jsonl").write_text(json.dumps(self._program(name)) + "\n")

    def _program(self, name: str) -> dict[str, object]:
        binary, map_file = self._native.program(name, [str(self._watcher)]), self._program_map
        map_file.write_bytes(bytes(MAP_BYTES))
        begun = time.monotonic()
        outcome = self._copy.run([str(binary)], PROGRAM_LIMIT_S, {"TOUCHED_MAP": str(map_file)})
        if not (outcome.green or outcome.hung):
            print(f"program {name} is red when it is watched: what it would touch is not known", file=sys.stderr)
        spent, seen, known = time.monotonic() - begun, map_file.read_bytes(), native_places(binary)
        touched = sorted(number for at, number in known.items() if seen[at])
        map_file.unlink()
        return {"test": f"program {name}", "slow": False, "setup_s": 0.0, "call_s": round(spent, 3), "touched": touched}

    def tests(self, words: list[str]) -> None:
        """Tests of pytest; red ones are recorded like others."""
        extension = self._native.link_extension([str(self._watcher)])
        (TOUCHED / "native.json").write_text(json.dumps(native_places(extension)))
        paths = [str(HERE / "every_process"), str(self._modules), str(self._copy.tree)]
        environment = {"PYTHONPATH": os.pathsep.join(paths), "TOUCHED_DIR": str(TOUCHED)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark"]
        command += ["-p", "tests.mutation.touch_plugin", "-n", "2", "--dist", "loadscope", "--timeout", "120"]
        command += [f"--ignore={path}" for path in NOT_PICKED]
        self._copy.run([*command, *words], PYTEST_LIMIT_S, environment)
        told = self._copy.log.read_text()
        (TOUCHED.parent / "record.log").write_text(told)
        print(told[-3000:])
        for left in TOUCHED.glob("map.*"):
            left.unlink()


def main() -> None:
    """Run it from the command line."""
    heed_signals()
    what, words = sys.argv[1:2], sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="touched-") as directory:
        recorder = Recorder(Path(directory))
        if what in ([], ["programs"]):
            recorder.programs(words)
        if what != ["programs"]:
            recorder.tests(["-m", "not slow", *words] if what == ["unit"] else sys.argv[1:])


if __name__ == "__main__":
    main()
