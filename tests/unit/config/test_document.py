"""The generated files are fresh, and the sample file can be used as it is."""

import re
from pathlib import Path

import pytest

from mpbroker.config.document import outputs
from mpbroker.config.table import SETTINGS
from mpbroker.config.topic_table import TOPIC_SETTINGS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("path", "text"), list(outputs(ROOT)), ids=lambda value: getattr(value, "name", ""))
def test_generated_files_are_fresh(path, text):
    assert path.read_text("utf-8") == text, "run: python -m mpbroker.config.document"


def test_every_setting_is_documented():
    page = dict(outputs(ROOT))[ROOT / "docs" / "configuration.md"]
    assert set(re.findall(r"^\| `([a-z0-9._]+)` ", page, re.MULTILINE)) == set(SETTINGS) | set(TOPIC_SETTINGS)


def test_the_sample_starts_a_broker_with_defaults(configure):
    assert configure(path=str(ROOT / "deploy" / "server.properties")).value("queued.max.requests") == 500


def test_the_sample_uncommented_says_the_same(configure, tmp_path):
    lines = (ROOT / "deploy" / "server.properties").read_text().splitlines()
    # An empty value stands for "not set"; what depends on the cores stands in brackets; two settings exclude each
    # other.
    given = [
        line[1:]
        for line in lines
        if re.match(r"#[a-z.]+=[^(]", line) and not line.startswith(("#security.inter.broker", "#log.dir="))
    ]
    path = tmp_path / "all.properties"
    path.write_text("\n".join(given))
    config, plain = configure(path=str(path)), configure()
    assert len(given) > 60
    assert {name: config.value(name) for name in SETTINGS} == {name: plain.value(name) for name in SETTINGS}
