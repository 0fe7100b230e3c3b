"""How published keys are fetched ahead, shared, kept, dropped, and never asked for more often than allowed."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from signproxy.errors import Reason
from signproxy.identity import jwks as module
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.fetch import Fetched, Trust
from signproxy.identity.issuer import Discovery, Issuer, SharedSecret
from signproxy.identity.jwks import COOL_DOWN, HASTE, MAX_REFRESH, MAX_STALE, MIN_REFRESH, RemoteKeys
from signproxy.identity.key_url import KeysUnusable, KeyUrl
from tests.identity.rig import (
    SECRET,
    Answer,
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

KEYS = jwks(jwk(rsa_key(), kid="one"))


def signed(kid: str = "one", key: str = "first", **changes: object) -> str:
    return token(claims(**changes), rsa_key(key), "RS256", {"kid": kid})


class Sleeper:
    """A sleep that ends when the test says so."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self._asleep = asyncio.Event()
        self._wake = asyncio.Event()

    async def __call__(self, delay: float) -> None:
        self.delays.append(delay)
        self._asleep.set()
        await self._wake.wait()
        self._wake.clear()

    async def asleep(self) -> float:
        """Wait until the sleeper sleeps, and return for how long it means to."""
        await self._asleep.wait()
        return self.delays[-1]

    async def wake(self) -> float:
        """Let it wake, do its work and sleep again; return for how long it means to."""
        self._asleep.clear()
        self._wake.set()
        return await self.asleep()


