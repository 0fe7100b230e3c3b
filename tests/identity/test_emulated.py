"""Keys that signproxy issues: good for what they say, for whom they say, for as long as they say, and no part alone."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import (
    ACCESS_KEY_PREFIX,
    SESSION_TOKEN_PREFIX,
    EmulatedKeys,
    IssuedKey,
    KeyHolder,
    Parts,
    is_session_token,
    is_whole_id,
)
from signproxy.identity.issuer import SharedSecret
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.identity.table_token import TableTokens
from signproxy.model import KeyScope, Pod, Principal, TableScope
from signproxy.sealing import Deriver, Purpose, Sealer, SealingSecret
from tests.identity.keyed import OTHER, SEALING, SECONDS, emulated
from tests.identity.rig import NOW, SECRET, authenticator, claims, issuer, principal, token

SALES = KeyScope("lake", "sales\x1feu")
ORDERS = TableScope("lake", "sales\x1feu", "orders", "11111111-0000-4000-8000-000000000000")
STATIC = "k7Qm2Xw9Lr4Tn8Vb1Zc5Jd3Hs6Pf0GaY"

_BY = authenticator(issuer(roles_claim="roles", roles=("etl", "admin"), catalogs=("lake", "pond")))
_ALICE = principal(_BY, token(claims(roles=["etl", "admin"])))


def alice(by: Authenticator = _BY) -> Principal:
    return principal(by, token(claims(roles=["etl", "admin"])))


def issued(keys: EmulatedKeys, scope: KeyScope | None = None, seconds: float = 600.0) -> IssuedKey:
    return keys.issue(_ALICE, scope, seconds, NOW)


def opened(keys: EmulatedKeys, key: IssuedKey, now: float = NOW) -> KeyHolder:
    return keys.open(key.access_key_id, key.session_token, now)


def refused(keys: EmulatedKeys, access_key_id: str, session_token: str, now: float = NOW) -> Reason:
    with pytest.raises(Refused) as refusal:
        keys.open(access_key_id, session_token, now)
    return refusal.value.reason


def static(**changes: Any) -> StaticTokens:
    return StaticTokens({hash_token(STATIC): OpaqueToken("robot", **{"roles": ("etl", "admin"), **changes})})


# -- what a key is


@pytest.mark.parametrize("scope", (None, KeyScope("lake"), SALES, KeyScope("lake", "a", "t", "u-1")))
def test_a_key_says_who_holds_it_and_what_for(scope: KeyScope | None) -> None:
    """A job would be judged as another principal, or beyond what its key was made for."""
    keys = emulated(_BY)
    key = issued(keys, scope)
    held = opened(keys, key)
    assert held.principal == msgspec.structs.replace(_ALICE, expires_at=NOW + 600, key_scope=scope)
    assert held.expires_at == key.expires_at == NOW + 600
    assert held.secret == key.secret_access_key


def test_a_key_looks_like_those_of_aws() -> None:
    """Clients and their configuration files refuse what has other characters or another length."""
    key = issued(emulated(_BY))
    assert re.fullmatch(r"SPK1[A-Z2-7]{16}", key.access_key_id)
    assert re.fullmatch(r"[A-Za-z0-9_-]{40}", key.secret_access_key)
    assert re.fullmatch(r"spk1\.[A-Za-z0-9_-]{8}\.[A-Za-z0-9_-]+", key.session_token)
    assert len(key.session_token) < 400
    assert key.access_key_id.startswith(ACCESS_KEY_PREFIX)
    assert is_session_token(key.session_token)
    assert f"{Purpose.S3_KEY.value}." == SESSION_TOKEN_PREFIX


def test_no_two_keys_share_a_part() -> None:
    """The holder of one key would have another's."""
    keys = emulated(_BY)
    made = [issued(keys) for _ in range(200)]
    for part in ("access_key_id", "secret_access_key", "session_token"):
        assert len({getattr(key, part) for key in made}) == len(made)


