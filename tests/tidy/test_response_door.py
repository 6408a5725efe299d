"""Responses leave request handlers and coordinator through one module, which notes their error for the trace."""

from tests.tidy.source_tree import imports, modules

ENCODERS = {"encode_response_frame", "encode_response_frame_into"}
DOOR = "mpbroker.channel.response_frame"


ANSWERING = ("mpbroker.server", "mpbroker.coordinator", "mpbroker.channel")


def test_only_one_module_encodes_responses():
    users = {
        module
        for module, path in modules().items()
        if module.startswith(ANSWERING) and any(name.rpartition(".")[2] in ENCODERS for name in imports(path))
    }
    assert users == {DOOR}
