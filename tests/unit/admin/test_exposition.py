"""Prometheus' text format: escaping, numbers, labels; read back by a parser of the format that is not ours."""

from prometheus_client.parser import text_string_to_metric_families

from mpbroker.admin.exposition import COUNTER, GAUGE, HISTOGRAM, Family, Sample, labelled, number, render


def parsed(*families: Family):
    return list(text_string_to_metric_families(render(families).decode()))


def test_labels_of_strangers_are_escaped() -> None:
    name = 'a"b\\c\nd}é'
    (found,) = parsed(Family("requests_total", COUNTER, "Two\nlines \\ here.", [labelled(3, client=name, other="x")]))
    assert found.type == "counter" and found.documentation == "Two\nlines \\ here."
    (sample,) = found.samples
    assert (sample.name, sample.labels, sample.value) == ("requests_total", {"client": name, "other": "x"}, 3.0)


def test_families_without_samples_are_left_out() -> None:
    assert render([Family("empty", GAUGE, "None.", [])]) == b""


def test_numbers() -> None:
    assert [number(value) for value in (0, 7, 2**60, 1.0, 0.25, float("inf"), 1e20, 3e-9)] == [
        "0",
        "7",
        str(2**60),
        "1",
        "0.25",
        "+Inf",
        "1e+20",
        "3e-09",
    ]


def test_a_histogram_is_one_family() -> None:
    samples = [
        labelled(1, "_bucket", le="0.5"),
        labelled(2, "_bucket", le="+Inf"),
        labelled(0.75, "_sum"),
        Sample((), 2, "_count"),
    ]
    (found,) = parsed(Family("seconds", HISTOGRAM, "Durations.", samples))
    assert found.type == "histogram" and [sample.name for sample in found.samples] == [
        "seconds_bucket",
        "seconds_bucket",
        "seconds_sum",
        "seconds_count",
    ]