def test_a_pod_is_kept_for_the_audit() -> None:
    """The trail could not tell which pod read what, once it does so with a key."""
    account = {
        "namespace": "jobs",
        "serviceaccount": {"name": "etl", "uid": "s-1"},
        "pod": {"name": "etl-1", "uid": "p-1"},
        "node": {"name": "n-1", "uid": "x"},
    }
    by = authenticator(issuer(kubernetes=True))
    who = principal(by, token(claims(sub="system:serviceaccount:jobs:etl", **{"kubernetes.io": account})))
    keys = emulated(by)
    key = keys.issue(who, None, 60, NOW)
    assert opened(keys, key).principal.pod == Pod("jobs", "etl-1", "p-1", "n-1")


def test_neither_logs_nor_pickles_hold_a_secret() -> None:
    """A secret in a log is one for each of its readers."""
    keys = emulated(_BY)
    key = issued(keys)
    for shown in (repr(key), repr(opened(keys, key))):
        assert key.secret_access_key not in shown
        assert key.session_token not in shown
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Deriver((SEALING,), Purpose.S3_SECRET))


# -- keys of two parts


def whole(keys: EmulatedKeys, scope: KeyScope | None = None, who: Principal = _ALICE) -> IssuedKey:
    return keys.issue(who, scope, 600, NOW, parts=Parts.TWO)


def test_a_key_of_two_parts_says_the_same_in_its_id() -> None:
    """Clients that take no session token could not be used, or not be limited."""
    keys = emulated(_BY)
    key = whole(keys, SALES)
    assert key.session_token == ""
    assert is_whole_id(key.access_key_id)
    # What is no blank, comma or slash passes through every client's credential scope.
    assert re.fullmatch(r"SPK1\.[A-Za-z0-9_.-]+", key.access_key_id)
    held = opened(keys, key)
    assert held.principal == msgspec.structs.replace(_ALICE, expires_at=NOW + 600, key_scope=SALES)
    assert held.secret == key.secret_access_key
    assert refused(keys, key.access_key_id, "", NOW + 600) is Reason.KEY_EXPIRED


def test_the_parts_of_the_two_kinds_make_no_key() -> None:
    """A finder of a session token would make an id of it, or the reverse, with a secret of the finder's choice."""
    keys = emulated(_BY)
    three, two = issued(keys), whole(keys)
    sealed, word = three.session_token.removeprefix("spk1."), two.access_key_id.removeprefix("SPK1.")
    for access_key_id, session_token in (
        (f"SPK1.{sealed}", ""),
        (three.access_key_id, f"spk1.{word}"),
        ("", f"spk1.{word}"),
        (two.access_key_id, f"spk1.{word}"),
        (two.access_key_id, three.session_token),
        (three.access_key_id, ""),
        (two.access_key_id[:-1], ""),
        ("SPK1.", ""),
    ):
        assert refused(keys, access_key_id, session_token) is Reason.ACCESS_KEY_UNKNOWN


def test_no_two_keys_of_two_parts_share_one() -> None:
    """The holder of one key would have another's."""
    keys = emulated(_BY)
    made = [whole(keys) for _ in range(200)]
    assert len({key.access_key_id for key in made}) == len({key.secret_access_key for key in made}) == len(made)


def test_what_is_too_much_for_an_id_is_refused() -> None:
    """The listener reads no longer one: the key would be refused wherever it is used."""
    roles = tuple(f"a-role-with-a-name-{number:0100}" for number in range(30))
    by = authenticator(issuer(roles_claim="roles", roles=roles, catalogs=("lake",)))
    who = principal(by, token(claims(roles=list(roles))))
    assert emulated(by).issue(who, None, 600, NOW).session_token
    with pytest.raises(Refused) as refusal:
        whole(emulated(by), who=who)
    assert refusal.value.reason is Reason.TOKEN_CLAIM


# -- how long it lives


@pytest.mark.parametrize(
    ("asked", "lives"), ((60.0, 60.0), (SECONDS, SECONDS), (10 * SECONDS, SECONDS), (math.inf, SECONDS))
)
def test_a_key_lives_no_longer_than_the_setting(asked: float, lives: float) -> None:
    """A caller that asks for a year would have one."""
    keys = emulated(_BY)
    key = issued(keys, seconds=asked)
    assert key.expires_at == NOW + lives
    assert opened(keys, key, NOW + lives - 0.001).expires_at == NOW + lives
    assert refused(keys, key.access_key_id, key.session_token, NOW + lives) is Reason.KEY_EXPIRED


