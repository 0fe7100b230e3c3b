"""Which claims are asked for, how they are read, and what becomes of them."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.identity.claims import LEEWAY, MAX_CLAIM
from signproxy.model import Pod
from tests.identity.rig import NOW, Clock, authenticator, claims, issuer, principal, refusal, token

# -- what is required


@pytest.mark.parametrize("claim", ("iss", "aud", "exp", "sub"))
@pytest.mark.parametrize("value", (..., None))
def test_required_claims_are_required(claim: str, value: object) -> None:
    """A token without an end, a recipient or a subject would be accepted."""
    assert refusal(authenticator(), token(claims(**{claim: value}))) is Reason.TOKEN_CLAIM


@pytest.mark.parametrize(
    ("aud", "outcome"),
    (
        ("signproxy", None),
        (["signproxy"], None),
        (["other", "signproxy"], None),
        (["signproxy", "signproxy"], None),
        ("second", None),
        ("other", Reason.TOKEN_AUDIENCE),
        (["other"], Reason.TOKEN_AUDIENCE),
        ("signproxy2", Reason.TOKEN_AUDIENCE),
        ("Signproxy", Reason.TOKEN_AUDIENCE),
        ("signproxy other", Reason.TOKEN_AUDIENCE),  # a list is a list, not text with spaces
        ("", Reason.TOKEN_AUDIENCE),
        ([], Reason.TOKEN_CLAIM),
        (["signproxy", 7], Reason.TOKEN_CLAIM),
        ([["signproxy"]], Reason.TOKEN_CLAIM),
        ({"signproxy": 1}, Reason.TOKEN_CLAIM),
        (7, Reason.TOKEN_CLAIM),
        (True, Reason.TOKEN_CLAIM),
        (0, Reason.TOKEN_CLAIM),
    ),
)
def test_one_of_the_audiences_is_meant(aud: object, outcome: Reason | None) -> None:
    """A token for any other service of the issuer could be replayed here by the service that receives it."""
    who = authenticator(issuer(audiences=("signproxy", "second")))
    text = token(claims(aud=aud))
    assert (refusal(who, text) if outcome else principal(who, text).name) == (outcome or "corp/alice")


# -- the times


@pytest.mark.parametrize(
    ("exp", "outcome"),
    (
        (NOW + 1, None),
        (NOW + 1.5, None),  # NumericDate may have a fraction
        (NOW - LEEWAY + 0.01, None),
        (NOW - LEEWAY, Reason.TOKEN_EXPIRED),
        (NOW - 1_000_000, Reason.TOKEN_EXPIRED),
        (0, Reason.TOKEN_EXPIRED),
        (-1, Reason.TOKEN_EXPIRED),
        (-1e300, Reason.TOKEN_CLAIM),
        (253_402_300_799, None),  # the last second of the year 9999
        (253_402_300_800, Reason.TOKEN_CLAIM),
        (10**400, Reason.TOKEN_CLAIM),  # larger than any float
        (1e308, Reason.TOKEN_CLAIM),
        (str(NOW + 3_600), Reason.TOKEN_CLAIM),
        (str(int(NOW) + 3_600), Reason.TOKEN_CLAIM),
        (True, Reason.TOKEN_CLAIM),
        ([NOW + 3_600], Reason.TOKEN_CLAIM),
        ({"exp": NOW + 3_600}, Reason.TOKEN_CLAIM),
    ),
)
def test_a_token_ends(exp: object, outcome: Reason | None) -> None:
    """A token could live for ever, or its odd end raise a raw fault."""
    who = authenticator()
    text = token(claims(exp=exp))
    assert (refusal(who, text) if outcome else principal(who, text).expires_at) == (outcome or exp)


def test_an_end_that_overflows_is_no_time() -> None:
    """`1e999` reads as infinity: a token without an end."""
    body = b'{"iss":"https://idp.example/realms/lake","aud":"signproxy","sub":"alice","exp":1e999}'
    assert refusal(authenticator(), token(body)) is Reason.TOKEN_CLAIM


@pytest.mark.parametrize("claim", ("nbf", "iat"))
@pytest.mark.parametrize(
    ("value", "outcome"),
    (
        (..., None),
        (NOW, None),
        (NOW - 1_000_000, None),
        (NOW + LEEWAY, None),
        (NOW + LEEWAY + 0.01, Reason.TOKEN_NOT_YET_VALID),
        (NOW + 1_000_000, Reason.TOKEN_NOT_YET_VALID),
        (None, Reason.TOKEN_CLAIM),
        (str(NOW), Reason.TOKEN_CLAIM),
        (True, Reason.TOKEN_CLAIM),
        (10**400, Reason.TOKEN_CLAIM),
        ([], Reason.TOKEN_CLAIM),
    ),
)
def test_a_token_begins_where_it_says(claim: str, value: object, outcome: Reason | None) -> None:
    """A token that is issued for later could be used now."""
    who = authenticator()
    text = token(claims(**{claim: value}))
    assert (refusal(who, text) if outcome else principal(who, text).name) == (outcome or "corp/alice")


def test_expiry_is_named_although_the_audience_is_wrong_as_well() -> None:
    """Operators would search for the second fault while clients keep sending old tokens."""
    text = token(claims(aud="other"))
    assert refusal(authenticator(), text) is Reason.TOKEN_AUDIENCE
    assert refusal(authenticator(clock=Clock(NOW + 9_999)), text) is Reason.TOKEN_EXPIRED


# -- the name


@pytest.mark.parametrize(
    "sub",
    (
        "alice",
        "a",
        "x" * MAX_CLAIM,
        "system:serviceaccount:ns:name",
        "repo:org/repo:ref:refs/heads/main",  # a slash of its own: the issuer's name has none, so it ends at the first
        "auth0|5f7c8ec7c33c6c004bbafe82",
        "Alice Müller",
        "алиса",
        "../../admin",
        "*",
    ),
)
def test_names_are_taken_as_they_are(sub: str) -> None:
    """A policy could not name the principal."""
    found = principal(authenticator(), token(claims(sub=sub)))
    assert (found.name, found.subject) == (f"corp/{sub}", sub)


@pytest.mark.parametrize(
    "sub",
    (
        "",
        "x" * (MAX_CLAIM + 1),
        " alice",
        "alice ",
        " ",
        "al\nice",
        "al\x00ice",
        "al\x1b[2Jice",
        "al\x7fice",
        "al\x85ice",
        "al\u00a0ice",  # a space that looks like another
        "al\u200bice",  # no width at all
        "al\u202eice",  # reads backwards
        "al\u2066ice",
        "al\u2028ice",
        "al\ufeffice",
        "al\ud800ice",
        "al\ue000ice",
        "al\u00adice",
        7,
        True,
        ["alice"],
        {"name": "alice"},
    ),
)
def test_names_that_cannot_be_seen_or_are_none_are_refused(sub: object) -> None:
    """Two principals could look alike in a policy review, or a name act on the terminal that shows it."""
    assert refusal(authenticator(), token(claims(sub=sub))) is Reason.TOKEN_CLAIM


def test_a_claim_of_choice_names_the_principal() -> None:
    """Issuers whose `sub` differs for each client could not be used."""
    who = authenticator(issuer(principal_claim="oid"))
    found = principal(who, token(claims(oid="0000-1111")))
    assert (found.name, found.subject) == ("corp/0000-1111", "alice")
    for oid in (..., "", None, 7, "x\u202e"):
        assert refusal(who, token(claims(oid=oid))) is Reason.TOKEN_CLAIM


@pytest.mark.parametrize(
    ("verified", "outcome"),
    (
        (..., None),
        (True, None),
        (False, Reason.TOKEN_CLAIM),
        ("true", Reason.TOKEN_CLAIM),
        (1, Reason.TOKEN_CLAIM),
        (None, Reason.TOKEN_CLAIM),
    ),
)
def test_an_address_that_the_issuer_did_not_verify_names_no_principal(verified: object, outcome: Reason | None) -> None:
    """Any user could type the administrator's address into a profile."""
    who = authenticator(issuer(principal_claim="email", mutable_claims_accepted=True))
    text = token(claims(email="alice@example.org", email_verified=verified))
    assert (refusal(who, text) if outcome else principal(who, text).name) == (outcome or "corp/alice@example.org")


