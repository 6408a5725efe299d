"""What a broker without security answers: SaslHandshake, SaslAuthenticate, ACLs, quotas of clients, SCRAM users."""

from __future__ import annotations

from mpbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from mpbroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from mpbroker.protocol.messages.describe_acls import DescribeAclsRequest
from mpbroker.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from mpbroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from mpbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from mpbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.conformance.corpus.case import Exchange, case

ACLS = (0, 1, 2, 3)
ANY, TOPIC, UNKNOWN, READ, ALLOW = 1, 2, 0, 3, 3
NAMED, DEFAULT, WHICHEVER = 0, 1, 2


@case("security: a handshake where nobody asks who one is", (0, 1))
def handshake(x: Exchange, version: int) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "", "nonsense"):
        x.ask(SaslHandshakeRequest(mechanism), version)


@case("security: credentials where nobody asks for them", (0, 1, 2))
def credentials(x: Exchange, version: int) -> None:
    for auth in (b"\0u\0p", b""):
        x.ask(SaslAuthenticateRequest(auth), version)


@case("security: ACLs", ACLS)
def acls(x: Exchange, version: int) -> None:
    x.ask(DescribeAclsRequest(ANY, None, ANY if version else 3, None, None, ANY, ANY), version)
    x.ask(DescribeAclsRequest(TOPIC, "t", 3, "User:u", "*", READ, ALLOW), version)
    made = AclCreation(TOPIC, "t", 3, "User:u", "*", READ, ALLOW)
    for creations in ([], [made], [made, made]):
        x.ask(CreateAclsRequest(creations), version)
    chosen = DeleteAclsFilter(TOPIC, "t", 3, "User:u", "*", READ, ALLOW)
    for filters in ([], [chosen], [chosen, DeleteAclsFilter(ANY, None, 3, None, None, ANY, ANY)]):
        x.ask(DeleteAclsRequest(filters), version)


@case("security: ACLs that are none", ACLS)
def odd_acls(x: Exchange, version: int) -> None:
    x.ask(DescribeAclsRequest(UNKNOWN, None, 3, None, None, ANY, ANY), version)
    x.ask(CreateAclsRequest([AclCreation(TOPIC, "", 3, "nobody", "", READ, ALLOW)]), version)
    x.ask(CreateAclsRequest([AclCreation(99, "t", 3, "User:u", "*", 99, 99)]), version)
    x.ask(DeleteAclsRequest([DeleteAclsFilter(UNKNOWN, None, 3, None, None, ANY, ANY)]), version)


@case("security: quotas of clients", (0, 1))
def quotas(x: Exchange, version: int) -> None:
    for strict in (False, True):
        x.ask(DescribeClientQuotasRequest([], strict), version)
    for component in (
        ComponentData("user", NAMED, "u"), ComponentData("user", DEFAULT, None), ComponentData("client-id", WHICHEVER, None),
        ComponentData("ip", NAMED, "127.0.0.1"), ComponentData("nonsense", WHICHEVER, None), ComponentData("", WHICHEVER, None),
        ComponentData("user", NAMED, None), ComponentData("user", DEFAULT, "u"), ComponentData("user", WHICHEVER, "u"),
        ComponentData("user", 3, None), ComponentData("ip", NAMED, "nowhere"),
    ):
        x.ask(DescribeClientQuotasRequest([component]), version)
    x.ask(DescribeClientQuotasRequest([ComponentData("user", WHICHEVER, None)] * 2), version)
    x.ask(DescribeClientQuotasRequest([ComponentData("user", WHICHEVER, None), ComponentData("ip", WHICHEVER, None)]), version)
    x.ask(DescribeClientQuotasRequest([ComponentData("user", WHICHEVER, None), ComponentData("client-id", DEFAULT, None)]), version)


@case("security: users of SCRAM", (0,))
def scram(x: Exchange, version: int) -> None:
    for users in (None, [], ["u"], ["u", "u"], ["u", "v", ""], ["u", "v", "u"]):
        x.ask(DescribeUserScramCredentialsRequest(None if users is None else [UserName(one) for one in users]), version)