def test_a_setting_that_is_lowered_ends_older_keys_too() -> None:
    """An operator who wants shorter lives would have to wait for the longest of the old ones."""
    key = issued(emulated(_BY), seconds=3_000)
    now = emulated(_BY, seconds=100)
    assert opened(now, key).expires_at == NOW + 100
    assert refused(now, key.access_key_id, key.session_token, NOW + 100) is Reason.KEY_EXPIRED


def test_it_ends_with_the_bearer_token_that_it_was_issued_for() -> None:
    """A token that leaked for five minutes would be turned into hours at the store."""
    keys = emulated(_BY)
    short = principal(_BY, token(claims(exp=NOW + 10)))
    key = keys.issue(short, None, 10 * SECONDS, NOW)
    assert key.expires_at == NOW + 10
    assert refused(keys, key.access_key_id, key.session_token, NOW + 10) is Reason.KEY_EXPIRED
    assert keys.issue(principal(_BY, token(claims(exp=NOW + 2 * SECONDS))), None, 10 * SECONDS, NOW).expires_at == (
        NOW + SECONDS
    )


def test_what_is_made_of_a_table_token_ends_with_it() -> None:
    """A client could make a longer life of the one that it was handed."""
    keys = emulated(_BY)
    limited = msgspec.structs.replace(_ALICE, scope=ORDERS, expires_at=NOW + 30)
    key = keys.issue(limited, None, 600, NOW)
    assert key.expires_at == NOW + 30
    assert opened(keys, key).principal.scope == ORDERS


@pytest.mark.parametrize("ends", (NOW, NOW - 20))
def test_nothing_is_made_of_a_token_that_has_ended(ends: float) -> None:
    """Within the leeway of the clocks a token is still accepted; a key of it would live on."""
    with pytest.raises(Refused) as refusal:
        emulated(_BY).issue(msgspec.structs.replace(_ALICE, expires_at=ends), None, 60, NOW)
    assert refusal.value.reason is Reason.TOKEN_EXPIRED


# -- how far it reaches


@pytest.mark.parametrize(
    "scope",
    (
        KeyScope("lake"),
        KeyScope("lake", "sales\x1feu"),
        KeyScope("lake", "sales\x1feu", "customers"),
        KeyScope("lake", "sales", "orders"),
        KeyScope("pond", "sales\x1feu", "orders"),
    ),
)
def test_a_key_of_a_table_token_is_good_for_no_other_table(scope: KeyScope) -> None:
    """A caller that was handed one table would get the whole catalog."""
    limited = msgspec.structs.replace(_ALICE, scope=ORDERS)
    with pytest.raises(Refused) as refusal:
        emulated(_BY).issue(limited, scope, 60, NOW)
    assert refusal.value.reason is Reason.NOT_IN_SCOPE


def test_a_key_of_a_table_token_keeps_its_uuid() -> None:
    """The key would go on opening whatever takes the table's name."""
    keys = emulated(_BY)
    limited = msgspec.structs.replace(_ALICE, scope=ORDERS)
    key = keys.issue(limited, KeyScope("lake", "sales\x1feu", "orders"), 60, NOW)
    assert opened(keys, key).principal.scope == ORDERS


def test_a_key_makes_no_key() -> None:
    """Keys that make keys would never end."""
    keys = emulated(_BY)
    holder = opened(keys, issued(keys, SALES)).principal
    with pytest.raises(Refused) as refusal:
        keys.issue(holder, None, 60, NOW)
    assert refusal.value.reason is Reason.NOT_IN_SCOPE


def test_more_than_a_request_can_carry_is_not_issued() -> None:
    """Every request with the key would be refused for its size, and no message would say why."""
    many = msgspec.structs.replace(_ALICE, roles=tuple(f"role-{n:05}" for n in range(2_000)))
    with pytest.raises(Refused) as refusal:
        emulated(_BY).issue(many, None, 60, NOW)
    assert refusal.value.reason is Reason.TOKEN_CLAIM


