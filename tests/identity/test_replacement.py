"""Who is believed after the settings changed: no caller for a moment longer, and no other caller is refused for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from signproxy.errors import Reason, Refused, SettingsInvalid
from signproxy.identity.authenticator import Authenticator, PreparedIssuers, Refreshes
from signproxy.identity.issuer import Issuer, SharedSecret
from signproxy.identity.jwks import COOL_DOWN
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.model import Principal
from tests.identity.rig import (
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
from tests.identity.test_jwks import DOWN, KEYS, URL, Scripted, Sleeper, closing, signed

OPAQUE = "local-development-token-0123456789"
OTHER: dict[str, Any] = {"name": "other", "issuer": "https://other", "keys": SharedSecret(b"2" * 32)}


def other_token() -> str:
    return token(claims(iss="https://other"), b"2" * 32)


def replace(who: Authenticator, *issuers: Issuer, static: StaticTokens | None = None) -> PreparedIssuers:
    prepared = who.prepare(issuers, static)
    who.commit(prepared)
    return prepared


def test_what_is_prepared_changes_nothing_until_it_is_put_in_force() -> None:
    """A change that another worker refuses would be in force on this one."""
    who = authenticator()
    prepared = who.prepare((issuer(**OTHER),))
    assert principal(who, token()).name == "corp/alice"
    assert refusal(who, other_token()) is Reason.TOKEN_ISSUER_UNKNOWN
    assert [health.issuer for health in who.health()] == ["corp"]
    who.commit(prepared)
    assert principal(who, other_token()).name == "other/alice"
    assert refusal(who, token()) is Reason.TOKEN_ISSUER_UNKNOWN
    assert [health.issuer for health in who.health()] == ["other"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    (
        ({"audiences": ("elsewhere",)}, Reason.TOKEN_AUDIENCE),
        ({"issuer": "https://moved"}, Reason.TOKEN_ISSUER_UNKNOWN),
        ({"keys": SharedSecret(b"3" * 64)}, Reason.TOKEN_SIGNATURE),
        ({"algorithms": ("HS512",)}, Reason.TOKEN_ALGORITHM),
        ({"principal_claim": "azp"}, Reason.TOKEN_CLAIM),
    ),
)
def test_a_remembered_token_is_judged_by_what_is_in_force(changes: dict[str, Any], reason: Reason) -> None:
    """A caller that was let in once would stay in until its token expires, whatever the operator does."""
    who = authenticator()
    principal(who, token())
    replace(who, issuer(**changes))
    assert refusal(who, token()) is reason


def test_a_remembered_token_loses_what_its_issuer_lost() -> None:
    """A role that was taken away would go on being brought by every token in use."""
    text = token(claims(roles=["etl", "analyst"]))
    who = authenticator(issuer(roles_claim="roles", roles=("etl", "analyst")))
    assert principal(who, text).roles == ("etl", "analyst")
    replace(who, issuer(roles_claim="roles", roles=("analyst",), catalogs=("sales",)))
    found = principal(who, text)
    assert (found.roles, found.catalogs) == (("analyst",), ("sales",))
    replace(who, issuer(name="renamed"))
    assert (principal(who, text).name, principal(who, text).roles) == ("renamed/alice", ())


def test_static_tokens_are_replaced() -> None:
    """A token that was taken out of the settings would open the door until the next start."""
    digest = hash_token(OPAQUE)
    who = authenticator(static_tokens=StaticTokens({digest: OpaqueToken("spark", ("etl",))}))
    assert principal(who, OPAQUE).roles == ("etl",)
    replace(who, issuer(), static=StaticTokens({digest: OpaqueToken("spark")}))
    assert principal(who, OPAQUE).roles == ()
    replace(who, issuer())
    assert refusal(who, OPAQUE) is Reason.TOKEN_MALFORMED


def test_issuers_that_could_be_taken_for_one_another_are_never_prepared() -> None:
    """A reload would let in what the start refuses."""
    who = authenticator()
    with pytest.raises(SettingsInvalid):
        who.prepare((issuer(), issuer(name="other", issuer="https://other")))
    with pytest.raises(SettingsInvalid):
        who.prepare((issuer(name="static"),), StaticTokens({hash_token(OPAQUE): OpaqueToken("spark")}))
    assert principal(who, token()).name == "corp/alice"


async def test_what_was_prepared_is_settled_once() -> None:
    """An outdated preparation would bring back issuers that a later one took out."""
    who = authenticator()
    first, second = who.prepare((issuer(**OTHER),)), who.prepare((issuer(),))
    who.commit(second)
    for prepared in (first, second):
        with pytest.raises(RuntimeError):
            who.commit(prepared)
    await who.discard(second)
    third = who.prepare((issuer(**OTHER),))
    await who.discard(third)
    await who.discard(third)
    with pytest.raises(RuntimeError):
        who.commit(third)
    assert principal(who, token()).name == "corp/alice"


# -- published keys


@pytest.mark.parametrize(
    "changes",
    ({}, {"roles_claim": "roles", "roles": ("etl",)}, {"audiences": ("signproxy", "more")}, {"catalogs": ("sales",)}),
)
async def test_keys_that_were_fetched_are_kept(changes: dict[str, Any]) -> None:
    """Each reload would depend on the identity provider being up, and ask it once per worker."""
    async with KeyServer(KEYS) as server, closing(authenticator(remote_issuer(server.url))) as who:
        await who.start()
        await principal_later(who, signed())
        server.status = 500
        prepared = who.prepare((remote_issuer(server.url, **changes),))
        assert await prepared.warm() == ()
        who.commit(prepared)
        assert principal(who, signed()).name == "corp/alice"
        assert server.count == 1


async def test_a_change_of_where_the_keys_are_is_fetched_before_it_is_in_force() -> None:
    """The first callers after a reload would be refused, or wait."""
    async with KeyServer(KEYS) as old, KeyServer(jwks(jwk(rsa_key("second"), kid="two"))) as new:
        async with closing(authenticator(remote_issuer(old.url))) as who:
            await who.start()
            await principal_later(who, signed())
            prepared = who.prepare((remote_issuer(new.url),))
            assert await prepared.warm() == ()
            # Until then the old keys alone are believed.
            assert principal(who, signed()).name == "corp/alice"
            assert refusal(who, signed("two", "second", iss="https://else")) is Reason.TOKEN_ISSUER_UNKNOWN
            who.commit(prepared)
            assert principal(who, signed("two", "second")).name == "corp/alice"
            assert await refusal_later(who, signed()) is Reason.TOKEN_KEY_UNKNOWN
        assert old.count == 1


async def test_an_issuer_that_is_down_is_told_and_holds_up_nothing() -> None:
    """One dead identity provider would keep every other change from taking effect, the one that mends it included."""
    clock, get = Clock(), Scripted(DOWN, KEYS)
    async with closing(authenticator(key_clock=clock, get=get, sleep=Sleeper())) as who:
        await who.start()
        prepared = who.prepare((issuer(), remote_issuer(URL, name="remote", issuer="https://remote")))
        assert await prepared.warm() == ("issuer remote: down",)
        who.commit(prepared)
        assert principal(who, token()).name == "corp/alice"
        text = signed(iss="https://remote")
        assert refusal(who, text) is Reason.KEYS_UNAVAILABLE
        clock.now += COOL_DOWN
        assert (await principal_later(who, text)).name == "remote/alice"


async def test_a_slow_issuer_is_waited_for_only_so_long() -> None:
    """A reload would hang as long as another party's server does."""
    get = Scripted(KEYS)
    get.gate.clear()
    async with closing(authenticator(get=get, sleep=Sleeper())) as who:
        await who.start()
        prepared = who.prepare((remote_issuer(URL),))
        assert await prepared.warm(0.01) == ("issuer corp: no answer yet",)
        who.commit(prepared)
        # The fetch itself goes on, and is the only one.
        waiting = asyncio.ensure_future(principal_later(who, signed()))
        await asyncio.sleep(0)
        get.gate.set()
        assert (await waiting).name == "corp/alice"
        assert get.count == 1


