"""Tokens that are good for one table: never more than the caller's own, and never for longer."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from signproxy.errors import Reason, Refused
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.inspect import CheckOutcome, inspect_token
from signproxy.identity.issuer import Issuer, SharedSecret
from signproxy.identity.opaque import OpaqueToken, StaticTokens
from signproxy.identity.table_token import TABLE_TOKEN_PREFIX, TableToken, TableTokens, is_table_token
from signproxy.identity.tokens import MAX_TOKEN
from signproxy.model import Principal, TableScope
from signproxy.sealing import Purpose, Sealer, SealingSecret
from tests.identity.rig import (
    NOW,
    SECRET,
    Clock,
    KeyServer,
    authenticator,
    claims,
    issuer,
    jwk,
    jwks,
    principal,
    principal_later,
    refusal,
    refusal_later,
    remote_issuer,
    rsa_key,
    token,
)

SECONDS = 600.0
SEALING, OTHER = (SealingSecret(bytes([n]) * 32) for n in (1, 2))
ORDERS = TableScope("lake", "sales\x1feu", "orders", "11111111-0000-4000-8000-000000000000")


def table_tokens(*secrets: SealingSecret, seconds: float = SECONDS) -> TableTokens:
    return TableTokens(Sealer(secrets or (SEALING,), Purpose.TABLE_TOKEN), seconds)


def who(*issuers: Issuer, clock: Callable[[], float] | None = None, **more: Any) -> Authenticator:
    """Return an authenticator with table tokens switched on."""
    return authenticator(*issuers, clock=clock, **{"table_tokens": table_tokens(), **more})


def made(by: Authenticator, bearer: str, scope: TableScope = ORDERS) -> str:
    """Return a table token for the caller that shows the bearer token."""
    text = by.table_token(principal(by, bearer), bearer, scope)
    assert text is not None
    return text


def sealed(**changes: Any) -> str:
    """Return a table token of any content, as only a fault of ours could make it."""
    good = TableToken("corp/alice", ORDERS, NOW + SECONDS, token())
    content = msgspec.msgpack.encode(msgspec.structs.replace(good, **changes))
    return Sealer((SEALING,), Purpose.TABLE_TOKEN).seal(content)


# -- what it is good for


def test_a_table_token_names_the_caller_and_its_table() -> None:
    """Grants would be judged for another principal, or for every table."""
    by = who(issuer(roles_claim="roles", roles=("etl",), catalogs=("lake",)))
    bearer = token(claims(roles=["etl"]))
    assert principal(by, made(by, bearer)) == Principal(
        "corp/alice", "corp", "alice", NOW + SECONDS, ("etl",), ("lake",), None, ORDERS
    )
    assert principal(by, bearer).scope is None


def test_switched_off_none_is_made_and_none_is_accepted() -> None:
    """An operator who does not want them could not be rid of them."""
    on, off = who(), authenticator()
    text = made(on, token())
    assert off.table_token(principal(off, token()), token(), ORDERS) is None
    assert refusal(off, text) is Reason.TOKEN_MALFORMED
    assert off.upstream_bearer(text) == text


def test_the_upstream_is_sent_the_callers_own_token() -> None:
    """The catalog behind knows no table tokens; and it is to judge the caller by the caller's own rights."""
    by = who()
    bearer = token()
    assert by.upstream_bearer(made(by, bearer)) == bearer
    assert by.upstream_bearer(bearer) == bearer


def test_the_callers_own_token_is_not_found_in_it() -> None:
    """A finder of one in a log would have all that the caller may do."""
    by = who()
    bearer = token()
    text = made(by, bearer)
    assert not any(part in text for part in bearer.split("."))
    assert bearer not in repr(TableToken("corp/alice", ORDERS, NOW, bearer))


def test_every_token_of_ours_begins_as_one() -> None:
    """It would be taken for a JWT, and refused with a reason that misleads."""
    assert made(who(), token()).startswith(TABLE_TOKEN_PREFIX)
    assert f"{Purpose.TABLE_TOKEN.value}." == TABLE_TOKEN_PREFIX
    assert not is_table_token(token())


# -- attacks


def test_no_character_of_it_can_be_changed() -> None:
    """A caller could write another table, or another name, into a token."""
    by = who()
    text = made(by, token())
    for index in range(0, len(text), 7):
        altered = text[:index] + ("A" if text[index] != "A" else "B") + text[index + 1 :]
        assert refusal(by, altered) in {Reason.TOKEN_MALFORMED, Reason.TOKEN_SIGNATURE, Reason.TOKEN_KEY_UNKNOWN}