# -- who vouches for it


def test_a_retired_issuer_ends_its_keys() -> None:
    """A caller that is no longer believed would go on reading until the last key has ended."""
    spare = issuer(SharedSecret(SECRET[::-1]), name="spare", issuer="https://other.example")
    by = authenticator(issuer(), spare)
    keys = emulated(by)
    key = keys.issue(principal(by, token()), None, 600, NOW)
    assert opened(keys, key).principal.name == "corp/alice"
    by.commit(by.prepare((spare,)))
    assert refused(keys, key.access_key_id, key.session_token) is Reason.ACCESS_KEY_UNKNOWN


@pytest.mark.parametrize("changes", ({"issuer": "https://new.example"}, {"principal_claim": "oid"}, {"name": "corp2"}))
def test_an_issuer_that_means_others_by_its_names_ends_them_too(changes: dict[str, Any]) -> None:
    """A key would belong to another principal that has the name of its former holder."""
    by = authenticator()
    keys = emulated(by)
    key = keys.issue(principal(by, token()), None, 600, NOW)
    by.commit(by.prepare((issuer(**changes),)))
    assert refused(keys, key.access_key_id, key.session_token) is Reason.ACCESS_KEY_UNKNOWN


def test_roles_and_catalogs_are_those_of_today_and_never_more() -> None:
    """A role that was taken from an issuer would live on in keys; one that was added would be given away."""
    settings: dict[str, Any] = {"roles_claim": "roles", "roles": ("etl", "admin"), "catalogs": ("lake", "pond")}
    by = authenticator(issuer(**settings))
    keys = emulated(by)
    key = keys.issue(alice(by), None, 600, NOW)
    by.commit(by.prepare((issuer(roles_claim="roles", roles=("admin", "new"), catalogs=("pond", "sea")),)))
    now = opened(keys, key).principal
    assert (now.roles, now.catalogs) == (("admin",), ("pond",))
    by.commit(by.prepare((issuer(),)))
    now = opened(keys, key).principal
    assert (now.roles, now.catalogs) == ((), ("lake", "pond"))
    by.commit(by.prepare((issuer(**settings),)))
    assert opened(keys, key).principal.roles == ("etl", "admin")


def test_an_issuer_that_is_limited_later_limits_its_keys() -> None:
    """A key that was issued before would speak for every catalog."""
    by = authenticator()
    keys = emulated(by)
    key = keys.issue(principal(by, token()), None, 600, NOW)
    assert opened(keys, key).principal.catalogs is None
    by.commit(by.prepare((issuer(catalogs=("pond",)),)))
    assert opened(keys, key).principal.catalogs == ("pond",)


def test_a_static_token_that_is_taken_out_ends_its_keys() -> None:
    """A thief of the token would have a key that outlives it."""
    by = authenticator(static_tokens=static())
    keys = emulated(by)
    key = keys.issue(principal(by, STATIC), None, 600, NOW)
    assert opened(keys, key).principal.name == "static/robot"
    # Another token that names the same principal took its place.
    another = StaticTokens({hash_token(STATIC[::-1]): OpaqueToken("robot", ("etl", "admin"))})
    for tokens in (another, StaticTokens({})):
        by.commit(by.prepare((issuer(),), tokens))
        assert refused(keys, key.access_key_id, key.session_token) is Reason.ACCESS_KEY_UNKNOWN


def test_a_static_token_that_names_another_ends_them_too() -> None:
    """A key would still be in the name of a user who has left."""
    by = authenticator(static_tokens=static())
    keys = emulated(by)
    key = keys.issue(principal(by, STATIC), None, 600, NOW)
    by.commit(by.prepare((issuer(),), StaticTokens({hash_token(STATIC): OpaqueToken("other")})))
    assert refused(keys, key.access_key_id, key.session_token) is Reason.ACCESS_KEY_UNKNOWN


