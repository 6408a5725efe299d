"""Every named crash point of the request path is killed at by a test."""

import re
from pathlib import Path

NATIVE = Path(__file__).parents[3] / "native"
FILES = (
    "shm/ring",
    "request/plane",
    "request/processor",
    "request/handler",
    "shm/doorbell",
    "shm/extent",
    "shm/arena",
    "request/recover",
    "request/command",
)


def test_the_c_test_lists_every_point_of_the_source():
    source = "".join((NATIVE / f"{name}.c").read_text() for name in FILES)
    named = set(re.findall(r'MPB_CRASH\([^"]*"([a-z_.]+)"', source))
    listed = (NATIVE / "tests/request/test_request_points.c").read_text().split("points[] = {")[1].split("};")[0]
    assert named == set(re.findall(r'"([a-z_.]+)"', listed))
    assert len(named) > 40
