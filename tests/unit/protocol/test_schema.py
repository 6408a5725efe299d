"""What the class body says, and what it may not say."""

from typing import Annotated

import msgspec
import pytest

from mpbroker.errors import ProtocolError
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.messages.produce import ProduceRequest
from mpbroker.protocol.schema import MAX_DEPTH, NEVER, fields_of, request, schema_of
from mpbroker.protocol.types import Int32, Records, Struct, nullable_since, since, tagged, until


class Inner(Struct):
    number: Int32 = 0


class Everything(Struct):
    plain: Int32 = 5
    later: Annotated[str | None, since(1), nullable_since(2)] = ""
    early: Annotated[bool, until(0)] = False
    many: list[Int32] = []
    inner: Inner | None = None
    batch: Records = None
    hint: Annotated[Inner | None, since(2), tagged(3)] = None


def test_fields_in_order_with_versions():
    rows = {field.name: field for field in fields_of(Everything)}
    assert list(rows) == list(Everything.__struct_fields__)
    assert (rows["plain"].since, rows["plain"].until, rows["plain"].default) == (0, NEVER, 5)
    assert rows["early"].present(0) and not rows["early"].present(1)
    assert not rows["later"].nullable(1) and rows["later"].nullable(2) and not rows["later"].present(0)
    assert rows["many"].array and rows["many"].default is list and rows["many"].kind == "int32"
    assert rows["inner"].struct is Inner and rows["inner"].nullable(0)
    assert rows["batch"].kind == "records" and rows["batch"].nullable(0)
    assert rows["hint"].tag == 3 and not rows["hint"].nullable(2), "an absent tag is not a null on the wire"


def test_an_undecorated_class_is_no_message():
    with pytest.raises(TypeError, match="neither @request nor @response"):
        schema_of(Inner)
    with pytest.raises(TypeError, match="neither @request nor @response"):
        decode(Inner, 0, bytes(4))
    with pytest.raises(TypeError):
        encode("not a message", 0)


@pytest.mark.parametrize("version", [-1, 14, 99, 32767])
def test_a_version_that_does_not_exist(version):
    with pytest.raises(ProtocolError, match="ProduceRequest has no version"):
        decode(ProduceRequest, version, bytes(100))


def test_every_field_needs_a_default_of_its_own():
    class Missing(Struct):
        number: Int32

    class Shared(Struct):
        inner: Inner = msgspec.field(default_factory=Inner)

    for cls in (Missing, Shared):
        with pytest.raises(TypeError, match="needs an immutable default"):
            fields_of(cls)


def test_a_type_without_wire_form_is_refused():
    class Odd(Struct):
        number: int = 0

    with pytest.raises(TypeError, match=r"Odd.number: .* has no wire type"):
        fields_of(Odd)


def test_tags_need_a_flexible_version():
    @request(key=250, versions=(0, 0))
    class Rigid(Struct):
        hint: Annotated[Int32, tagged(0)] = 0

    with pytest.raises(TypeError, match="version 0 is not flexible"):
        encode(Rigid(), 0)


def test_nesting_is_bounded_when_the_plan_is_built():
    @request(key=251, versions=(0, 0))
    class Endless(Struct):
        children: "list[Endless]" = []

    globals()["Endless"] = Endless
    try:
        with pytest.raises(TypeError, match=f"deeper than {MAX_DEPTH}"):
            encode(Endless(), 0)
    finally:
        del globals()["Endless"]