# -- the roles


@pytest.mark.parametrize(
    ("path", "more", "roles"),
    (
        ("roles", {"roles": ["analyst", "etl"]}, ("analyst", "etl")),
        ("roles", {"roles": ["etl", "analyst", "etl"]}, ("analyst", "etl")),
        ("roles", {"roles": ["service_admin"]}, ()),
        ("roles", {"roles": ["Analyst", "analyst ", "analyst\u0000"]}, ()),
        ("roles", {"roles": []}, ()),
        ("roles", {}, ()),
        # Text is a list joined by spaces, as OAuth's scope is.
        ("scope", {"scope": "openid analyst  etl"}, ("analyst", "etl")),
        ("scope", {"scope": "analystetl"}, ()),
        ("realm_access.roles", {"realm_access": {"roles": ["etl"]}}, ("etl",)),
        ("a.b.c", {"a": {"b": {"c": ["etl"]}}}, ("etl",)),
        # A claim named by URL is one name, dots and all.
        ("https://example.com/roles", {"https://example.com/roles": ["etl"]}, ("etl",)),
        # The wrong shape brings no role, and no fault.
        ("realm_access.roles", {"realm_access": ["roles"]}, ()),
        ("realm_access.roles", {"realm_access": None}, ()),
        ("realm_access.roles", {"realm_access": {}}, ()),
        ("roles", {"roles": {"etl": True}}, ()),
        ("roles", {"roles": 7}, ()),
        ("roles", {"roles": None}, ()),
        ("roles", {"roles": [["etl"], {"etl": 1}, 7, None]}, ()),
    ),
)
def test_roles_are_cut_to_the_listed_ones(path: str, more: dict[str, object], roles: tuple[str, ...]) -> None:
    """An issuer could hand out roles that it was never trusted with."""
    who = authenticator(issuer(roles_claim=path, roles=("analyst", "etl")))
    assert principal(who, token(claims(**more))).roles == roles


