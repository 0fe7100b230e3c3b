"""What an operator is told of changed settings, and which of them take effect at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from signproxy.config.difference import MAX_CHANGES, RELOADABLE, TakesEffect, difference, effect_of, in_force
from signproxy.config.settings import Settings

SECRET = "wJalrXUtnFEMI"
DIGEST = "a" * 64


def settings(**sections: Any) -> Settings:
    return msgspec.convert(sections, Settings)


def texts(old: Settings, new: Settings) -> list[str]:
    return [change.text for change in difference(old, new)]


def issuer(**changes: Any) -> dict[str, Any]:
    return {"issuers": {"corp": {"issuer": "https://idp", "audiences": ["signproxy"], **changes}}}


def provider(**properties: str) -> dict[str, Any]:
    return {"providers": {"main": {"class": "static", "properties": properties}}}


def storage(**changes: Any) -> dict[str, Any]:
    return {"lake": {"credentials": "main", "hosts": ["aws"], **changes}}


def token(principal: str, digest: str = DIGEST, **changes: Any) -> dict[str, Any]:
    return {"sha256": digest, "principal": principal, **changes}


def test_equal_settings_do_not_differ() -> None:
    """Each look at the files would be told as a change."""
    assert texts(settings(), settings()) == []
    full = {"identity": issuer(), "credentials": provider(file="x"), "storages": storage()}
    assert texts(settings(**full), settings(**full)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    (
        ({}, {"limits": {"burst": 8000}}, ["limits.burst: 4000 -> 8000"]),
        ({}, {"signing": {"client_cache": True}}, ["signing.client_cache: false -> true"]),
        ({}, {"policy": {"path": "p"}}, ["policy.path: nothing -> 'p'"]),
        ({}, {"log": {"level": "debug"}}, ["log.level: info -> debug"]),
        ({"public_url": "https://a"}, {"public_url": "https://b"}, ["public_url: 'https://a' -> 'https://b'"]),
        # Each key on its own, in the order of the reference.
        (
            {},
            {"workers": 2, "listen": {"port": 1, "host": "::1"}},
            ["listen.host: '127.0.0.1' -> '::1'", "listen.port: 8181 -> 1", "workers: 1 -> 2"],
        ),
        # Lists
        (
            {"identity": issuer(audiences=["a", "b"])},
            {"identity": issuer(audiences=["b", "c"])},
            ["identity.issuers.corp.audiences: added 'c'; removed 'a'"],
        ),
        (
            {"identity": issuer(audiences=["a", "b"])},
            {"identity": issuer(audiences=["b", "a"])},
            ["identity.issuers.corp.audiences: in another order"],
        ),
        (
            {"identity": issuer(algorithms=["RS256"])},
            {"identity": issuer(algorithms=["RS256", "ES256"])},
            ["identity.issuers.corp.algorithms: added ES256"],
        ),
        # Left out means all, and an empty list none.
        (
            {"identity": issuer()},
            {"identity": issuer(catalogs=[])},
            ["identity.issuers.corp.catalogs: left out -> nothing"],
        ),
        (
            {"identity": issuer(catalogs=[f"c{n}" for n in range(9)])},
            {"identity": issuer()},
            ["identity.issuers.corp.catalogs: 'c0', 'c1', 'c2', 'c3', 'c4' and 4 more -> left out"],
        ),
        # What is by name
        ({}, {"identity": issuer()}, ["identity.issuers.corp: added"]),
        ({"storages": storage()}, {}, ["storages.lake: removed"]),
        (
            {"storages": storage()},
            {"storages": storage(accept_unchecked_headers=True, hosts=["aws", "h:1"])},
            ["storages.lake.hosts: added 'h:1'", "storages.lake.accept_unchecked_headers: false -> true"],
        ),
        (
            {"storages": storage(buckets={"b": "main"})},
            {"storages": storage(buckets={"b": "other"})},
            ["storages.lake.buckets.b: 'main' -> 'other'"],
        ),
        (
            {"storages": {"a b": storage()["lake"]}},
            {},
            ["storages['a b']: removed"],
        ),
    ),
)
def test_a_change_is_told_in_words(old: dict[str, Any], new: dict[str, Any], said: list[str]) -> None:
    """At three in the morning no operator compares two files that are no longer there."""
    assert texts(settings(**old), settings(**new)) == said


def test_tokens_are_told_apart_by_their_digest() -> None:
    """One token more at the top of the list would read as if every token had changed hands."""
    first, second = token("spark", "1" * 64), token("dbt", "2" * 64, roles=["etl"])
    new = token("ann", "3" * 64)
    old = settings(identity={"static_tokens": [first, second]})
    assert texts(old, settings(identity={"static_tokens": [new, first, second]})) == [
        "identity.static_tokens.ann: token added"
    ]
    changed = settings(identity={"static_tokens": [token("dbt", "2" * 64)]})
    assert texts(old, changed) == [
        "identity.static_tokens.spark: token removed",
        "identity.static_tokens.dbt.roles: removed 'etl'",
    ]
    assert texts(old, settings(identity={"static_tokens": [second, first]})) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    (
        (
            {"credentials": provider(secret_access_key="old" + SECRET)},
            {"credentials": provider(secret_access_key=SECRET)},
            ["credentials.providers.main.properties.secret_access_key: changed"],
        ),
        (
            {"credentials": provider(a=SECRET)},
            {"credentials": provider(b=SECRET)},
            ["credentials.providers.main.properties.a: removed", "credentials.providers.main.properties.b: added"],
        ),
        ({}, {"credentials": provider(a=SECRET)}, ["credentials.providers.main: added"]),
        # Services that sell key sets put the customer's key there.
        (
            {"identity": issuer(jwks_url="https://idp/keys")},
            {"identity": issuer(jwks_url=f"https://idp/keys?key={SECRET}")},
            ["identity.issuers.corp.jwks_url: 'https://idp/keys' -> 'https://idp/keys?…'"],
        ),
        (
            {"identity": {"static_tokens": [token("spark", DIGEST)]}},
            {"identity": {"static_tokens": [token("spark", "b" * 64)]}},
            ["identity.static_tokens.spark: token removed", "identity.static_tokens.spark: token added"],
        ),
    ),
)
def test_nothing_that_may_be_a_secret_is_told(old: dict[str, Any], new: dict[str, Any], said: list[str]) -> None:
    """The log of a reload would hold the keys of the lake."""
    changes = difference(settings(**old), settings(**new))
    assert [change.text for change in changes] == said
    assert SECRET not in repr(changes)
    assert "b" * 64 not in repr(changes)


def test_what_is_told_is_harmless_to_the_terminal() -> None:
    """A name that was pasted with an escape would clear the operator's screen, or pose as another line."""
    new = settings(
        storages={"a\x1b[2J\n": storage()["lake"]}, policy={"path": "p\n\u202e" + "x" * 500}, public_url="https://\x9b"
    )
    for text in texts(settings(), new):
        assert text.isprintable()
        assert len(text) < 200


