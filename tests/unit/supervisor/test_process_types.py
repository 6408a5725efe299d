"""The process table says who runs, and in which slot."""

import re
from collections import Counter

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.protocol import codec
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mpbroker.protocol.schema import schema_of
from mpbroker.shm.process_context import BoundListener
from mpbroker.supervisor import health, process_types
from mpbroker.supervisor.process_types import (
    LATE_STAGE,
    PROCESS_TYPES,
    STOP_STAGES,
    plan_processes,
    prepare_for_workers,
    process_type,
    resolve_mains,
)
from tests.harness.c_headers import defined

LAYOUT = "shm/layout.h"


def _listener(index, name, control=False):
    return BoundListener(index, name, "PLAINTEXT", "127.0.0.1", 9000 + index, "127.0.0.1", 9000 + index, control)


def _config(*overrides):
    return load_broker_config(overrides=overrides, environ={}, cores=4)


def test_one_listener_gets_the_configured_processes():
    config = _config("num.network.threads=3", "num.io.threads=5")
    plans = plan_processes(config, (_listener(0, "PLAINTEXT"),))
    assert Counter(plan.type.role for plan in plans) == {
        "acceptor": 1,
        "processor": 3,
        "handler": 5,
        "controller": 1,
        "log-keeper": 1,
        "coordinator": 1,
        "tracer": 1,
        "admin": 1,
    }
    assert len({plan.slot for plan in plans}) == len(plans)
    assert plans[0].type.role == "acceptor", "a reset kills it first"
    assert all(plan.listener == 0 for plan in plans if plan.type.per_listener)


def test_without_an_address_there_is_no_admin_process():
    plans = plan_processes(_config("mpbroker.admin.listener="), (_listener(0, "PLAINTEXT"),))
    assert all(plan.type.role != "admin" for plan in plans)


def test_the_control_plane_has_processor_0_and_a_handler_of_its_own():
    config = _config(
        "listeners=PLAINTEXT://127.0.0.1:9000,CONTROLLER://127.0.0.1:9001",
        "num.network.threads=2",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "num.io.threads=2",
        "control.plane.listener.name=controller",
    )
    plans = plan_processes(config, (_listener(0, "PLAINTEXT"), _listener(1, "CONTROLLER", control=True)))
    assert [plan.listener for plan in plans if plan.type.role == "processor"] == [1, 0, 0]
    assert sum(plan.type.role == "handler" for plan in plans) == 3
    assert [(plan.index, plan.listener) for plan in plans if plan.type.role == "acceptor"] == [(0, None)]


def test_slots_are_those_of_the_layout():
    first = {
        "acceptor": "MPB_SLOT_ACCEPTOR",
        "processor": "MPB_SLOT_PROCESSORS",
        "handler": "MPB_SLOT_HANDLERS",
        "controller": "MPB_SLOT_CONTROLLER",
        "log-keeper": "MPB_SLOT_LOG_KEEPER",
        "coordinator": "MPB_SLOT_COORDINATOR",
        "tracer": "MPB_SLOT_TRACER",
        "admin": "MPB_SLOT_ADMIN",
        "cluster-controller": "MPB_SLOT_CLUSTER_CONTROLLER",
        "fetcher": "MPB_SLOT_FETCHERS",
    }
    slots = {
        "processor": "MPB_MAX_PROCESSORS",
        "handler": "MPB_MAX_HANDLERS",
        "fetcher": "MPB_MAX_FETCHERS",
    }
    for row in PROCESS_TYPES:
        assert defined(LAYOUT, first[row.role]) == row.first_slot
        if row.role in slots:
            assert defined(LAYOUT, slots[row.role]) == row.slots


@pytest.mark.parametrize("row", PROCESS_TYPES, ids=lambda row: row.role)
def test_stages_exist(row):
    assert 0 <= row.start_stage <= LATE_STAGE and 0 <= row.stop_stage < STOP_STAGES
    assert re.fullmatch(r"mpbroker(\.\w+)+:main", row.main)


