"""Every file of server/handlers is one API: its row, its messages, one signature for all, and tests of its own."""

import importlib
import inspect
import typing

import pytest

from mpbroker.channel.handler_port import Request
from mpbroker.protocol.messages_by_key import REQUESTS, RESPONSES
from mpbroker.protocol.types import Struct
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.apis import NoResponse
from mpbroker.server.server_context import ServerContext
from tests.tidy.source_tree import ROOT

HANDLERS = sorted(path.stem for path in (ROOT / "mpbroker/server/handlers").glob("[!_]*.py"))
MESSAGES = sorted(path.stem for path in (ROOT / "mpbroker/protocol/messages").glob("[!_]*.py"))
TESTS = ROOT / "tests/unit/server"

#: Messages of requests that no request handler answers: they are the coordinator's.
COORDINATORS = {
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "delete_groups",
    "describe_groups",
    "describe_transactions",
    "end_txn",
    "heartbeat",
    "join_group",
    "leave_group",
    "list_groups",
    "list_transactions",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "sync_group",
    "txn_offset_commit",
    "write_txn_markers",
}


def module_of(name: str):
    return importlib.import_module(f"mpbroker.server.handlers.{name}")


def test_each_api_has_messages_a_handler_and_a_row_of_the_same_name():
    assert set(HANDLERS) == set(MESSAGES) - COORDINATORS
    assert set(MESSAGES) >= COORDINATORS
    assert {key: API_TABLE.get(key) for key in [*API_TABLE.by_key, *API_TABLE.seldom]} == {
        api.key: api for api in (module_of(name).API for name in HANDLERS)
    }


def test_versions_of_apis_that_are_imported_at_their_first_request_are_those_of_their_rows():
    rows = {key: API_TABLE.get(key) for key in API_TABLE.seldom}
    assert API_TABLE.seldom == {key: row and row.versions for key, row in rows.items()}


@pytest.mark.parametrize("name", HANDLERS)
def test_its_messages_stand_in_the_file_of_its_name(name):
    api = module_of(name).API
    messages = f"mpbroker.protocol.messages.{name}"
    assert api.request is REQUESTS[api.key]
    assert (api.request.__module__, RESPONSES[api.key].__module__) == (messages, messages)


def signature(function) -> dict[str, object]:
    """Parameters in order with their types, `return` last."""
    hints = typing.get_type_hints(function)
    return {name: hints.get(name) for name in [*inspect.signature(function).parameters, "return"]}


@pytest.mark.parametrize("name", HANDLERS)
def test_all_handlers_are_called_alike(name):
    api = module_of(name).API
    handle, failed = signature(module_of(name).handle), signature(module_of(name).failed)
    returned = handle.pop("return")
    assert handle == {"context": ServerContext, "request": Request, "message": api.request}
    outcomes = typing.get_args(returned) or (returned,)
    assert all(outcome in (Struct, RESPONSES[api.key], NoResponse) for outcome in outcomes), returned
    assert failed["message"] in (api.request, api.request | None)
    assert {**failed, "message": None} == {"message": None, "version": int, "code": int, "return": RESPONSES[api.key]}


@pytest.mark.parametrize("name", HANDLERS)
def test_its_unit_tests_send_its_requests(name):
    """In a file that is called after it."""
    files = [path for path in TESTS.rglob("test_*.py") if name in path.stem]
    assert any(f"{module_of(name).API.request.__name__}(" in path.read_text() for path in files), f"tests of {name}"
