"""Who may know of a catalog, and whether anything in it is signed or forwarded, is said once for every way."""

from __future__ import annotations

import msgspec
import pytest

from signproxy.errors import Reason
from signproxy.model import KeyScope, Principal, Subject, TableScope
from signproxy.policy.admission import refuse_closed, refuse_stranger
from signproxy.policy.state import PolicyState
from tests.facade.front import POLICY as LEARNED
from tests.policies import MemoryPolicySource
from tests.product import POLICY

READER = Principal("reader", "static", "reader", float("inf"))


def state_of(policy: str = POLICY) -> PolicyState:
    return MemoryPolicySource(policy, single_issuer=True).load(1)


def stranger(caller: Principal, catalog: str, effective: Principal | None = None, policy: str = POLICY) -> object:
    state = state_of(policy)
    denial = refuse_stranger(state, state.catalogs[catalog], Subject(caller, effective or caller))
    return None if denial is None else (denial.reason, denial.detail)


@pytest.mark.parametrize("catalog", ("lake", "located", "dark", "foreign"))
def test_a_subject_with_a_role_may_know_of_the_catalog(catalog: str) -> None:
    """Its tables would be refused to the principals that they were granted to."""
    assert stranger(READER, catalog) is None


def test_an_issuer_speaks_for_its_catalogs_alone() -> None:
    """A token of one department's identity provider would open the catalogs of all others."""
    limited = msgspec.structs.replace(READER, catalogs=("located",))
    assert stranger(limited, "located") is None
    assert stranger(limited, "lake") == (Reason.CATALOG_NOT_FOR_ISSUER, "issuer 'static', catalog 'lake'")
    # Also where the rights are another's.
    assert stranger(limited, "lake", READER) == (Reason.CATALOG_NOT_FOR_ISSUER, "issuer 'static', catalog 'lake'")
    assert stranger(READER, "lake", limited) is None


@pytest.mark.parametrize(
    "scope",
    (
        {"scope": TableScope("lake", "ns", "t1", "")},
        {"key_scope": KeyScope("lake")},
        {"scope": TableScope("lake", "ns", "t1", ""), "key_scope": KeyScope("lake", "ns")},
    ),
)
def test_what_is_good_for_one_catalog_opens_no_other(scope: dict[str, object]) -> None:
    """A table token would show its owner's own token to the upstream of another catalog."""
    limited = msgspec.structs.replace(READER, **scope)
    assert stranger(limited, "lake") is None
    assert stranger(limited, "located") == (Reason.NOT_IN_SCOPE, "good for another catalog than 'located'")


@pytest.mark.parametrize("catalog", ("lake", "located"))
def test_each_of_two_limits_counts(catalog: str) -> None:
    """A token for one catalog, got with a key for another, would open both."""
    limited = msgspec.structs.replace(READER, scope=TableScope("lake", "ns", "t1", ""), key_scope=KeyScope("located"))
    assert stranger(limited, catalog) == (Reason.NOT_IN_SCOPE, f"good for another catalog than {catalog!r}")


@pytest.mark.parametrize("who", ("nobody", "stranger", "half"))
def test_a_subject_without_a_role_is_told_nothing_of_the_catalog(who: str) -> None:
    """Any token of the issuer would tell which catalogs there are."""
    unknown = msgspec.structs.replace(READER, name=who, subject=who)
    assert stranger(unknown, "lake") == (Reason.PRINCIPAL_UNKNOWN, f"principal {who!r} in 'lake'")
    # It is the effective principal whose rights count.
    assert stranger(unknown, "lake", READER) is None


def test_where_the_upstream_alone_authorizes_the_policy_need_not_know_its_callers() -> None:
    """Every caller of the upstream would have to be declared twice."""
    unknown = msgspec.structs.replace(READER, name="stranger", subject="stranger")
    told = [stranger(unknown, "lake", policy=LEARNED.replace("AUTHORIZER", each)) for each in ("catalog", "policy")]
    assert told == [None, (Reason.PRINCIPAL_UNKNOWN, "principal 'stranger' in 'lake'")]


@pytest.mark.parametrize(
    ("changes", "catalog", "told"),
    (
        ((), "lake", None),
        ((), "dark", (Reason.REMOTE_SIGNING_OFF, "off for catalog 'dark'")),
        ((), "foreign", (Reason.CATALOG_FEDERATED, "catalog 'foreign'")),
        ((("kind: external", "kind: external\n    allow_external: true"),), "foreign", None),
        (
            (("remote_signing: true\ndefault", "remote_signing: false\ndefault"),),
            "lake",
            (Reason.REMOTE_SIGNING_OFF, "off for the whole system"),
        ),
        (
            (("remote_signing: true\ndefault", "remote_signing: false\ndefault"),),
            "dark",
            (Reason.REMOTE_SIGNING_OFF, "off for the whole system"),
        ),
    ),
)
def test_nothing_is_signed_where_it_is_off_or_another_systems(
    changes: tuple[tuple[str, str], ...], catalog: str, told: object
) -> None:
    """A switch that one way forgets is a switch that does not switch."""
    policy = POLICY
    for change in changes:
        assert change[0] in policy
        policy = policy.replace(*change)
    state = state_of(policy)
    denial = refuse_closed(state, state.catalogs[catalog])
    assert (None if denial is None else (denial.reason, denial.detail)) == told
