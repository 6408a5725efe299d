"""The extension is loaded whole or not at all: whichever allocation is refused meanwhile, its import fails."""

import subprocess
import sys

import pytest

from mpbroker import _native

pytest.importorskip("_testcapi")  # a part of CPython that distributions may leave out

#: Loads it again and again, with the first allocation refused, with the second, and so on. CPython 3.11 forgets to say
#: so when there is no memory for the name of a type: that is told by how the import fails.
PROGRAM = """
import _testcapi, gc, importlib.util
import mpbroker.errors

spec = importlib.util.find_spec("mpbroker._native")
gc.disable()
number, refused, unsaid, good = 0, 0, 0, 0
while good < 3:
    module = importlib.util.module_from_spec(spec)
    _testcapi.set_nomemory(number, number + 1)
    try:
        spec.loader.exec_module(module)
        good += 1
    except MemoryError:
        refused, good = refused + 1, 0
    except SystemError as error:
        assert "failed without setting an exception" in str(error), error
        unsaid, good = unsaid + 1, 0
    finally:
        _testcapi.remove_mem_hooks()
    number += 1
print(refused, unsaid, good, *sorted(name for name in vars(module) if not name.startswith("__")))
"""


def test_an_import_without_memory_fails():
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600)
    assert told.returncode == 0, told.stderr
    refused, unsaid, good, *names = told.stdout.split()
    types = [one for one in vars(_native).values() if isinstance(one, type)]
    assert int(refused) > len(names) and int(unsaid) <= len(types) and good == "3"
    assert names == sorted(name for name in vars(_native) if not name.startswith("__"))
