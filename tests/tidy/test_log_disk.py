"""mpbroker/log reaches the kernel through one module, where tests make every call fail, as native/log does
(test_native_parts.py)."""

import re

from tests.tidy.source_tree import ROOT

LOG = ROOT / "mpbroker" / "log"
#: Calls on files and directories; `disk.…` are the ways to them.
FILE_CALLS = re.compile(
    r"(?<![\w.])(?:open\(|os\.(?:open|fdopen|close|read|pread|write|pwrite|writev|sendfile|f?truncate|posix_fallocate|"
    r"f?stat|lstat|f?statvfs|rename|replace|unlink|remove|link|symlink|mkdir|makedirs|rmdir|removedirs|listdir|scandir|"
    r"walk|f?sync|fdatasync|access|utime|path\.(?:l?exists|is\w+|getsize|get.time|realpath))\b|shutil\.|tempfile\.)"
)
TEXT = re.compile(r'""".*?"""|#[^\n]*', re.DOTALL)


def test_the_log_calls_the_kernel_in_one_module():
    calls = {path.name: FILE_CALLS.findall(TEXT.sub("", path.read_text())) for path in LOG.glob("*.py")}
    assert len(calls.pop("disk.py")) > 15, "the pattern finds the calls"
    assert not {name: found for name, found in calls.items() if found}


def test_every_call_asks_the_hook_first():
    """Each function of the module that calls the kernel asks before it does; closing alone may not fail."""
    text = TEXT.sub("", (LOG / "disk.py").read_text())
    bodies = dict(re.findall(r"^def (\w+)(.*?)(?=^def |^@|\Z)", text, re.MULTILINE | re.DOTALL))
    calling = {name: found.start() for name, body in bodies.items() if (found := FILE_CALLS.search(body))}
    unasked = {name for name, at in calling.items() if "_ask(" not in bodies[name][:at]}
    assert len(calling) > 12 and unasked == {"close", "opened"}, unasked