async def test_the_first_keys_leave_a_second_fetch_for_a_rotation() -> None:
    """A key that is rotated right after a reload would be unknown for a minute."""
    async with KeyServer(KEYS) as server, closing(authenticator()) as who:
        await who.start()
        prepared = who.prepare((remote_issuer(server.url),))
        await prepared.warm()
        who.commit(prepared)
        assert server.count == 1
        server.body = jwks(jwk(rsa_key("second"), kid="two"))
        assert (await principal_later(who, signed("two", "second"))).name == "corp/alice"


async def test_a_rotation_still_bites_after_the_keys_were_kept() -> None:
    """Tokens of a stolen key would be accepted again because of an unrelated reload."""
    clock, sleep = Clock(), Sleeper()
    get = Scripted(KEYS, jwks(jwk(rsa_key("second"), kid="two")))
    async with closing(authenticator(remote_issuer(URL), key_clock=clock, get=get, sleep=sleep)) as who:
        await who.start()
        await sleep.asleep()
        replace(who, remote_issuer(URL, audiences=("signproxy", "more")))
        assert principal(who, signed()).name == "corp/alice"
        await sleep.wake()
        assert await refusal_later(who, signed()) is Reason.TOKEN_KEY_UNKNOWN


# -- callers who are waiting for keys


