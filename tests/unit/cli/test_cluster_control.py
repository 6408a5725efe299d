"""The line between the foreground of a cluster and the other commands."""

import os
import select
import socket
import threading

import pytest

from mpbroker.cli.cluster_control import Control, Refused, ask
from mpbroker.cli.cluster_plan import NoClusterHere
from mpbroker.errors import MpbrokerError


def _answer(request):
    if request["do"] == "start":
        return {"pid": request["node"] + 1}
    raise MpbrokerError("broker 2 runs (pid 7)")


@pytest.fixture
def directory(tmp_path):
    deep = tmp_path / ("d" * 100)  # longer than a socket's name may be
    deep.mkdir()
    return str(deep)


@pytest.fixture
def control(directory):
    control = Control(directory, _answer)
    yield control
    control.close()


def _asked(control, directory, **request):
    serving = threading.Thread(target=_serve, args=(control,))
    serving.start()
    try:
        return ask(directory, **request)
    finally:
        serving.join()


def _serve(control):
    asked = select.poll()  # select.select takes no descriptor above 1,023, which other tests may have left
    asked.register(control, select.POLLIN)
    assert asked.poll(5000)
    control.serve()


def test_a_question_and_its_answer(control, directory):
    assert _asked(control, directory, do="start", node=1)["pid"] == 2


def test_a_refusal_is_a_sentence(control, directory):
    with pytest.raises(Refused, match=r"broker 2 runs \(pid 7\)"):
        _asked(control, directory, do="stop", node=2)


def test_nonsense_is_left_without_an_answer(control, directory):
    with socket.socket(socket.AF_UNIX) as line:
        here = os.getcwd()
        os.chdir(directory)
        try:
            line.connect(".control")
        finally:
            os.chdir(here)
        line.sendall(b"nonsense")
        _serve(control)
        assert line.recv(100) == b""


def test_nobody_is_there(directory):
    with pytest.raises(NoClusterHere, match="no cluster runs on"):
        ask(directory, do="start", node=1)
    Control(directory, _answer)._socket.close()  # killed: its socket is still there
    with pytest.raises(NoClusterHere, match="no cluster runs on"):
        ask(directory, do="start", node=1)
    Control(directory, _answer).close()  # and does not keep the next one out