def test_the_list_of_changes_is_bounded() -> None:
    """A settings file of another server would fill the log."""
    many = {f"s{number}": storage()["lake"] for number in range(MAX_CHANGES + 7)}
    changes = difference(settings(), settings(storages=many))
    assert len(changes) == MAX_CHANGES + 1
    assert (changes[-1].text, changes[-1].effect) == ("and 7 more settings", TakesEffect.RELOAD)
    # What needs a restart is not hidden by what does not.
    limits = difference(settings(storages=many), settings(log={"level": "error"}))
    assert limits[-1].effect is TakesEffect.RESTART


# -- what takes effect

TLS = {"cert_file": "c", "key_file": "k"}


@pytest.mark.parametrize(
    ("old", "new", "effects"),
    (
        ({}, {"limits": {"burst": 1}}, [TakesEffect.RELOAD]),
        ({}, {"identity": issuer()}, [TakesEffect.RELOAD]),
        ({}, {"admin": {"role": "ops"}}, [TakesEffect.RELOAD]),
        ({}, {"admin": {"port": 1}}, [TakesEffect.RESTART]),
        ({}, {"listen": {"port": 1}}, [TakesEffect.RESTART]),
        ({}, {"audit": {"queue": 500}}, [TakesEffect.RESTART]),
        ({}, {"workers": 2}, [TakesEffect.RESTART]),
        ({}, {"loop": "asyncio"}, [TakesEffect.RESTART]),
        ({}, {"reload": {"poll_seconds": 9}}, [TakesEffect.RESTART]),
        # Another certificate is taken up; a listener that began without one goes on without.
        ({"listen": {"tls": TLS}}, {"listen": {"tls": {**TLS, "cert_file": "d"}}}, [TakesEffect.RELOAD]),
        ({"listen": {"tls": TLS}}, {}, [TakesEffect.RESTART, TakesEffect.RESTART]),
        ({}, {"admin": {"tls": TLS}}, [TakesEffect.RESTART, TakesEffect.RESTART]),
    ),
)
def test_each_change_says_when_it_takes_effect(
    old: dict[str, Any], new: dict[str, Any], effects: list[TakesEffect]
) -> None:
    """An operator would wait for a port to open that never will, or restart for nothing."""
    assert [change.effect for change in difference(settings(**old), settings(**new))] == effects


