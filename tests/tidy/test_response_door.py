"""Responses leave request handlers through one module, which notes their error for the trace."""

from tests.tidy.source_tree import imports, modules

ENCODERS = {"encode_response_frame", "encode_response_frame_into"}
DOOR = "mpbroker.server.response_frame"


def test_only_one_module_of_the_server_encodes_responses():
    users = {
        module
        for module, path in modules().items()
        if module.startswith("mpbroker.server") and any(name.rpartition(".")[2] in ENCODERS for name in imports(path))
    }
    assert users == {DOOR}
