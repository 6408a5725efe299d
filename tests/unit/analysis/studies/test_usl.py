"""`usl`: the law that the runs were made to follow; and its refusals."""

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.mathematics.bend import Scaling
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.engine.running.study_options import BadStudyOption
from mpbroker.analysis.studies import service, usl
from tests.harness.leading_findings import leading
from tests.harness.record_trace import Lane, request, write_segment

LAW = Scaling(300.0, 0.05, 0.02)


def _run(directory, numbers, times=(1.0,) * 6, **options):
    """A run a boot, one after the other, of two seconds each."""
    for place, n in enumerate(numbers):
        count = round(2 * float(LAW.at(n)) * times[place])
        begin = (1 + 10 * place) * 1_000_000_000
        records = [request(begin + k * 2_000_000_000 // count) for k in range(count)]
        write_segment(directory / f"run{place}", records, Lane(boot_id=0xB000 - place))
    source = open_input([directory / f"run{place}" for place in range(len(numbers))])
    return usl.STUDY.run(choose_engine("local", source), StudyParameters(window_ms=100, options=options))


def test_the_law_of_the_runs_is_found(tmp_path):
    result = _run(tmp_path, [1, 2, 4, 8, 12, 16], n="1,2,4,8,12,16", by="cores")
    [row] = result.tables["usl"].to_pylist()
    assert row["one_s"] == pytest.approx(300, rel=0.05) and row["coherence"] == pytest.approx(0.02, rel=0.3)
    assert row["peak_low"] <= LAW.peak * 1.05 and row["peak"] == pytest.approx(LAW.peak, rel=0.1)
    points = result.tables["usl_points"].to_pylist()
    assert [point["n"] for point in points] == [1, 2, 4, 8, 12, 16], "by time"
    assert all(point["requests_s"] == pytest.approx(float(LAW.at(point["n"])), rel=0.1) for point in points)
    assert result.verdicts[0].startswith("Throughput is highest with 7 cores")


def test_fewer_than_five_numbers_are_refused(tmp_path):
    result = _run(tmp_path, [1, 2, 4, 4, 8], n="1,2,4,4,8", by="cores")
    assert result.tables["usl"].num_rows == 0 and "at least 5 different numbers" in result.verdicts[0]


@pytest.mark.parametrize("options", [{"by": "cores"}, {"by": "cores", "n": "1,2"}, {"by": "moons"}])
def test_what_cannot_be_is_refused(tmp_path, options):
    with pytest.raises(BadStudyOption):
        _run(tmp_path, [1], **options)


def test_runs_that_differ_for_no_reason_tell_nothing(tmp_path):
    times = (1.0, 0.3, 1.2, 0.4, 1.5, 0.2)
    result = _run(tmp_path, [1, 2, 4, 8, 12, 16], times, n="1,2,4,8,12,16", by="cores")
    assert result.verdicts[0].startswith("The runs differ too much to tell")


@pytest.mark.parametrize(
    ("numbers", "kind"), [((1, 2, 4, 8, 32, 64), "past_peak"), ((1, 2, 3, 4, 5, 6), "shared_work")]
)
def test_what_throughput_loses_leads_the_list(tmp_path, numbers, kind):
    """Beyond the peak by too many; before it by what they share."""
    options = {"n": ",".join(map(str, numbers)), "by": "cores"}
    _run(tmp_path, numbers, **options)
    paths = [tmp_path / f"run{place}" for place in range(6)]
    [first, *_] = leading(paths, usl.STUDY, StudyParameters(window_ms=100, options=options), service.STUDY)
    rates = {n: float(LAW.at(n)) for n in numbers}  # all requests take the same time: a run's part is its rate
    if kind == "past_peak":
        lost = sum(rate * (1 - rate / float(LAW.at(LAW.peak))) for n, rate in rates.items() if n > LAW.peak)
    else:
        lost = sum(rate * (1 - rate / (n * float(LAW.at(1)))) for n, rate in rates.items())
    assert first.kind == kind and first.share == pytest.approx(lost / sum(rates.values()), rel=0.1)