@asynccontextmanager
async def waiting_caller(changed: tuple[Issuer, ...]) -> AsyncIterator[tuple[Authenticator, asyncio.Task[Principal]]]:
    """Put other issuers in force while a caller waits for the keys of the former ones."""
    get = Scripted(KEYS)
    get.gate.clear()
    text = signed(roles=["etl"])
    async with closing(
        authenticator(remote_issuer(URL, roles_claim="roles", roles=("etl",)), get=get, sleep=Sleeper())
    ) as who:
        await who.start()
        waiting = asyncio.ensure_future(principal_later(who, text))
        await asyncio.sleep(0)
        replace(who, *changed)
        get.gate.set()
        yield who, waiting


async def test_a_caller_who_waits_is_judged_by_what_is_in_force_in_the_end() -> None:
    """A caller that makes signproxy wait would be let in by an issuer that is gone, and remembered."""
    async with waiting_caller((issuer(**OTHER),)) as (who, waiting):
        assert await refusal_of(waiting) is Reason.TOKEN_ISSUER_UNKNOWN
        assert not who._verified
    async with waiting_caller((remote_issuer(URL, audiences=("elsewhere",)),)) as (who, waiting):
        assert await refusal_of(waiting) is Reason.TOKEN_AUDIENCE
        assert not who._verified
    async with waiting_caller((remote_issuer(URL),)) as (who, waiting):
        assert (await waiting).roles == ()
        assert [found.roles for found in who._verified.values()] == [()]


async def test_a_caller_who_waits_for_a_source_that_is_replaced_waits_for_the_new_one() -> None:
    """A reload would answer 503 to a caller that came just before it."""
    async with waiting_caller((remote_issuer("https://idp.example/other"),)) as (_, waiting):
        assert (await waiting).name == "corp/alice"


async def test_an_identification_that_begins_after_the_change_follows_it() -> None:
    """Between asking and waiting there may be a whole reload."""
    async with closing(authenticator(remote_issuer(URL), get=Scripted(KEYS))) as who:
        found = who.authenticate(signed())
        replace(who, issuer(**OTHER))
        assert await refusal_of(found) is Reason.TOKEN_ISSUER_UNKNOWN


async def refusal_of(found: Principal | Awaitable[Principal]) -> Reason:
    assert not isinstance(found, Principal)
    try:
        accepted = await found
    except Refused as refused:
        return refused.reason
    raise AssertionError(f"accepted: {accepted}")


async def test_no_order_of_changes_and_callers_lets_a_former_role_through() -> None:
    """What single orders of events do not show."""
    drawn = random.Random(7)
    get = Scripted(KEYS)
    text = signed(roles=["r0", "r1", "r2"])
    accepted = 0
    async with closing(
        authenticator(remote_issuer(URL, roles_claim="roles", roles=("r0",)), get=get, sleep=Sleeper())
    ) as who:
        await who.start()
        in_force = ("r0",)

        async def call() -> bool:
            found = await principal_later(who, text)
            # Nothing runs between the answer and this line.
            assert found.roles == in_force
            return True

        for _ in range(200):
            callers = [asyncio.ensure_future(call()) for _ in range(3)]
            for _ in range(drawn.randrange(4)):
                await asyncio.sleep(0)
            in_force = (f"r{drawn.randrange(3)}",)
            path = drawn.choice(("keys", "other"))
            replace(who, remote_issuer(f"https://idp.example/{path}", roles_claim="roles", roles=in_force))
            accepted += sum(await asyncio.gather(*callers))
    assert accepted == 600