class Scripted:
    """A fetch that answers what the test says, and counts."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.count = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()

    async def __call__(self, url: KeyUrl, trust: Trust) -> Fetched:
        self.count += 1
        self.asked.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await self.gate.wait()
        if isinstance(answer, Exception):
            raise answer
        return Fetched(answer)


DOWN = KeysUnusable("down")
URL = "https://idp.example/keys"


@asynccontextmanager
async def remote(
    get: Scripted, clock: Clock, *, sleep: Sleeper | None = None, of: Issuer | None = None
) -> AsyncIterator[RemoteKeys]:
    changes: list[None] = []
    source = RemoteKeys(
        of or remote_issuer(URL), lambda: changes.append(None), get=get, clock=clock, sleep=sleep or Sleeper()
    )
    try:
        yield source
    finally:
        await source.aclose()


@asynccontextmanager
async def closing(who: Authenticator) -> AsyncIterator[Authenticator]:
    try:
        yield who
    finally:
        await who.aclose()


# -- unknown keys


async def test_a_storm_of_unknown_kids_asks_once_a_minute() -> None:
    """Any client without a valid token could flood the identity provider through signproxy."""
    clock = Clock()
    async with (
        KeyServer(KEYS) as server,
        closing(authenticator(remote_issuer(server.url), key_clock=clock)) as who,
    ):
        assert (await principal_later(who, signed())).name == "corp/alice"
        assert server.count == 1
        clock.now += COOL_DOWN
        storm = [refusal_later(who, signed(f"made-up-{number}", sub=f"u{number}")) for number in range(100)]
        assert set(await asyncio.gather(*storm)) == {Reason.TOKEN_KEY_UNKNOWN}
        assert server.count == 2
        clock.now += COOL_DOWN - 0.001
        # Refused at once: there is nothing to wait for.
        assert refusal(who, signed("another")) is Reason.TOKEN_KEY_UNKNOWN
        assert server.count == 2
        clock.now += 0.001
        assert await refusal_later(who, signed("another")) is Reason.TOKEN_KEY_UNKNOWN
        assert server.count == 3


async def test_known_keys_are_served_while_unknown_ones_cool_down() -> None:
    """A storm would lock every caller out."""
    clock = Clock()
    async with (
        KeyServer(KEYS) as server,
        closing(authenticator(remote_issuer(server.url), key_clock=clock)) as who,
    ):
        await principal_later(who, signed())
        await refusal_later(who, signed("made-up"))
        assert principal(who, signed(sub="bob")).name == "corp/bob"


async def test_a_rotated_key_is_found_by_its_first_token() -> None:
    """Every rotation would lock callers out until the next refresh."""
    clock = Clock()
    async with (
        KeyServer(KEYS) as server,
        closing(authenticator(remote_issuer(server.url), key_clock=clock)) as who,
    ):
        await principal_later(who, signed())
        clock.now += COOL_DOWN
        server.body = jwks(jwk(rsa_key("second"), kid="two"))
        found = await asyncio.gather(
            *(principal_later(who, signed("two", "second", sub=f"u{number}")) for number in range(200))
        )
        assert len(found) == 200
        assert server.count == 2


async def test_a_rotation_during_a_fetch_is_seen_by_a_second_one() -> None:
    """Tokens of the new key would be refused because an answer from before the rotation was on its way."""
    clock = Clock()
    get = Scripted(KEYS, KEYS, jwks(jwk(rsa_key("second"), kid="two")))
    sleep = Sleeper()
    async with closing(authenticator(remote_issuer(URL), key_clock=clock, get=get, sleep=sleep)) as who:
        await who.start()
        await sleep.asleep()
        get.gate.clear()
        get.asked.clear()
        refreshed = asyncio.ensure_future(sleep.wake())
        await get.asked.wait()
        waiting = [asyncio.ensure_future(principal_later(who, signed("two", "second"))) for _ in range(200)]
        await asyncio.sleep(0)
        get.gate.set()
        assert {each.name for each in await asyncio.gather(*waiting)} == {"corp/alice"}
        await refreshed
        assert get.count == 3


async def test_a_caller_who_goes_away_leaves_the_fetch_to_the_others() -> None:
    """One impatient client would fail every other that waits for the same keys."""
    get = Scripted(KEYS)
    get.gate.clear()
    async with closing(authenticator(remote_issuer(URL), get=get)) as who:
        leaver, stayer = (asyncio.ensure_future(principal_later(who, signed(sub=sub))) for sub in ("a", "b"))
        await asyncio.sleep(0)
        leaver.cancel()
        await asyncio.sleep(0)
        get.gate.set()
        assert (await stayer).name == "corp/b"
        assert get.count == 1


async def test_callers_wait_for_a_slow_issuer_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers with made-up tokens could hold every connection while the issuer is slow."""
    monkeypatch.setattr(module, "MAX_WAIT", 0.01)
    get = Scripted(KEYS)
    get.gate.clear()
    async with closing(authenticator(remote_issuer(URL), get=get)) as who:
        assert await refusal_later(who, signed()) is Reason.KEYS_UNAVAILABLE
        # The fetch itself goes on.
        get.gate.set()
        monkeypatch.undo()
        assert (await principal_later(who, signed())).name == "corp/alice"
        assert get.count == 1


@pytest.mark.parametrize("answer", (b"", b"null", b"[]", b'"keys"', b"{}", b"\xff", b"[" * 100_000, b'{"keys":7}'))
async def test_an_answer_that_is_no_key_set_is_an_error(answer: bytes) -> None:
    """A captive portal or an error page could withdraw every key, or end the refresh."""
    clock = Clock()
    async with closing(authenticator(remote_issuer(URL), key_clock=clock, get=Scripted(KEYS, answer))) as who:
        await principal_later(who, signed())
        clock.now += COOL_DOWN
        assert await refusal_later(who, signed("two")) is Reason.TOKEN_KEY_UNKNOWN
        assert who.health()[0].failures == 1
        assert principal(who, signed(sub="bob")).name == "corp/bob"


async def test_who_waits_for_keys_at_the_end_is_told_so() -> None:
    """A shutdown would look to the server as if the caller had gone."""
    get = Scripted(KEYS)
    get.gate.clear()
    who = authenticator(remote_issuer(URL), get=get)
    waiting = asyncio.ensure_future(refusal_later(who, signed()))
    await asyncio.sleep(0)
    await who.aclose()
    assert await waiting is Reason.KEYS_UNAVAILABLE