def test_who_stops_first_starts_last():
    by_role = {row.role: row for row in PROCESS_TYPES}
    assert by_role["processor"].stop_stage < by_role["handler"].stop_stage < by_role["log-keeper"].stop_stage
    assert by_role["tracer"].stop_stage == STOP_STAGES - 1 and by_role["controller"].start_stage == 0


def test_the_first_request_of_a_client_is_prepared_before_the_fork():
    """Each handler would do it for itself otherwise, on pages of its own."""
    codec._PLANS.pop(ApiVersionsRequest, None)
    codec._PLANS.pop(ApiVersionsResponse, None)
    prepare_for_workers()
    for message in (ApiVersionsRequest, ApiVersionsResponse):
        low, high = schema_of(message).versions
        assert all(codec._PLANS[message][low : high + 1])


#: Stages of start and stop, and the number in the process table's rows, which `status` of another version reads.
STAGES = {
    "acceptor": (1, 0, 0),
    "processor": (2, 0, 0),
    "handler": (3, 0, 1),
    "controller": (4, 0, 2),
    "log-keeper": (5, 1, 2),
    "coordinator": (7, 1, 1),
    "tracer": (6, 1, 3),
    "fetcher": (10, 1, 1),
    "admin": (8, 1, 1),
    "cluster-controller": (9, 1, 1),
}


def test_who_serves_clients_starts_at_once_and_ends_before_who_writes_down_what_was_done():
    assert {row.role: (row.number, row.start_stage, row.stop_stage) for row in PROCESS_TYPES} == STAGES
    assert STOP_STAGES == 4 and LATE_STAGE == 1
    assert [row.role for row in PROCESS_TYPES if row.per_listener] == ["processor"]
    assert {row.role for row in PROCESS_TYPES if row.slots == 1} == STAGES.keys() - {"processor", "handler", "fetcher"}


@pytest.mark.parametrize("in_cluster", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_of_each_stage_what_its_processes_run_is_imported(monkeypatch, late, in_cluster):
    """Of a cluster only where there is one. pathlib without what it brings along, for the tracer."""
    imported = []
    monkeypatch.setattr(process_types, "import_pathlib", lambda: imported.append("pathlib"))
    monkeypatch.setattr(process_types, "_imported", lambda main: imported.append(main) or f"function of {main}")
    found = resolve_mains(late, in_cluster)
    roles = {role for role, (_, start, _) in STAGES.items() if (start == 1) is late}
    assert found.keys() == (roles if in_cluster else roles - {"fetcher", "cluster-controller"})
    assert all(main == f"function of {process_type(role).main}" for role, main in found.items())
    assert (imported[0] == "pathlib") is late and imported.count("pathlib") == late


def test_the_supervisor_has_the_first_row_and_each_role_its_rows_from_one_on():
    assert defined(LAYOUT, "MPB_SLOT_SUPERVISOR") == process_types.SUPERVISOR_SLOT
    assert health.ROLES[0] == "supervisor"
    plans = [process_types.ProcessPlan(process_type(role), index) for role, index in (("handler", 3), ("admin", 0))]
    assert [(plan.slot, plan.name) for plan in plans] == [(51, "handler 3"), (116, "admin 0")]
    taken = [row.first_slot + index for row in PROCESS_TYPES for index in range(row.slots)]
    assert len(set(taken)) == len(taken) and min(taken) == 1


@pytest.mark.parametrize("fetchers", [1, 3])
def test_a_broker_of_a_cluster_has_its_fetchers_and_its_controller(tmp_path, fetchers):
    config = _config(f"mpbroker.cluster.store=sqlite:{tmp_path}/shared.db", f"mpbroker.replica.fetchers={fetchers}")
    plans = plan_processes(config, (_listener(0, "PLAINTEXT"),))
    found = Counter(plan.type.role for plan in plans)
    assert (found["fetcher"], found["cluster-controller"]) == (fetchers, 1)
    assert [plan.index for plan in plans if plan.type.role == "fetcher"] == list(range(fetchers))
    rows = [PROCESS_TYPES.index(plan.type) for plan in plans]
    assert rows == sorted(rows), "in the order of the table"
