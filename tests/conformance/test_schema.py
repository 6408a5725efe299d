"""Our message classes against an independent description of the protocol: field by field, version by version."""

import pytest

from mpbroker.protocol.api_keys import API_NAMES, FIRST_FLEXIBLE
from mpbroker.protocol.headers import RequestHeader
from mpbroker.protocol.messages_by_key import REQUESTS, RESPONSES
from mpbroker.protocol.schema import NEVER, fields_of, schema_of
from mpbroker.protocol.types import ZERO_UUID
from tests.conformance.kafka_python_peer import UNDESCRIBED, covers, described, description, snake, version_range

MESSAGES = [cls for table in (REQUESTS, RESPONSES) for key, cls in table.items() if key not in UNDESCRIBED]
VERSIONS = [(cls, v) for cls in MESSAGES for v in range(schema_of(cls).versions[0], schema_of(cls).versions[1] + 1)]

_EMPTY = {"float64": 0.0, "bool": False, "string": "", "bytes": b"", "records": None, "uuid": ZERO_UUID}


def our_shape(cls, version):
    """[(name, kind, array, nullable, tag, shape of a struct)] in wire order."""
    rows = []
    for field in fields_of(cls):
        if field.present(version):
            inner = our_shape(field.struct, version) if field.struct else None
            rows.append((field.name, field.kind, field.array, field.nullable(version), field.tag, inner))
    return rows


def with_structs(theirs):
    """Its fields, with the structs that are described once for several of them put in their places."""
    shared = {one["name"]: one["fields"] for one in theirs.get("commonStructs", ())}

    def filled(field):
        inner = field.get("fields", shared.get(field["type"].removeprefix("[]")))
        return field if inner is None else field | {"fields": [filled(one) for one in inner]}

    return [filled(field) for field in theirs["fields"]]


def described_shape(fields, version):
    """The same from the independent description."""
    rows = []
    for field in fields:
        if not covers(field["versions"], version):
            continue
        kind = field["type"].removeprefix("[]")
        inner = described_shape(field["fields"], version) if "fields" in field else None
        tag = field["tag"] if covers(field.get("taggedVersions"), version) else None
        nullable = covers(field.get("nullableVersions"), version)
        array = field["type"].startswith("[]")
        rows.append((snake(field["name"]), "struct" if inner is not None else kind, array, nullable, tag, inner))
    return rows


@pytest.mark.parametrize(("cls", "version"), VERSIONS, ids=lambda value: getattr(value, "__name__", value))
def test_fields_are_those_of_kafka(cls, version):
    fields = with_structs(description(cls.__name__))
    assert our_shape(cls, version) == described_shape(fields, version)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_key_versions_and_flexibility_are_those_of_kafka(cls):
    theirs, ours = description(cls.__name__), schema_of(cls)
    assert (ours.key, ours.is_request) == (theirs["apiKey"], theirs["type"] == "request")
    assert cls.__name__ == API_NAMES[ours.key] + ("Request" if ours.is_request else "Response")
    assert ours.flexible == version_range(theirs["flexibleVersions"])[0] == FIRST_FLEXIBLE[ours.key]
    assert ours.versions[1] <= version_range(theirs["validVersions"])[1], "we declare a version nobody knows"


def _described_default(field):
    kind, text = field["type"], field.get("default")
    if kind.startswith("[]"):
        return list
    if text == "null" or "fields" in field:
        return None
    if text is None:
        return _EMPTY.get(kind, 0)
    if kind == "bool":
        return text in (True, "true")
    return text if kind == "string" else int(str(text), 0)


def _compare_defaults(cls, described_fields):
    theirs = {snake(field["name"]): field for field in described_fields}
    for field in fields_of(cls):
        expected = _described_default(theirs[field.name])
        if field.name == "error_message":
            expected = None  # what brokers send on success; the description says ""
        assert (field.default, type(field.default)) == (expected, type(expected)), f"{cls.__name__}.{field.name}"
        if field.struct:
            _compare_defaults(field.struct, theirs[field.name]["fields"])


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_defaults_are_those_of_kafka(cls):
    _compare_defaults(cls, with_structs(description(cls.__name__)))


def test_flexible_versions_of_all_described_apis():
    compared = 0
    for name in described():
        theirs = description(name)
        first = version_range(theirs["flexibleVersions"])[0]
        assert FIRST_FLEXIBLE[theirs["apiKey"]] == min(first, NEVER), name
        compared += 1
    assert compared > 90


def test_names_of_all_keys():
    from kafka.protocol.api_key import ApiKey as Peer

    theirs = {int(key): key.name for key in Peer}
    assert len(theirs) > 80
    assert {key: API_NAMES[key] for key in theirs} == theirs


def test_request_header_fields():
    names = [snake(field["name"]).removeprefix("request_") for field in description("RequestHeader")["fields"]]
    assert list(RequestHeader.__struct_fields__) == [*names, "body_offset"]