async def test_nothing_is_fetched_after_the_end() -> None:
    """A task would outlive the server, and its loop complain."""
    get = Scripted(KEYS)
    who = authenticator(remote_issuer(URL), get=get)
    await who.aclose()
    await who.start()
    assert refusal(who, signed()) is Reason.KEYS_UNAVAILABLE
    assert get.count == 0


# -- an issuer that is down


async def test_an_issuer_that_is_down_at_the_start_recovers() -> None:
    """Signproxy would have to be started after its identity provider, or restarted."""
    clock = Clock()
    get = Scripted(DOWN, KEYS)
    async with closing(authenticator(remote_issuer(URL), key_clock=clock, get=get)) as who:
        assert await refusal_later(who, signed()) is Reason.KEYS_UNAVAILABLE
        assert get.count == 1
        clock.now += HASTE - 0.001
        assert refusal(who, signed()) is Reason.KEYS_UNAVAILABLE
        assert get.count == 1
        clock.now += 0.001
        assert (await principal_later(who, signed())).name == "corp/alice"
        assert get.count == 2


async def test_an_issuer_that_is_down_later_is_believed_by_its_old_keys() -> None:
    """An outage of the identity provider would stop every job."""
    clock, sleep = Clock(), Sleeper()
    get = Scripted(KEYS, DOWN)
    async with closing(authenticator(remote_issuer(URL), key_clock=clock, get=get, sleep=sleep)) as who:
        await who.start()
        await sleep.asleep()
        fetched_at = clock.now
        clock.now = fetched_at + MAX_STALE - 0.001
        await sleep.wake()
        assert get.count == 2
        assert principal(who, signed()).name == "corp/alice"
        health = who.health()[0]
        assert (health.usable, health.failures, health.last_error) == (True, 1, "down")
        assert health.age == pytest.approx(MAX_STALE, abs=1)
        # Boundary: a day later they are no evidence anymore, and neither is what was verified with them.
        clock.now = fetched_at + MAX_STALE
        assert await refusal_later(who, signed(sub="bob")) is Reason.KEYS_UNAVAILABLE
        assert await refusal_later(who, signed()) is Reason.KEYS_UNAVAILABLE
        assert not who.health()[0].usable


async def test_an_error_keeps_the_keys_and_what_was_verified_with_them() -> None:
    """A failed refresh would cost every request a signature check."""
    clock, sleep = Clock(), Sleeper()
    get = Scripted(KEYS, b"<html>maintenance</html>")
    async with closing(authenticator(remote_issuer(URL), key_clock=clock, get=get, sleep=sleep)) as who:
        await who.start()
        await sleep.asleep()
        remembered = principal(who, signed())
        await sleep.wake()
        assert principal(who, signed()) is remembered


async def test_keys_that_an_issuer_withdraws_are_gone_at_once() -> None:
    """An issuer that revokes every key after a theft would not be heard."""
    clock, sleep = Clock(), Sleeper()
    get = Scripted(KEYS, jwks())
    async with closing(authenticator(remote_issuer(URL), key_clock=clock, get=get, sleep=sleep)) as who:
        await who.start()
        await sleep.asleep()
        principal(who, signed())
        await sleep.wake()
        assert await refusal_later(who, signed()) is Reason.TOKEN_KEY_UNKNOWN


async def test_retries_slow_down_to_once_a_minute() -> None:
    """An identity provider that comes back would be met by a crowd."""
    sleep = Sleeper()
    get = Scripted(*([DOWN] * 8), KEYS, DOWN)
    async with remote(get, Clock(), sleep=sleep) as source:
        source.start()
        delays = [await sleep.asleep(), *[await sleep.wake() for _ in range(7)]]
        assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
        # A good fetch begins anew.
        assert await sleep.wake() == 240.0
        assert await sleep.wake() == 1.0