# -- what is left behind


def _others() -> int:
    return len(asyncio.all_tasks()) - 1


async def test_former_sources_end() -> None:
    """Each reload would leave a task that asks an issuer that is not believed anymore."""
    get, sleep = Scripted(KEYS), Sleeper()
    who = authenticator(remote_issuer(URL), get=get, sleep=sleep)
    await who.start()
    await sleep.asleep()
    assert _others() == 1
    get.gate.clear()
    waking = asyncio.ensure_future(sleep.wake())
    await asyncio.sleep(0)
    replace(who, issuer())
    await who.aclose_retired()
    assert not who._retired
    waking.cancel()
    await asyncio.gather(waking, return_exceptions=True)
    assert _others() == 0
    await who.aclose()


async def test_former_sources_ask_no_issuer_even_before_their_end_was_waited_for() -> None:
    """An issuer that was taken out in haste would still be asked, and sent the file with the token."""
    get, sleep = Scripted(KEYS), Sleeper()
    async with closing(authenticator(remote_issuer(URL), get=get, sleep=sleep)) as who:
        await who.start()
        await sleep.asleep()
        replace(who, issuer())
        for _ in range(3):
            await asyncio.sleep(0)
        assert _others() == 0


async def test_what_is_not_put_in_force_ends() -> None:
    """A reload that fails again and again would leave a task each time."""
    get = Scripted(KEYS)
    get.gate.clear()
    who = authenticator(remote_issuer(URL), get=get, sleep=Sleeper())
    prepared = who.prepare((remote_issuer(URL), remote_issuer(URL, name="new", issuer="https://new")))
    warming = asyncio.ensure_future(prepared.warm())
    await get.asked.wait()
    assert _others() > 1
    warming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await warming
    await who.discard(prepared)
    assert _others() == 0
    # The source that both share is the one in force, and goes on.
    get.gate.set()
    assert (await principal_later(who, signed())).name == "corp/alice"
    await who.aclose()


async def test_new_sources_are_kept_fresh_even_if_not_waited_for() -> None:
    """Keys would be fetched once, on demand, and withdrawn ones stay."""
    get, sleep = Scripted(KEYS), Sleeper()
    async with closing(authenticator(get=get, sleep=sleep)) as who:
        await who.start()
        replace(who, remote_issuer(URL))
        await sleep.asleep()
        await sleep.wake()
        assert get.count == 2


async def test_fetches_are_counted_over_all_issuers_that_ever_were() -> None:
    """A counter that falls reads as a restart, and a rate of failures over it as a spike."""
    clock, sleep = Clock(), Sleeper()
    async with closing(authenticator(key_clock=clock, get=Scripted(KEYS, DOWN, KEYS), sleep=sleep)) as who:
        await who.start()
        assert who.refreshes() == Refreshes(0, 0)
        first = who.prepare((remote_issuer(URL),))
        await first.warm()
        assert who.refreshes() == Refreshes(0, 0)
        who.commit(first)
        assert who.refreshes() == Refreshes(1, 0)
        second = who.prepare((remote_issuer(URL), remote_issuer(URL, name="two", issuer="https://two")))
        await second.warm()
        await who.discard(second)
        assert who.refreshes() == Refreshes(1, 1)
        replace(who, issuer(keys=SharedSecret(SECRET)))
        assert who.refreshes() == Refreshes(1, 1)
        third = who.prepare((remote_issuer(URL),))
        await third.warm()
        who.commit(third)
        assert who.refreshes() == Refreshes(2, 1)
        health = who.health()[0]
        assert (health.fetches, health.successes, health.failures) == (1, 1, 0)