def test_a_context_is_no_token() -> None:
    """A caller that may begin to create a table holds a sealed text of ours."""
    by = who()
    content = msgspec.msgpack.encode(TableToken("corp/alice", ORDERS, NOW + SECONDS, token()))
    context = Sealer((SEALING,), Purpose.CONTEXT).seal(content)
    assert refusal(by, context) is Reason.TOKEN_MALFORMED
    assert refusal(by, TABLE_TOKEN_PREFIX + context.partition(".")[2]) is Reason.TOKEN_KEY_UNKNOWN
    own_key = made(by, token()).split(".")[1]
    assert refusal(by, f"{TABLE_TOKEN_PREFIX}{own_key}.{context.split('.')[2]}") is Reason.TOKEN_SIGNATURE


def test_a_table_token_is_no_context() -> None:
    """What a caller is given for one purpose must serve no other."""
    with pytest.raises(Exception, match="not of the form of a sealed text"):
        Sealer((SEALING,), Purpose.CONTEXT).open(made(who(), token()))


def test_a_token_of_another_installation_is_refused() -> None:
    """Its operator could name any principal."""
    other = who(table_tokens=table_tokens(OTHER))
    assert refusal(who(), made(other, token())) is Reason.TOKEN_KEY_UNKNOWN


def test_a_table_token_inside_a_table_token_is_refused() -> None:
    """Each layer would cost a decryption, and could be made to outlive the one below."""
    by = who()
    assert refusal(by, sealed(bearer=made(by, token()))) is Reason.TOKEN_MALFORMED
    assert refusal(by, sealed(bearer=TABLE_TOKEN_PREFIX)) is Reason.TOKEN_MALFORMED


def test_a_table_token_of_a_table_token_holds_the_callers_own() -> None:
    """Iceberg Java loads its table again with the table token; what it gets must not be one inside another."""
    by = who()
    bearer = token()
    first = made(by, bearer)
    second = made(by, first)
    assert second != first
    assert by.upstream_bearer(second) == bearer
    assert principal(by, second) == principal(by, first)


@pytest.mark.parametrize(
    "changes",
    (
        {"catalog": "other"},
        {"namespace": "sales"},
        {"namespace": "sales\x1feu\x1forders"},
        {"name": "customers"},
        {"uuid": "22222222-0000-4000-8000-000000000000"},
        {"uuid": ""},
    ),
)
def test_no_token_for_another_table_is_made_of_it(changes: dict[str, str]) -> None:
    """The holder of a token for one table could trade it for each of the caller's tables."""
    by = who()
    first = made(by, token())
    assert by.table_token(principal(by, first), first, msgspec.structs.replace(ORDERS, **changes)) is None


def test_a_token_for_a_name_can_be_narrowed_to_the_table_of_that_name() -> None:
    """A table that is loaded again once it exists would bring no token."""
    by = who()
    named = made(by, token(), msgspec.structs.replace(ORDERS, uuid=""))
    assert principal(by, made(by, named)).scope == ORDERS


def test_it_is_made_of_what_is_shown_and_not_of_what_is_claimed() -> None:
    """A caller that shows another's table token would be given one in its own name."""
    by = who()
    alice, bob = made(by, token()), token(claims(sub="bob"))
    mixed = by.table_token(principal(by, bob), alice, ORDERS)
    assert mixed is not None
    assert refusal(by, mixed) is Reason.TOKEN_CLAIM


def test_an_own_token_that_names_another_principal_by_now_is_refused() -> None:
    """A static token that was given to another service would go on as the former one."""
    digest = hashlib.sha256(b"opaque" * 8).hexdigest()
    by = who(static_tokens=StaticTokens({digest: OpaqueToken("alice")}))
    text = made(by, "opaque" * 8)
    assert principal(by, text).name == "static/alice"
    by.commit(by.prepare((issuer(),), StaticTokens({digest: OpaqueToken("bob")}), table_tokens()))
    assert refusal(by, text) is Reason.TOKEN_CLAIM


@pytest.mark.parametrize("text", (TABLE_TOKEN_PREFIX, "spt1..", "spt1.aaaaaaaa.", "spt1.aaaaaaaa.AAAA", "spt1.é"))
def test_rubbish_is_malformed(text: str) -> None:
    """An operator would look for a lost secret where a client sent half a token."""
    assert refusal(who(), text) is Reason.TOKEN_MALFORMED


def test_a_sealed_text_that_is_no_token_is_refused() -> None:
    """An older version of ours must not crash a newer one."""
    for content in (b"", b"\xc1", msgspec.msgpack.encode(["corp/alice"]), msgspec.msgpack.encode({"principal": "x"})):
        assert refusal(who(), Sealer((SEALING,), Purpose.TABLE_TOKEN).seal(content)) is Reason.TOKEN_MALFORMED


