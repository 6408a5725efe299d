"""DescribeUserScramCredentials: there are none."""

import pytest

from mpbroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize(
    ("users", "found"),
    [
        (None, []),
        ([], []),
        (["u"], [("u", 91)]),
        (["v", "u", ""], [("", 91), ("u", 91), ("v", 91)]),
        (["v", "u", "v"], [("u", 91), ("v", 92)]),
    ],
)
def test_nobody_has_any(tmp_path, users, found):
    names = None if users is None else [UserName(one) for one in users]
    answer = InProcessBroker(tmp_path).call(DescribeUserScramCredentialsRequest(names), 0)
    assert (answer.error_code, answer.error_message) == (0, "")
    assert [(one.user, one.error_code) for one in answer.results] == found
    assert all(one.error_message and one.credential_infos == [] for one in answer.results)
