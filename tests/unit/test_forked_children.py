"""What a test forks never goes on as pytest."""

import os

from tests.harness.groups import CHILD_CAME_OUT


def test_a_child_that_an_error_leads_out_of_its_test_reports_nothing():
    """If it did, the rest of this run would be run twice, and pytest-xdist would end with an INTERNALERROR."""
    pid = os.fork()
    if pid == 0:
        raise AssertionError("in the child")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == CHILD_CAME_OUT
