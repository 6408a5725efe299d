"""KAFKA-4453 in its short form: three brokers, a small flood, one election there and back, told from traces."""

import pytest

from mpbroker.analysis.lab.incident import incident_plan
from mpbroker.analysis.lab.incident.incident_report import study
from mpbroker.analysis.lab.incident.incident_run import run_incident_variant

pytestmark = pytest.mark.slow


def test_one_election_under_a_flood(tmp_path):
    plan = incident_plan.load("kafka-4453")
    plan = plan._replace(
        elections=1, settle_ms=100, flood=plan.flood._replace(connections=4), variants=plan.variants[2:3]
    )
    result = run_incident_variant(plan, plan.variants[0], tmp_path, tmp_path / "scratch", lambda text: None)
    found = study(plan, [result])
    away, back = found.tables["elections"].to_pylist()
    assert (away["to"], back["to"]) == ("B", "A") and back["leader_epoch"] > away["leader_epoch"]
    assert away["asked_to_led_ms"] > 0 and away["asked_to_given_up_ms"] > 0
    assert abs(away["asked_to_given_up_ms"] - away["asked_to_led_ms"]) == pytest.approx(
        away["double_ms"] + away["leaderless_ms"], abs=0.01
    )
    assert away["controller_epoch"] == 1, "the request says whose it is"
    assert away["plane"] == 1 and 0 <= away["queue_ms"] < 5000 and away["work_ms"] > 0
    (variant,) = found.tables["variants"].to_pylist()
    assert variant["elections"] == 1 and variant["flood_per_s"] > 50 and variant["records_dropped"] == 0
    (probes,) = found.tables["probes"].to_pylist()
    assert probes["acks_all_lost"] == 0 and probes["duplicates"] == 0 and probes["acks_all_unanswered"] == 0
    assert probes["acks_all_acknowledged"] >= 20
