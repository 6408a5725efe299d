"""mpbroker/_native.pyi says what the module has: every name and member, both ways, and how each can be called.

The module has no signatures to read. What a call takes is found by calling it with too few and too many arguments:
every binder refuses them before it does anything. The objects are those of a throw-away core.
"""

import re
import select
from pathlib import Path

import pytest

from mpbroker import _native
from mpbroker.shm import layout
from tests.harness.small_core import small_core
from tests.harness.stub_file import Call, read_stub

STUB = read_stub()
BINDERS = Path(__file__).parents[2] / "native/python"
SUBCLASSABLE, NOT_MADE = 1 << 10, 1 << 7  # Py_TPFLAGS_BASETYPE, Py_TPFLAGS_DISALLOW_INSTANTIATION
COUNTED = re.compile(r"argument.*\(\d+ given\)|takes .*argument|^\w+\([\w, =]*\)$")
NO_NAMES = re.compile(r"takes no (keyword )?arguments")
FRAME = bytes.fromhex("00120003000000010000")  # ApiVersions 3

PLAIN = {"int": 0, "float": 0.5, "str": "", "bytes": b"", "ReadableBuffer": b"", "WriteableBuffer": bytearray(1)}


def is_struct_sequence(cls: type) -> bool:
    return issubclass(cls, tuple)


def members(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_") and not name.startswith("n_")}


CLASSES = sorted(name for name in dir(_native) if isinstance(getattr(_native, name), type))
METHODS = [(cls, name) for cls, said in STUB.classes.items() for name in said.calls if not name.startswith("_")]
MADE = [cls for cls in STUB.classes if not is_struct_sequence(getattr(_native, cls))]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """One object of each class, by its name."""
    memory = small_core()
    core, epoll = memory.core, select.epoll()
    handler, processor = _native.HandlerPort(core, 0), _native.ProcessorPort(core, 0)
    assert processor.submit(0, 1, 1, 0, FRAME, 0) >= 0
    lane = bytearray(_native.TRACE_LANE_HEADER_BYTES + 64 * 192)
    _native.trace_lane_format(lane, 64, 0, 1)
    log, options = _native.Log(core, [tmp_path_factory.mktemp("log")]), _native.LogOptions()
    yield {
        "memory": memory,
        "Core": core,
        "ProcessRow": core.row(0),
        "HandlerPort": handler,
        "Request": handler.serve_or_claim(0),
        "ProcessorPort": processor,
        "KnownRows": _native.KnownRows(core, False),
        "CommandPort": _native.CommandPort(core, _native.LAYOUT["slot_handlers"]),
        "Connection": _native.Connection(0, 1, 1, 1),
        "NetworkTurn": _native.NetworkTurn(processor, epoll.fileno(), 0, 0, 1 << 20, -1, {18: (0, 3)}),
        "NativeProduce": _native.NativeProduce(handler, log, 0, lambda *_: (0, b""), lambda: None),
        "NativeFetch": _native.NativeFetch(
            handler, log, _native.NativeProduce(handler, log, 0, lambda *_: (0, b""), lambda: None), 0
        ),
        "FetchSessions": _native.FetchSessions(core, layout.SLOT_HANDLERS),
        "LogOptions": options,
        "Log": log,
        "AppendResult": log.append(0, _native.NO_REQUEST, 0, bytes(61), options, 0),
        "ReadPlan": log.find(0, 0, 0, 0)[1],
        "Plan": _native.Plan(type(None), False, (), (), ()),
        "SteadyFetches": _native.SteadyFetches(log, epoll.fileno()),
        "TraceLane": _native.TraceLane(lane),
        "TraceTally": _native.TraceTally(0),
        "KeyMap": _native.KeyMap(240, 0.9, bytes(16)),
    }
    log.close()
    epoll.close()


def test_every_name_of_the_module_is_in_the_stub_and_the_other_way_round():
    public = {name for name in dir(_native) if not name.startswith("__")}
    assert public == set(STUB.classes) | set(STUB.functions) | STUB.constants
    assert set(STUB.classes) == set(CLASSES)
    assert set(STUB.functions) == {name for name in public - set(CLASSES) if callable(getattr(_native, name))}


@pytest.mark.parametrize("name", CLASSES)
def test_every_member_of_a_class_is_in_the_stub_and_the_other_way_round(name):
    said, cls = STUB.classes[name], getattr(_native, name)
    methods = {each for each in said.calls if not each.startswith("_")}
    assert methods | said.readable | said.writable == members(cls)
    assert methods == {each for each in members(cls) if callable(getattr(cls, each))}
    assert said.final == (not cls.__flags__ & SUBCLASSABLE)


@pytest.mark.parametrize("name", MADE)
def test_what_can_be_set_and_what_can_be_made(name, samples):
    said, sample = STUB.classes[name], samples[name]
    for member in said.writable:
        setattr(sample, member, getattr(sample, member))
    for member in said.readable:
        with pytest.raises(AttributeError):
            setattr(sample, member, 0)
    made = {"__new__", "__init__"} & set(said.calls)
    assert bool(made) != bool(getattr(_native, name).__flags__ & NOT_MADE), f"{name} has {made or 'no constructor'}"


def refusal(function, *arguments, **named) -> str:
    """What a call that was only made to be refused says; empty if it was not."""
    try:
        function(*arguments, **named)
    except Exception as error:  # any other refusal: it took the arguments' number
        return str(error) if isinstance(error, TypeError) else ""
    return ""


def check_counts(function, call: Call, samples) -> None:
    """As many arguments as the stub says are taken, one fewer and one more are refused."""
    assert COUNTED.search(refusal(function, *[None] * (call.most + 1)))
    if call.least > 0 and call.names:  # such a binder first converts those that are there
        given = [samples.get(kind, PLAIN.get(kind)) for kind in call.kinds[: call.least - 1]]
        assert f"missing required argument '{call.names[call.least - 1]}'" in refusal(function, *given)
    elif call.least > 0:
        assert COUNTED.search(refusal(function, *[None] * (call.least - 1)))
    for count in {call.least, call.most} - {0}:
        assert not COUNTED.search(said := refusal(function, *[None] * count)), said


def check_names(function, call: Call) -> None:
    if call.names:
        assert call.names in NAMES, f"no binder reads the names {call.names}"
    assert (NO_NAMES.search(refusal(function, nobody=None)) is None) == bool(call.names)


NAMES = {
    tuple(re.findall(r'"(\w+)"', found))
    for path in BINDERS.glob("py_*.c")
    for found in re.findall(r"names\[\] = \{(.*?)NULL\}", path.read_text(), re.DOTALL)
}


@pytest.mark.parametrize("name", sorted(STUB.functions))
def test_a_function_takes_what_the_stub_says(name):
    check_counts(getattr(_native, name), STUB.functions[name], {})
    check_names(getattr(_native, name), STUB.functions[name])


@pytest.mark.parametrize(("cls", "name"), METHODS, ids=lambda each: each)
def test_a_method_takes_what_the_stub_says(cls, name, samples):
    check_counts(getattr(samples[cls], name), STUB.classes[cls].calls[name], samples)
    check_names(getattr(samples[cls], name), STUB.classes[cls].calls[name])


@pytest.mark.parametrize("name", [each for each in MADE if {"__new__", "__init__"} & set(STUB.classes[each].calls)])
def test_a_constructor_takes_what_the_stub_says(name, samples):
    said = STUB.classes[name].calls
    call = said.get("__init__") or said["__new__"]
    check_counts(getattr(_native, name), call, samples)
    assert not call.names or call.names in NAMES