def test_a_static_tokens_roles_catalogs_and_end_count_today() -> None:
    """An operator who shortens them would not reach the keys that were made before."""
    by = authenticator(static_tokens=static())
    keys = emulated(by)
    key = keys.issue(principal(by, STATIC), None, 600, NOW)
    by.commit(by.prepare((issuer(),), static(roles=("etl",), catalogs=("lake",), expires_at=NOW + 60)))
    now = opened(keys, key).principal
    assert (now.roles, now.catalogs, now.expires_at) == (("etl",), ("lake",), NOW + 60)
    assert refused(keys, key.access_key_id, key.session_token, NOW + 60) is Reason.KEY_EXPIRED


def test_of_two_tokens_of_one_principal_the_shown_one_counts() -> None:
    """The leaked one would be taken out, and the keys that were made of it would stay."""
    leaked, kept = STATIC, STATIC[::-1]
    both = StaticTokens({hash_token(kept): OpaqueToken("robot"), hash_token(leaked): OpaqueToken("robot")})
    by = authenticator(static_tokens=both)
    keys = emulated(by)
    key = keys.issue(principal(by, leaked), None, 600, NOW)
    by.commit(by.prepare((issuer(),), StaticTokens({hash_token(kept): OpaqueToken("robot")})))
    assert refused(keys, key.access_key_id, key.session_token) is Reason.ACCESS_KEY_UNKNOWN


def test_a_static_tokens_table_token_is_vouched_for_as_well() -> None:
    """A client with a table token of its own could not get a key."""
    tokens = TableTokens(Sealer((SEALING,), Purpose.TABLE_TOKEN), 600)
    by = authenticator(static_tokens=static(), table_tokens=tokens)
    limited = by.table_token(principal(by, STATIC), STATIC, ORDERS)
    assert limited is not None
    keys = emulated(by)
    assert opened(keys, keys.issue(principal(by, limited), None, 60, NOW)).principal.scope == ORDERS


def test_a_caller_that_no_issuer_vouches_for_gets_no_key() -> None:
    """A key would be issued that nothing opens."""
    by = authenticator()
    gone = principal(by, token())
    by.commit(by.prepare((issuer(name="other"),)))
    for who in (gone, Principal("static/robot", "static", "robot", math.inf)):
        with pytest.raises(Refused) as refusal:
            emulated(by).issue(who, None, 60, NOW)
        assert refusal.value.reason is Reason.TOKEN_ISSUER_UNKNOWN


# -- secrets, and what is no key of ours


def test_secrets_rotate_without_ending_a_key() -> None:
    """Each rotation would end every running job; or a secret that leaked could never be withdrawn."""
    old = issued(emulated(_BY, OTHER))
    both = emulated(_BY, SEALING, OTHER)
    assert opened(both, old).secret == old.secret_access_key
    new = issued(both)
    assert opened(emulated(_BY, SEALING), new).secret == new.secret_access_key
    assert refused(emulated(_BY, SEALING), old.access_key_id, old.session_token) is Reason.ACCESS_KEY_UNKNOWN


def test_another_installation_makes_other_secrets_of_the_same_id() -> None:
    """Any operator of another signproxy would know the secret of every key."""
    name = b"SPK1AAAAAAAAAAAAAAAA"
    one, two = (Deriver((secret,), Purpose.S3_SECRET) for secret in (SEALING, OTHER))
    assert one.derive(one.kid, name) != two.derive(two.kid, name)
    assert one.derive(two.kid, name) is None
    assert len(one.derive(one.kid, name) or b"") == 32
    with pytest.raises(ValueError, match="nothing to seal, derive or mark with"):
        Deriver((), Purpose.S3_SECRET)


def test_a_token_whose_secret_is_derived_elsewhere_is_refused() -> None:
    """Two halves of different installations would be taken for a key."""
    mixed = EmulatedKeys(Sealer((SEALING,), Purpose.S3_KEY), Deriver((OTHER,), Purpose.S3_SECRET), _BY, SECONDS)
    key = issued(mixed)
    assert refused(emulated(_BY), key.access_key_id, key.session_token) is Reason.ACCESS_KEY_UNKNOWN