def test_longer_than_a_token_may_be_is_not_made_and_not_looked_at() -> None:
    """A client would be handed a token that every request is refused with."""
    digest = hashlib.sha256(b"x" * MAX_TOKEN).hexdigest()
    by = who(static_tokens=StaticTokens({digest: OpaqueToken("alice")}))
    long = "x" * MAX_TOKEN
    assert by.table_token(principal(by, long), long, ORDERS) is None
    assert refusal(by, TABLE_TOKEN_PREFIX + "a" * MAX_TOKEN) is Reason.TOKEN_MALFORMED


# -- how long it is good


@pytest.mark.parametrize(
    ("own", "expected"),
    ((SECONDS + 1, SECONDS), (SECONDS, SECONDS), (SECONDS - 1, SECONDS - 1), (0.5, 0.5)),
)
def test_it_ends_with_the_callers_own_or_with_its_time(own: float, expected: float) -> None:
    """A token that was found in a log would be good for ever."""
    clock = Clock()
    by = who(clock=clock)
    text = made(by, token(claims(exp=NOW + own)))
    assert principal(by, text).expires_at == NOW + expected
    clock.now = NOW + expected - 0.001
    assert principal(by, text).scope == ORDERS
    clock.now = NOW + expected
    assert refusal(by, text) is Reason.TOKEN_EXPIRED
    with pytest.raises(Refused, match="token_expired"):
        by.upstream_bearer(text)


def test_an_opaque_token_without_an_end_makes_one_with_an_end() -> None:
    """The settings' limit would hold for some callers only."""
    digest = hashlib.sha256(b"opaque" * 8).hexdigest()
    by = who(static_tokens=StaticTokens({digest: OpaqueToken("alice")}))
    assert principal(by, "opaque" * 8).expires_at == math.inf
    assert principal(by, made(by, "opaque" * 8)).expires_at == NOW + SECONDS


def test_a_token_that_was_accepted_within_the_leeway_makes_none() -> None:
    """What is made of a token must not outlive it."""
    by = who(clock=Clock(NOW + 10))
    bearer = token(claims(exp=NOW))
    assert by.table_token(principal(by, bearer), bearer, ORDERS) is None


def test_loading_the_table_again_does_not_prolong_it() -> None:
    """The finder of a table token could keep it alive for as long as the caller's own lives."""
    clock = Clock()
    by = who(clock=clock)
    first = made(by, token())
    clock.now = NOW + SECONDS - 1
    assert principal(by, made(by, first)).expires_at == NOW + SECONDS


# -- what ends it before its time


def test_a_key_that_was_exchanged_ends_what_was_made_of_its_tokens() -> None:
    """An issuer's stolen key would be of use for hours after it was withdrawn."""
    by = who()
    text = made(by, token())
    assert principal(by, text).name == "corp/alice"
    by.commit(by.prepare((issuer(keys=SharedSecret(SECRET[::-1])),), None, table_tokens()))
    assert refusal(by, text) is Reason.TOKEN_SIGNATURE


def test_an_issuer_that_is_gone_ends_what_was_made_of_its_tokens() -> None:
    """Its tokens would be refused, and what was made of them not."""
    by = who()
    text = made(by, token())
    assert principal(by, text).name == "corp/alice"
    other = issuer(name="other", issuer="https://other")
    by.commit(by.prepare((other,), None, table_tokens()))
    assert refusal(by, text) is Reason.TOKEN_ISSUER_UNKNOWN


def test_roles_and_catalogs_are_those_of_now() -> None:
    """An issuer that was cut back would go on speaking for what it lost."""
    by = who(issuer(roles_claim="roles", roles=("etl", "admin")))
    text = made(by, token(claims(roles=["etl", "admin"])))
    assert principal(by, text).roles == ("etl", "admin")
    cut = issuer(roles_claim="roles", roles=("etl",), catalogs=("other",))
    by.commit(by.prepare((cut,), None, table_tokens()))
    assert (principal(by, text).roles, principal(by, text).catalogs) == (("etl",), ("other",))


def test_a_rotated_secret_is_forgotten_once_it_is_gone_from_the_settings() -> None:
    """A stolen secret would be of use for as long as the tokens that it made are used."""
    by = who()
    old = made(by, token())
    assert principal(by, old).scope == ORDERS
    by.commit(by.prepare((issuer(),), None, table_tokens(OTHER, SEALING)))
    new = made(by, token())
    assert principal(by, old).scope == principal(by, new).scope == ORDERS
    by.commit(by.prepare((issuer(),), None, table_tokens(OTHER)))
    assert refusal(by, old) is Reason.TOKEN_KEY_UNKNOWN
    assert principal(by, new).scope == ORDERS