async def test_a_fault_of_our_own_neither_ends_the_refresh_nor_reaches_a_caller(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One bug would leave the keys to age for ever, silently."""
    clock, sleep = Clock(), Sleeper()
    get = Scripted(ZeroDivisionError("bug"), KEYS)
    async with closing(authenticator(remote_issuer(URL), key_clock=clock, get=get, sleep=sleep)) as who:
        await who.start()
        assert await sleep.asleep() == 1.0
        assert refusal(who, signed()) is Reason.KEYS_UNAVAILABLE
        assert who.health()[0].last_error == "ZeroDivisionError in signproxy"
        assert "ZeroDivisionError: bug" in capsys.readouterr().err
        await sleep.wake()
        assert principal(who, signed()).name == "corp/alice"


async def test_a_lasting_error_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A day of outage would bury everything else in the log."""
    sleep = Sleeper()
    async with remote(Scripted(DOWN, DOWN, DOWN, KeysUnusable("worse")), Clock(), sleep=sleep) as source:
        source.start()
        await sleep.asleep()
        for _ in range(3):
            await sleep.wake()
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert [(line["event"], line["issuer"], line["problem"]) for line in lines] == [
            ("keys not fetched", "corp", "down"),
            ("keys not fetched", "corp", "worse"),
        ]


# -- refresh ahead


@pytest.mark.parametrize(
    ("cache_control", "delay"),
    (
        ("max-age=1000", 800.0),
        ("public, max-age=600, must-revalidate", 480.0),
        ("PUBLIC,MAX-AGE=600", 480.0),
        ('max-age="600"', 480.0),
        # Clamped: 80 % of 75 s and of 4,500 s are the limits.
        ("max-age=75", MIN_REFRESH),
        ("max-age=74", MIN_REFRESH),
        ("max-age=77", 61.6),
        ("max-age=0", MIN_REFRESH),
        ("max-age=4499", 3_599.2),
        ("max-age=4500", MAX_REFRESH),
        ("max-age=999999999", MAX_REFRESH),
        ("no-store, max-age=1000", MIN_REFRESH),
        ("no-cache", MIN_REFRESH),
        # Says nothing that we can use: five minutes.
        ("", 240.0),
        ("s-maxage=1000", 240.0),
        ("x-max-age=1000", 240.0),
        ("max-age=-5", 240.0),
        ("max-age=9999999999", 240.0),
        ("max-age=soon", 240.0),
    ),
)
async def test_keys_are_refreshed_ahead_of_their_age(cache_control: str, delay: float) -> None:
    """A request would wait for a fetch, or a withdrawn key would live too long."""
    sleep = Sleeper()
    async with KeyServer(KEYS, {"Cache-Control": cache_control} if cache_control else {}) as server:
        source = RemoteKeys(remote_issuer(server.url), lambda: None, sleep=sleep)
        source.start()
        source.start()  # a second start begins no second task
        assert await sleep.asleep() == pytest.approx(delay)
        await sleep.wake()
        assert server.count == 2
        await source.aclose()


async def test_only_published_keys_are_fetched() -> None:
    """A shared secret would be looked for at a URL that is not configured."""
    with pytest.raises(TypeError):
        RemoteKeys(issuer(SharedSecret(SECRET)), lambda: None)


async def test_age_counts_from_the_last_good_fetch() -> None:
    """Alerts on the age of keys would stay silent while every fetch fails."""
    clock, sleep = Clock(), Sleeper()
    async with remote(Scripted(KEYS, DOWN), clock, sleep=sleep) as source:
        assert source.health().age == math.inf
        source.start()
        await sleep.asleep()
        clock.now += 100
        await sleep.wake()
        assert source.health().age == 100


# -- discovery


def configuration(server: KeyServer, **changes: object) -> Answer:
    good = {"issuer": server.url, "jwks_uri": f"{server.url}/keys"}
    document = {name: value for name, value in {**good, **changes}.items() if value is not ...}

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=json.dumps(document).encode())

    return answer


WELL_KNOWN = "/.well-known/openid-configuration"