def test_a_token_brings_no_roles_where_none_are_listed() -> None:
    """Any issuer could make its users administrators."""
    assert principal(authenticator(), token(claims(roles=["service_admin"], scope="service_admin"))).roles == ()


# -- service accounts

ACCOUNT = "system:serviceaccount:spark:etl"
ABOUT: dict[str, object] = {
    "namespace": "spark",
    "node": {"name": "node-1", "uid": "n-uid"},
    "pod": {"name": "driver-0", "uid": "p-uid"},
    "serviceaccount": {"name": "etl", "uid": "s-uid"},
}


def about(**changes: object) -> dict[str, object]:
    return {name: value for name, value in {**ABOUT, **changes}.items() if value is not ...}


@pytest.mark.parametrize(
    ("changes", "pod"),
    (
        ({}, Pod("spark", "driver-0", "p-uid", "node-1")),
        ({"node": ...}, Pod("spark", "driver-0", "p-uid")),  # before Kubernetes 1.30
        ({"pod": ...}, None),  # `kubectl create token`
        ({"warnafter": 7}, Pod("spark", "driver-0", "p-uid", "node-1")),
    ),
)
def test_the_pod_of_a_service_account_token_is_kept(changes: dict[str, object], pod: Pod | None) -> None:
    """The audit trail could not tell which pod of a job made a request."""
    who = authenticator(issuer(kubernetes=True))
    found = principal(who, token(claims(sub=ACCOUNT, **{"kubernetes.io": about(**changes)})))
    assert (found.name, found.pod) == (f"corp/{ACCOUNT}", pod)


@pytest.mark.parametrize(
    ("sub", "value"),
    (
        (ACCOUNT, ...),
        (ACCOUNT, None),
        (ACCOUNT, []),
        (ACCOUNT, "spark"),
        ("alice", ABOUT),
        ("system:serviceaccount:spark", ABOUT),
        ("system:serviceaccount:other:etl", ABOUT),
        ("system:serviceaccount:spark:other", ABOUT),
        ("system:serviceaccount:spark:etl:x", ABOUT),
        (ACCOUNT, about(namespace=...)),
        (ACCOUNT, about(serviceaccount=...)),
        (ACCOUNT, about(serviceaccount="etl")),
        (ACCOUNT, about(pod=None)),
        (ACCOUNT, about(pod="driver-0")),
        (ACCOUNT, about(pod={"name": "driver-0"})),
        (ACCOUNT, about(pod={"name": "", "uid": "p-uid"})),
        (ACCOUNT, about(pod={"name": "x" * 257, "uid": "p-uid"})),
        (ACCOUNT, about(pod={"name": "a\x1b[2J", "uid": "p-uid"})),
        (ACCOUNT, about(node={"name": 7})),
    ),
)
def test_service_account_tokens_that_contradict_themselves_are_refused(sub: str, value: object) -> None:
    """The audit trail would blame a pod that the token is not about."""
    who = authenticator(issuer(kubernetes=True))
    assert refusal(who, token(claims(sub=sub, **{"kubernetes.io": value}))) is Reason.TOKEN_CLAIM


def test_other_issuers_say_nothing_of_pods() -> None:
    """Any caller's token could blame any pod."""
    assert principal(authenticator(), token(claims(sub=ACCOUNT, **{"kubernetes.io": ABOUT}))).pod is None
