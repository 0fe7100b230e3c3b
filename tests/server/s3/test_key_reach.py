"""How far a key reaches: what its holder may do at the time, and of that no more than its scope."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.identity.pod_caller import Peer
from signproxy.identity.s3_caller import Caller, S3Callers
from signproxy.model import KeyScope, Principal, Subject
from signproxy.s3.forward_wire import ForwardWire
from tests.gate.forward_cases import POLICY, Site, wire
from tests.identity.keyed import emulated, signed
from tests.identity.rig import NOW, Clock
from tests.product import NAMES, token_of

TABLES = {"t1": "ns", "t2": "ns", "deep": "ns\x1fdeep", "hidden": "hr"}
SCOPES = (
    None,
    KeyScope("lake"),
    KeyScope("lake", "ns"),
    KeyScope("lake", "ns\x1fdeep"),
    KeyScope("lake", "n"),
    KeyScope("lake", "ns", "t1"),
    KeyScope("lake", "ns", "t1", "u1"),
    KeyScope("lake", "ns", "t1", "another"),
    KeyScope("lake", "hr", "hidden"),
    KeyScope("beside"),
)


class Holders:
    """Callers with keys, as the S3 listener finds them."""

    def __init__(self) -> None:
        tokens = {hash_token(token_of(name)): OpaqueToken(name) for name in (*NAMES, "owner")}
        self.by = Authenticator((), StaticTokens(tokens), clock=Clock())
        self.keys = emulated(self.by)
        self.callers = S3Callers(self.keys, self.by, bearer=True, pod=None)

    def holder(self, name: str, scope: KeyScope | None) -> Subject:
        """Issue a key, send a request that is signed with it, and return who that is."""
        principal = self.by.authenticate(token_of(name))
        assert isinstance(principal, Principal)
        sent = signed(self.keys.issue(principal, scope, 600, NOW))
        caller = self.callers.identify(sent.method, sent.target, sent.headers, Peer(), NOW)
        assert isinstance(caller, Caller)
        return Subject.of(caller.subject.caller)

    def in_person(self, name: str) -> Subject:
        principal = self.by.authenticate(token_of(name))
        assert isinstance(principal, Principal)
        return Subject.of(principal)


def read(table: str) -> ForwardWire:
    return wire(key=f"wh/{table}/data/f.parquet")


def within(scope: KeyScope | None, table: str) -> bool:
    """Whether a scope reaches a table, said in another way than the gate says it."""
    if scope is None:
        return True
    place = ("lake", *TABLES[table].split("\x1f"))
    asked = (scope.catalog, *filter(None, scope.namespace.split("\x1f")))
    if scope.table:
        return asked == place and scope.table == table and scope.uuid in ("", "u1")
    return place[: len(asked)] == asked


@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("who", ("reader", "owner", "stranger"))
async def test_a_key_does_what_its_holder_may_within_its_scope(who: str, scope: KeyScope | None) -> None:
    """A key would open what its holder may not see, or what it was not made for."""
    site, holders = Site(), Holders()
    for table in TABLES:
        in_person = await site.reason(read(table), holders.in_person(who))
        by_key = await site.reason(read(table), holders.holder(who, scope))
        allowed = in_person is Reason.ALLOWED and within(scope, table)
        assert (by_key is Reason.ALLOWED) is allowed, (table, in_person, by_key)


async def test_a_grant_that_is_taken_away_is_gone_with_the_next_request() -> None:
    """The holder of a key would go on reading until it ends."""
    site, holders = Site(), Holders()
    subject = holders.holder("reader", KeyScope("lake", "ns"))
    assert await site.reason(read("t1"), subject) is Reason.ALLOWED
    site.state = Site(POLICY.replace("  reader: {roles: [readers]}\n", "  reader: {roles: []}\n", 1)).state
    # The very same key, and the very same value that was remembered of it.
    assert await site.reason(read("t1"), subject) is not Reason.ALLOWED
    assert await site.reason(read("t1"), holders.holder("reader", None)) is not Reason.ALLOWED
    site.state = Site().state
    assert await site.reason(read("t1"), subject) is Reason.ALLOWED


async def test_a_grant_that_is_added_counts_for_keys_that_are_there() -> None:
    """A job would have to be given another key for each grant."""
    site, holders = Site(), Holders()
    subject = holders.holder("stranger", None)
    assert await site.reason(read("t1"), subject) is not Reason.ALLOWED
    site.state = Site(POLICY.replace("  watched:", "  stranger: {roles: [readers]}\n  watched:", 1)).state
    assert await site.reason(read("t1"), subject) is Reason.ALLOWED