def test_no_other_sealed_text_is_a_session_token() -> None:
    """A table token, or the context of a staged table, would be taken for a key."""
    keys = emulated(_BY)
    key = issued(keys)
    content = Sealer((SEALING,), Purpose.S3_KEY).open(key.session_token)
    for purpose in set(Purpose) - {Purpose.S3_KEY}:
        text = Sealer((SEALING,), purpose).seal(content)
        assert refused(keys, key.access_key_id, text) is Reason.ACCESS_KEY_UNKNOWN
        as_key = text.replace(purpose.value, Purpose.S3_KEY.value, 1)
        assert refused(keys, key.access_key_id, as_key) is Reason.ACCESS_KEY_UNKNOWN
    other_version = Sealer((SEALING,), Purpose.S3_KEY).seal(b"\x91\xa1x")
    assert refused(keys, key.access_key_id, other_version) is Reason.ACCESS_KEY_UNKNOWN


# -- for any key


_NAMES = st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=1, max_size=8)
_SCOPES = st.none() | st.builds(KeyScope, _NAMES, _NAMES | st.just(""), _NAMES | st.just(""), _NAMES | st.just(""))
_KEYS = emulated(_BY)
_BOTH = emulated(_BY, OTHER, SEALING)


@given(scope=_SCOPES, seconds=st.floats(0.001, 10 * SECONDS), later=st.floats(0, 20 * SECONDS))
def test_no_key_reaches_further_or_lives_longer(scope: KeyScope | None, seconds: float, later: float) -> None:
    """A key would be worth more than its holder asked for, or was entitled to."""
    key = _KEYS.issue(_ALICE, scope, seconds, NOW)
    for keys in (_KEYS, _BOTH):
        if NOW + later >= NOW + min(seconds, SECONDS):
            assert refused(keys, key.access_key_id, key.session_token, NOW + later) is Reason.KEY_EXPIRED
            continue
        held = opened(keys, key, NOW + later)
        assert held.principal.key_scope == scope
        assert held.principal.expires_at == held.expires_at <= NOW + min(seconds, SECONDS)
        assert NOW + later < held.expires_at
        assert set(held.principal.roles) <= set(_ALICE.roles)


@given(data=st.data(), scope=_SCOPES)
def test_no_altered_part_is_accepted(data: st.DataObject, scope: KeyScope | None) -> None:
    """A client could write itself another scope, another name or a later end."""
    key = _KEYS.issue(_ALICE, scope, 600, NOW)
    parts = [key.access_key_id, key.session_token]
    which = data.draw(st.integers(0, 1))
    text = parts[which]
    at = data.draw(st.integers(0, len(text) - 1))
    into = data.draw(st.text(st.characters(codec="utf-8"), max_size=3).filter(lambda new: new != text[at]))
    parts[which] = text[:at] + into + text[at + 1 :]
    assert refused(_KEYS, parts[0], parts[1]) is Reason.ACCESS_KEY_UNKNOWN


@given(one=_SCOPES, two=_SCOPES)
def test_parts_of_two_keys_make_none(one: KeyScope | None, two: KeyScope | None) -> None:
    """A holder of one key who sees another's session token in a URL would have that one's rights."""
    mine, theirs = (_KEYS.issue(_ALICE, scope, 600, NOW) for scope in (one, two))
    assert refused(_KEYS, mine.access_key_id, theirs.session_token) is Reason.ACCESS_KEY_UNKNOWN
    assert refused(_KEYS, theirs.access_key_id, mine.session_token) is Reason.ACCESS_KEY_UNKNOWN


@given(st.text(max_size=60), st.text(max_size=60))
def test_nothing_made_up_is_a_key(access_key_id: str, session_token: str) -> None:
    """A stranger could guess a way in, or end a worker by what is sent."""
    assert refused(_KEYS, access_key_id, session_token) is Reason.ACCESS_KEY_UNKNOWN
    assert refused(_KEYS, access_key_id, SESSION_TOKEN_PREFIX + session_token) is Reason.ACCESS_KEY_UNKNOWN


def test_a_secret_is_not_to_be_found_in_the_parts_that_travel() -> None:
    """A reader of one request in a log could sign others."""
    keys = emulated(_BY, SealingSecret(b"s" * 32))
    for _ in range(20):
        key = issued(keys)
        assert key.secret_access_key[:12] not in key.session_token
        assert key.access_key_id not in key.session_token
