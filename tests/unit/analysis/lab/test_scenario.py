"""Scenario files: those that come with mpbroker are right, and a wrong one is told in one sentence."""

import copy
import re
import tomllib

import pytest

from mpbroker.analysis.lab import scenario
from mpbroker.analysis.lab.schedule import CLOSED
from mpbroker.analysis.lab.toml_fields import ScenarioError
from tests.tidy.source_tree import ROOT

GOOD = tomllib.loads("""
question = "Is it right?"
seconds = 4
measured = "light"
[broker]
"num.partitions" = 2
[[variant]]
name = "plain"
[[variant]]
name = "planes"
control_listener = true
[variant.broker]
"num.network.threads" = 2
[[phase]]
name = "idle"
share = 1
[[phase]]
name = "flood"
share = 3
[[group]]
name = "light"
clients = 2
listener = "control"
api = "api_versions"
rate_per_s = 50
[[group]]
name = "heavy"
clients = 8
api = "produce"
loop = "closed"
phases = ["flood"]
""")


def _changed(*path, value=None):
    document = copy.deepcopy(GOOD)
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


def test_a_scenario_is_read():
    read = scenario.parse("good", GOOD)
    assert [variant.control_listener for variant in read.variants] == [False, True]
    assert read.variants[1].broker == {"num.network.threads": 2} and read.broker == {"num.partitions": 2}
    assert read.durations_s(8.0) == [2.0, 6.0]
    light, heavy = read.groups
    assert light.rates == (50.0, 50.0) and light.in_flight == 5 and light.listener == "control"
    assert heavy.rates == (0.0, CLOSED) and heavy.loop == "closed"


def test_who_waits_for_each_answer_has_one_request_in_flight():
    group = {**GOOD["group"][0], "api": "classic_member", "group_size": 2, "turns": 3}
    read = scenario.parse("good", _changed("group", 0, value=group) | {"repeat": 5})
    assert (read.groups[0].in_flight, read.groups[0].group_size, read.groups[0].turns, read.repeat) == (1, 2, 3, 5)
    assert scenario.parse("good", GOOD).repeat == 1


def test_a_rate_per_phase_is_silence_elsewhere():
    read = scenario.parse("good", _changed("group", 0, "rate_per_s", value={"flood": 7}))
    assert read.groups[0].rates == (0.0, 7.0)


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (_changed("question"), "question is missing"),
        (_changed("speed", value=3), "there is no key 'speed'"),
        (_changed("seconds", value="long"), "seconds must be a number"),
        (_changed("seconds", value=0.1), "0.5 to 120"),
        (_changed("seconds", value=110), "200 for all variants"),
        (_changed("group", value=[]), "at least one [[group]]"),
        (_changed("group", 0, "api", value="teleport"), "group 1: api=teleport: must be one of produce"),
        (_changed("group", 0, "clients", value=0), "group 1: clients=0"),
        (_changed("group", 0, "clients", value=True), "clients must be a whole number"),
        (_changed("group", 0, "rate_per_s", value=-1), "more than 0"),
        (_changed("group", 0, "rate_per_s"), "rate_per_s is more than 0"),
        (_changed("group", 1, "rate_per_s", value=5), "belongs to loop"),
        (_changed("group", 1, "phases", value=["storm"]), "there is no phase 'storm'"),
        (_changed("seconds", value=100) | {"group": [{**GOOD["group"][0], "rate_per_s": 90_000}]}, "at most 3000000"),
        (_changed("group", 0, value={**GOOD["group"][0], "api": "transaction", "in_flight": 5}), "in_flight is 1"),
        (_changed("repeat", value=0), "repeat=0"),
        (_changed("measured", value="nobody"), "there is no group 'nobody'"),
        (_changed("variant", 1, "name", value="plain"), "two of the variants"),
        (_changed("variant", 0, "broker", value=3), "broker must be a table"),
    ],
)
def test_what_is_wrong_is_one_sentence(document, word):
    with pytest.raises(ScenarioError) as raised:
        scenario.parse("bad", document)
    assert word in str(raised.value) and "\n" not in str(raised.value) and raised.value.exit_code == 2


def test_a_file_names_itself_in_its_mistakes(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("question = ")
    with pytest.raises(ScenarioError, match=r"mine.toml"):
        scenario.load(str(path))
    path.write_text("question = 'What?'")
    with pytest.raises(ScenarioError, match=r"mine.toml: seconds is missing"):
        scenario.load(str(path))


def test_an_unknown_name_is_answered_with_the_list():
    with pytest.raises(scenario.NoScenario, match="noisy-neighbour"):
        scenario.load("nothing")
    with pytest.raises(scenario.NoScenario):
        scenario.load("../scenarios/steady")


def test_the_scenarios_of_the_package():
    assert set(scenario.names()) >= {"control-under-flood", "noisy-neighbour", "ramp-to-saturation", "steady"}
    for name in scenario.names():
        read = scenario.load(name)
        assert read.question.endswith("?")
        assert read.seconds * len(read.variants) <= scenario.LOAD_SECONDS_MAX


def test_the_scenario_of_the_page_is_one():
    page = (ROOT / "docs" / "lab.md").read_text()
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    found = scenario.parse("own", tomllib.loads(text))
    scenario.check_seconds(found, found.seconds)
    assert [group.name for group in found.groups] == ["producers", "readers"]