def test_switching_them_off_ends_them() -> None:
    """They would be accepted for as long as they are remembered."""
    by = who()
    text = made(by, token())
    assert principal(by, text).scope == ORDERS
    by.commit(by.prepare((issuer(),)))
    assert refusal(by, text) is Reason.TOKEN_MALFORMED


def test_preparing_changes_nothing() -> None:
    """A reload that is not accepted would end the tokens of running jobs."""
    by = who()
    text = made(by, token())
    by.prepare((issuer(),), None, table_tokens(OTHER))
    assert principal(by, text).scope == ORDERS
    assert principal(by, made(by, token())).scope == ORDERS


# -- what it costs


def test_it_is_opened_once() -> None:
    """Each request would cost a decryption and a look at the caller's own token."""
    by = who()
    text = made(by, token())
    assert principal(by, text) is principal(by, text)


def test_it_is_remembered_apart_from_the_callers_own() -> None:
    """A request with the one would be judged as one with the other."""
    by = who()
    bearer = token()
    text = made(by, bearer)
    assert principal(by, text).scope == ORDERS
    assert principal(by, bearer).scope is None
    assert principal(by, text).scope == ORDERS


# -- where the caller's keys have to be asked for


async def test_keys_are_asked_for_where_they_are_not_there_yet() -> None:
    """A job that outlives a restart of the sidecar would be refused until a user shows a token again."""
    key = rsa_key()
    async with KeyServer(jwks(jwk(key, kid="one", alg="RS256"))) as server:
        before, after = who(remote_issuer(server.url)), who(remote_issuer(server.url))
        bearer = token(key=key, algorithm="RS256", header={"kid": "one"})
        await principal_later(before, bearer)
        text = made(before, bearer)
        found = after.authenticate(text)
        assert not isinstance(found, Principal)
        assert (await found).scope == ORDERS
        assert principal(after, text).scope == ORDERS
        for by in (before, after):
            await by.aclose()


async def test_a_caller_who_does_not_wait_leaves_nothing_behind() -> None:
    """The quick path looks, and leaves the waiting to another; each look would leave a warning in the log."""
    async with KeyServer() as server:
        by = who(remote_issuer(server.url))
        bearer = token(key=rsa_key(), algorithm="RS256", header={"kid": "one"})
        text = table_tokens().make(Principal("corp/alice", "corp", "alice", NOW + 60), bearer, ORDERS, NOW)
        assert text is not None
        found = by.authenticate(text)
        assert not isinstance(found, Principal)
        found.close()
        assert server.count == 0
        await by.aclose()


async def test_keys_that_do_not_come_refuse_it() -> None:
    """A table token must not be believed because it cannot be checked."""
    async with KeyServer(b"no keys") as server:
        by = who(remote_issuer(server.url))
        bearer = token(key=rsa_key(), algorithm="RS256", header={"kid": "one"})
        text = table_tokens().make(Principal("corp/alice", "corp", "alice", NOW + 60), bearer, ORDERS, NOW)
        assert text is not None
        assert await refusal_later(by, text) is Reason.KEYS_UNAVAILABLE
        await by.aclose()


async def test_what_is_put_in_force_while_keys_are_asked_for_counts() -> None:
    """A token would be let in by settings that were withdrawn while it waited."""
    key = rsa_key()
    asked, answer = asyncio.Event(), asyncio.Event()

    async with KeyServer(jwks(jwk(key, kid="one", alg="RS256"))) as server:

        async def slow(_: Any) -> Any:
            from aiohttp import web

            asked.set()
            await answer.wait()
            return web.Response(body=server.body)

        server.answers["/"] = slow
        by = who(remote_issuer(f"{server.url}/"))
        bearer = token(key=key, algorithm="RS256", header={"kid": "one"})
        text = table_tokens().make(Principal("corp/alice", "corp", "alice", NOW + 60), bearer, ORDERS, NOW)
        assert text is not None
        waiting = asyncio.ensure_future(refusal_later(by, text))
        await asked.wait()
        by.commit(by.prepare((remote_issuer(f"{server.url}/"),)))
        answer.set()
        assert await waiting is Reason.TOKEN_MALFORMED
        await by.aclose()


def test_token_inspect_says_what_it_is() -> None:
    """An operator would be told that a good token is malformed."""
    found = inspect_token(made(who(), token()), (issuer(),), None, NOW)
    assert found.reason is None
    assert [(fact.check, fact.outcome) for fact in found.checks] == [("table token", CheckOutcome.NOT_CHECKED)]
