"""What stands at the top of the repository: each name is one that a newcomer looks for there, and nothing that a test
or a tool left behind was taken along."""

import subprocess

from tests.tidy.source_tree import ROOT

NAMES = {
    *(".ci", ".clang-format", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"),
    *("deploy", "docs", "mpbroker", "native", "perf", "pyproject.toml", "tests"),
}


def test_nothing_else_stands_at_the_top():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {name.partition("/")[0] for name in listed.split("\0") if name} == NAMES