@pytest.mark.parametrize(
    ("path", "effect"),
    (
        ("limits", TakesEffect.RELOAD),
        ("limits.burst", TakesEffect.RELOAD),
        ("listen.tls.cert_file", TakesEffect.RELOAD),
        ("identity.issuers.<name>.roles", TakesEffect.RELOAD),
        ("listen", TakesEffect.RESTART),
        ("listen.tls_of_later", TakesEffect.RESTART),
        ("limits_of_later", TakesEffect.RESTART),
        ("audit.queue", TakesEffect.RESTART),
    ),
)
def test_a_setting_says_when_it_takes_effect(path: str, effect: TakesEffect) -> None:
    """The reference would promise what the server does not do."""
    assert effect_of(path) is effect


EVERYTHING: dict[str, Any] = {
    "listen": {"tcp": False, "host": "::1", "port": 1, "allow_remote": True, "socket": "s", "tls": TLS},
    "admin": {"enabled": False, "port": 2, "role": "ops", "tls": TLS},
    "container_credentials": {"profiles": {"jobs": {"catalog": "lake"}}},
    "s3": {
        "enabled": True,
        "tcp": False,
        "socket": "t",
        "base_domains": ["s3.example"],
        "identities": ["pod"],
        "pod": {"token_file": "t", "uids": [1000]},
        "tls": TLS,
        "upstream": {"ca_file": "c"},
    },
    "public_url": "https://a",
    "loop": "asyncio",
    "workers": 2,
    "reload": {"poll_seconds": 9},
    "limits": {"burst": 9},
    "policy": {"path": "p"},
    "identity": issuer(),
    "credentials": provider(a="b"),
    "storages": storage(),
    "upstreams": {"lake": {"uri": "https://catalog.example"}},
    "sightings": {"file": "seen", "max_tables": 2_000},
    "signing": {"signature_ttl_seconds": 60},
    "context": {"secret_files": ["s"], "table_tokens": True},
    "audit": {"queue": 500},
    "drain": {"delay_seconds": 9},
    "log": {"level": "debug"},
}


@pytest.mark.parametrize("tls", ({}, {"cert_file": "old", "key_file": "old"}))
def test_what_is_in_force_differs_from_what_was_asked_for_by_what_needs_a_restart_alone(tls: dict[str, str]) -> None:
    """Part of a change would neither take effect nor be told."""
    old, asked = settings(listen={"tls": tls}, admin={"tls": tls}, s3={"tls": tls}), settings(**EVERYTHING)
    assert {change.path.partition(".")[0] for change in difference(old, asked)} == set(Settings.__struct_fields__)
    now = in_force(old, asked)
    taken, left = difference(old, now), difference(now, asked)
    assert {change.effect for change in taken} == {TakesEffect.RELOAD}
    assert {change.effect for change in left} == {TakesEffect.RESTART}
    assert {change.path for change in (*taken, *left)} == {change.path for change in difference(old, asked)}
    assert now.listen.tls == (asked.listen.tls if tls else old.listen.tls)
    assert in_force(now, old) == old


def test_every_reloadable_setting_exists() -> None:
    """A section that was renamed would need a restart from then on, without a word about it."""
    for path in RELOADABLE:
        here: Any = settings()
        for key in path.split("."):
            assert key in here.__struct_fields__
            here = getattr(here, key)
