"""`priority` finds exactly the waits, inversions and hung requests that the event model knows of."""

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import SampledTrace, open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies.priority import STUDY
from mpbroker.trace.record import TICK_NS
from tests.harness.event_model import simulate
from tests.harness.event_trace import Marker, TraceOptions, write_trace
from tests.harness.golden_trace import CALM, FLOOD, golden

VARIANTS = {
    "fifo": FLOOD._replace(discipline="fifo"),
    "blocking": FLOOD._replace(discipline="priority"),
    "priority": FLOOD._replace(discipline="priority", blocking=False),
    "plane": FLOOD._replace(discipline="plane", blocking=False),
}


#: Data requests served and overtaking, produce requests hung, for each of the two elections.
GOLDEN = [(636, 208, 129), (1455, 243, 320)]


@pytest.mark.parametrize(
    "scenario",
    [*VARIANTS.values(), FLOOD._replace(discipline="fifo", produce_timeout_ms=900)],
    ids=[*VARIANTS, "timeouts"],
)
def test_it_finds_what_the_model_knows(tmp_path, scenario):
    with golden(tmp_path, scenario) as (engine, outcome):
        result = STUDY.run(engine, StudyParameters())
    found = {row["corr_id"]: row for row in result.tables["control_requests"].to_pylist()}
    assert len(found) == len(outcome.control) == 2
    for facts in outcome.control:
        row = found[facts.corr_id]
        assert row["wait_ns"] == facts.wait * TICK_NS
        assert (row["served"], row["overtook"]) == (facts.served, facts.overtook)
        assert row["served_handler_ns"] == facts.served_ticks * TICK_NS
        assert (row["hung"], row["hung_ns"]) == (facts.hung, facts.hung_ticks * TICK_NS)
    inverted = [facts for facts in outcome.control if facts.served]
    assert result.tables["inversion_events"].num_rows == len(inverted)
    assert result.tables["hung_requests"].num_rows == sum(facts.hung for facts in outcome.control)


def test_the_flood_is_in_the_numbers(tmp_path):
    """The golden facts themselves, so that neither model nor study can drift unseen."""
    with golden(tmp_path, VARIANTS["blocking"]) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    rows = sorted(result.tables["control_requests"].to_pylist(), key=lambda row: row["epoch_ns"])
    assert [(row["served"], row["overtook"], row["hung"]) for row in rows] == GOLDEN
    assert all(row["rx_wait_ns"] > row["wait_ns"] // 2 for row in rows), "most of it is before the broker reads"
    assert "waiting in the socket" in result.verdicts[0]


def test_variants_are_compared_across_runs(tmp_path):
    """A folder per variant names it; the client on the data listener counts as control because elsewhere it is."""
    for number, (name, scenario) in enumerate(VARIANTS.items()):
        write_trace(tmp_path / name, simulate(scenario), TraceOptions(boot_id=0xA0 + number, delay_ms=60_000 * number))
    result = STUDY.run(choose_engine("local", open_input([tmp_path])), StudyParameters())
    compared = {row["variant"]: row for row in result.tables["variant_compare"].to_pylist()}
    assert list(compared) == list(VARIANTS)
    assert (
        compared["fifo"]["wait_max_us"]
        > 1e6
        > 20_000
        > compared["priority"]["wait_max_us"]
        > compared["plane"]["wait_max_us"]
    )
    assert compared["fifo"]["served"] > 1000 and compared["plane"]["served"] <= 1
    assert "“fifo”" in result.verdicts[0] or "“blocking”" in result.verdicts[0]
    assert "“plane”" in result.verdicts[0] and "times less" in result.verdicts[0]


def test_phases_are_variants_too(tmp_path):
    options = TraceOptions(markers=(Marker("phase calm", 0), Marker("phase flood", 1000), Marker("end", 3900)))
    with golden(tmp_path, FLOOD, options) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    assert [row["variant"] for row in result.tables["variant_compare"].to_pylist()] == ["flood"]


def test_a_sample_is_refused(tmp_path):
    with (
        golden(tmp_path, FLOOD, TraceOptions(sample_shift=2)) as (engine, _),
        pytest.raises(SampledTrace, match=r"priority .* sample"),
    ):
        STUDY.run(engine, StudyParameters())


def test_no_control_request_is_a_sentence(tmp_path):
    with golden(tmp_path, CALM._replace(duration_ms=500)) as (engine, outcome):
        assert "No control request" in STUDY.run(engine, StudyParameters()).verdicts[0]
        named = STUDY.run(engine, StudyParameters(options={"control_clients": "client-11, nobody"}))
    assert named.tables["variant_compare"]["control_requests"].to_pylist() == [
        sum(one.client == 11 for one in outcome.requests)
    ]


def test_requests_of_a_named_group_go_by_its_name(tmp_path):
    """They are no control requests, and neither a sentence nor a figure nor a finding calls them so."""
    with golden(tmp_path, CALM) as (engine, _):
        result = STUDY.run(engine, StudyParameters(options={"control_clients": "client-11"}))
    said = " ".join([*result.verdicts, *(one.sentence + one.change for one in result.findings)])
    drawn = str([(figure.title, figure.caption, figure.spec["layout"]) for figure in result.figures])
    assert "control request" not in said and "control request" not in drawn
    assert "requests of client-11 waited for a handler" in said and "Where requests of client-11 wait" in drawn
    names = {trace["name"] for figure in result.figures if figure.name == "wait_cdf" for trace in figure.spec["data"]}
    assert names == {"client-11", "others"}


def test_control_requests_behind_data_are_a_finding_with_a_listener_as_its_action(tmp_path):
    with golden(tmp_path, VARIANTS["fifo"]) as (engine, outcome):
        found = {one.kind: one for one in STUDY.run(engine, StudyParameters()).findings}
    waited = sum(facts.wait for facts in outcome.control if facts.served) * TICK_NS / 1e9
    assert found["control_behind_data"].cost_s == pytest.approx(waited)
    assert "control.plane.listener.name" in found["control_behind_data"].change
    assert found["hung"].cost_s == pytest.approx(sum(facts.hung_ticks for facts in outcome.control) * TICK_NS / 1e9)
    assert found["hung"].of_s > found["hung"].cost_s > 0


def test_runs_of_one_phase_stand_together_and_share_its_colour(tmp_path):
    marks = (Marker("calm", 0), Marker("flood", 1000))
    for number, name in enumerate(("one", "two")):
        options = TraceOptions(boot_id=0xA0 + number, delay_ms=60_000 * number, markers=marks)
        write_trace(tmp_path / name, simulate(VARIANTS["fifo"]._replace(elections_ms=(300, 1500))), options)
    result = STUDY.run(choose_engine("local", open_input([tmp_path])), StudyParameters())
    figures = {figure.name: figure.spec["data"] for figure in result.figures}
    assert figures["where_control_waits"][0]["y"] == ["one, calm", "two, calm", "one, flood", "two, flood"]
    styles = {trace["name"]: tuple(trace["meta"].values()) for trace in figures["waits_over_time"]}
    assert styles == {"one, calm": (0, 0), "two, calm": (0, 1), "one, flood": (1, 0), "two, flood": (1, 1)}


def test_an_empty_trace_is_a_sentence(tmp_path):
    with golden(tmp_path, CALM._replace(duration_ms=200)) as (_engine, _):
        pass
    nothing = choose_engine("local", open_input([tmp_path], to_ns=1))
    assert "nothing to say" in STUDY.run(nothing, StudyParameters()).verdicts[0]