@pytest.mark.parametrize("slash", ("", "/"))
async def test_keys_are_discovered(slash: str) -> None:
    """An issuer that is only known by its URL could not be used."""
    async with KeyServer(KEYS) as server:
        iss = server.url + slash
        server.answers[WELL_KNOWN] = configuration(server, issuer=iss)
        found = issuer(Discovery(), issuer=iss, algorithms=("RS256",))
        async with closing(authenticator(found)) as who:
            assert (await principal_later(who, signed(iss=iss))).name == "corp/alice"
        assert [request.path for request in server.requests] == [WELL_KNOWN, "/keys"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    (
        # Byte-exact: an author of a document on the host must not speak for another issuer on it.
        ({"issuer": "{url}/"}, "`issuer` is"),
        ({"issuer": "{url}/tenant"}, "`issuer` is"),
        ({"issuer": "HTTP{tail}"}, "`issuer` is"),
        ({"issuer": ...}, "`issuer` is None"),
        ({"issuer": 7}, "`issuer` is 7"),
        ({"jwks_uri": ...}, "`jwks_uri` is missing"),
        ({"jwks_uri": ["{url}/keys"]}, "`jwks_uri` is missing"),
        ({"jwks_uri": "/keys"}, "not a plain http(s) URL"),
        ({"jwks_uri": "file:///etc/passwd"}, "not a plain http(s) URL"),
        ({"jwks_uri": "http://169.254.169.254/latest"}, "or no host at all"),
        ({"jwks_uri": "http://10.0.0.1/keys"}, "http is only for loopback"),
        ({"jwks_uri": "https://169.254.169.254/latest"}, "or no host at all"),
        ({"jwks_uri": "https://evil.example/keys"}, "evil.example, which is not listed"),
        ({"jwks_uri": "https://127.0.0.1.evil.example/keys"}, "not listed"),
        ({"jwks_uri": "https://evil.example/@127.0.0.1/keys"}, "evil.example, which is not listed"),
        ({"jwks_uri": "https://127.0.0.1@evil.example/keys"}, "not a plain"),
        ({"jwks_uri": "https://evil.example\\@127.0.0.1/keys"}, "not a plain"),
        # Another name of loopback is another host.
        ({"jwks_uri": "http://localhost:1/keys"}, "localhost, which is not listed"),
    ),
)
async def test_a_discovery_document_cannot_point_elsewhere(changes: dict[str, object], problem: str) -> None:
    """A changed document on the issuer's host could bring an attacker's keys."""
    async with KeyServer(KEYS) as server:

        def filled(value: object) -> object:
            tail = server.url.removeprefix("http")
            return value.replace("{url}", server.url).replace("{tail}", tail) if isinstance(value, str) else value

        changed = {name: filled(value) for name, value in changes.items()}
        server.answers[WELL_KNOWN] = configuration(server, **changed)
        found = issuer(Discovery(), issuer=server.url, algorithms=("RS256",))
        async with closing(authenticator(found)) as who:
            assert await refusal_later(who, signed(iss=server.url)) is Reason.KEYS_UNAVAILABLE
            assert problem in who.health()[0].last_error
        assert [request.path for request in server.requests] == [WELL_KNOWN]


async def test_a_listed_host_may_hold_the_key_set() -> None:
    """Clusters and clouds that publish keys on a host of their own could not be used."""
    async with KeyServer(KEYS) as server:
        elsewhere = f"http://localhost:{server.port}/keys"
        server.answers[WELL_KNOWN] = configuration(server, jwks_uri=elsewhere)
        found = issuer(Discovery(hosts=("localhost",)), issuer=server.url, algorithms=("RS256",))
        async with closing(authenticator(found)) as who:
            assert (await principal_later(who, signed(iss=server.url))).name == "corp/alice"


async def test_an_unknown_issuer_is_never_fetched() -> None:
    """A token could make signproxy call any URL."""
    async with KeyServer(KEYS) as server, KeyServer(KEYS) as evil:
        found = issuer(Discovery(), issuer=server.url, algorithms=("RS256",))
        async with closing(authenticator(found)) as who:
            for iss in (evil.url, server.url + "/", server.url.replace("http", "HTTP"), server.url + "\u0000"):
                assert refusal(who, signed(iss=iss)) is Reason.TOKEN_ISSUER_UNKNOWN
        assert (server.count, evil.count) == (0, 0)
