"""Findings: one ranked list over all studies, each with an action that names real settings."""

import json
import re

import pytest

from mpbroker.analysis.engine.measures.time_costs import DOING, KINDS
from mpbroker.analysis.engine.running import finding
from mpbroker.analysis.engine.running.actions import ACTIONS
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import StudyResult
from mpbroker.config.table import SETTINGS
from tests.tidy.source_tree import ROOT


def _results(*rows):
    """Two studies that share the findings (kind, seconds, subject) of 100 s of request time."""
    made = [Finding(kind, f"{kind} {cost}.", cost, 100.0, subject) for kind, cost, subject in rows]
    return [StudyResult(findings=made[::2]), StudyResult(findings=made[1::2])]


def test_the_dearest_come_first_whatever_study_found_them():
    found = finding.leading(_results(("queue", 9.0, ""), ("no_core", 40.0, ""), ("io", 3.5, ""), ("rx_wait", 20.0, "")))
    assert [one.kind for one in found] == ["no_core", "rx_wait", "queue", "io"]


def test_at_most_five_and_nothing_that_costs_next_to_nothing():
    rows = [(kind, 10.0 + place, "") for place, kind in enumerate(list(ACTIONS)[:8])]
    assert len(finding.leading(_results(*rows))) == 5
    assert finding.leading(_results(("queue", 1.0, ""))) == []
    assert finding.leading([StudyResult(findings=[Finding("io", "No time at all.", 0.0, 0.0)])]) == []


def test_what_two_studies_name_alike_is_one_finding():
    found = finding.leading(
        _results(("queue", 20.0, ""), ("queue", 30.0, ""), ("slow_client", 9.0, "a"), ("slow_client", 8.0, "b"))
    )
    assert [(one.kind, one.cost_s) for one in found] == [("queue", 30.0), ("slow_client", 9.0), ("slow_client", 8.0)]


def test_what_is_said_closer_stands_in_the_place_of_the_other():
    """From half of it on; two that say the same closely both stand."""
    queue = Finding("queue", "Waits.", 40.0, 100.0)

    def kinds(*costs):
        closer = [
            Finding("queue" if place else "queueing", "Closer.", cost, 100.0, f"broker {place}", ("queue",))
            for place, cost in enumerate(costs)
        ]
        return [(one.kind, one.subject) for one in finding.leading([StudyResult(findings=[queue, *closer])])]

    assert kinds(19.0) == [("queue", ""), ("queueing", "broker 0")]
    assert kinds(20.0) == [("queueing", "broker 0")]
    assert kinds(12.0, 10.0) == [("queueing", "broker 0"), ("queue", "broker 1")]
    assert kinds(2.0, 50.0) == [("queue", "broker 1")], "what costs next to nothing takes no place"


def test_lines_for_a_terminal_name_cost_and_change():
    [first, second] = finding.lines(finding.leading(_results(("no_core", 40.0, ""))))
    assert first == "1. no_core 40.0. (explains 40 % of all request time (40 s))"
    assert second.startswith("   → No setting of the broker helps: the machine has no free core.")


def test_it_can_be_kept_and_read_again():
    one = Finding("queue", "It waits.", 4.0, 16.0, "x", ("work",))
    kept = json.loads(json.dumps(one.to_json()))
    assert finding.from_json(kept) == one
    assert (
        kept["share"] == 0.25 and kept["settings"] == ["num.io.threads"] and kept["change"] == ACTIONS["queue"].change
    )


@pytest.mark.parametrize("kind", ACTIONS)
def test_an_action_is_a_sentence_that_names_settings_there_are(kind):
    action = ACTIONS[kind]
    assert action.change.endswith(".") and action.change[0].isupper()
    served = set(SETTINGS)
    assert set(action.settings) <= served
    for name in (*action.settings, *action.client_settings):
        assert name in action.change
    named = set(re.findall(r"\b[a-z]+(?:\.[a-z]+)+\b", action.change))
    assert named <= {*action.settings, *action.client_settings}


def test_every_cause_of_time_has_an_action():
    assert {*KINDS.values(), *DOING, "no_core"} <= set(ACTIONS)


def test_the_page_on_traces_shows_the_same_table():
    page = (ROOT / "docs" / "traces.md").read_text()
    table = page.partition("| what is found | what to change |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| ([^|`]+?) \| ([^|]+?) \|$", table, re.MULTILINE))
    assert rows == {action.names: action.change for action in ACTIONS.values()}
