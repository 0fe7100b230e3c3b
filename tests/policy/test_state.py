"""Prove who a principal is to the policy, and what its roles add up to."""

from __future__ import annotations

import pytest

from signproxy.model import Principal
from signproxy.policy import state as state_module
from signproxy.policy.catalog import Catalog, CatalogKind, Overlap, TableBinding
from signproxy.policy.rights import Rights, granted
from signproxy.policy.state import PolicyState
from tests.policy.world import AWS


def _state(*, single_issuer: bool = False, principals: dict[str, tuple[str, ...]] | None = None) -> PolicyState:
    lake = Catalog("lake", storages={"aws": AWS}, prefixes=("lake", "main"), grants={0: 1, 1: 2, 2: 4})
    hr = Catalog("hr", storages={"aws": AWS}, prefixes=("hr",))
    return PolicyState(
        rev="r1",
        epoch=3,
        catalogs={"lake": lake, "hr": hr},
        principals={"corp/alice": ("analysts",), "bob": ("loaders",)} if principals is None else principals,
        principal_roles={
            "analysts": {"lake": frozenset({0})},
            "loaders": {"lake": frozenset({1, 9}), "hr": frozenset({5})},
            "idle": {},
        },
        single_issuer=single_issuer,
    )


def _principal(name: str, *roles: str, issuer: str = "corp") -> Principal:
    return Principal(name, issuer, "subject", 4e9, roles=roles)


def test_a_catalog_answers_to_its_prefixes() -> None:
    """Clients keep the prefix that they were once given."""
    state = _state()
    assert state.catalog_of_prefix("lake") is state.catalogs["lake"]
    assert state.catalog_of_prefix("main") is state.catalogs["lake"]
    assert state.catalog_of_prefix("hr") is state.catalogs["hr"]
    assert state.catalog_of_prefix("other") is None


def test_a_new_state_is_off() -> None:
    """A forgotten switch must not let signatures out."""
    state = PolicyState(rev="r", epoch=1, catalogs={})
    assert not state.remote_signing
    assert state.default_catalog == ""
    assert state.principals == {}
    assert state.principal_roles == {}
    assert not state.single_issuer
    catalog = Catalog("lake", storages={})
    assert not catalog.remote_signing
    assert not catalog.allow_external
    assert catalog.kind is CatalogKind.INTERNAL
    assert catalog.binding is TableBinding.STRICT
    assert catalog.overlap is Overlap.FORBIDDEN
    assert (catalog.prefixes, catalog.roles, catalog.grants) == ((), {}, {})


@pytest.mark.parametrize(
    ("principal", "expected"),
    (
        (_principal("corp/alice"), Rights(frozenset({0}), 1)),
        (_principal("corp/alice", "loaders"), Rights(frozenset({0, 1, 9}), 3)),
        (_principal("corp/alice", "analysts"), Rights(frozenset({0}), 1)),
        (_principal("corp/carol", "loaders"), Rights(frozenset({1, 9}), 2)),
        (_principal("corp/carol", "loaders", "unheard-of"), Rights(frozenset({1, 9}), 2)),
        (_principal("corp/carol", "idle"), Rights(frozenset(), 0)),  # known, with no role in this catalog
        (_principal("corp/carol", "unheard-of"), None),
        (_principal("corp/carol"), None),
        (_principal("corp/bob"), None),  # the bare name counts only with a single issuer
        (_principal("corp/Alice"), None),
        (_principal("evil/alice", issuer="evil"), None),
    ),
)
def test_roles_come_from_the_policy_and_from_the_token(principal: Principal, expected: Rights | None) -> None:
    """A role too many opens a catalog; one too few locks a team out."""
    state = _state()
    assert state.rights(principal, state.catalogs["lake"]) == expected
    # Remembered answers are the very same ones, with all that they remember themselves.
    assert state.rights(principal, state.catalogs["lake"]) is state.rights(principal, state.catalogs["lake"])


@pytest.mark.parametrize(
    ("name", "issuer", "known"),
    (
        ("corp/bob", "corp", True),
        ("other/bob", "other", True),
        ("corp/x/bob", "corp", False),
        ("corp/alice", "corp", True),
    ),
)
def test_a_bare_name_counts_with_a_single_issuer(name: str, issuer: str, known: bool) -> None:
    """With two issuers a bare name would let each of them speak for the other's people."""
    state = _state(single_issuer=True)
    assert (state.rights(_principal(name, issuer=issuer), state.catalogs["lake"]) is not None) is known


def test_a_claim_with_a_slash_cannot_pose_as_another_issuer() -> None:
    """The only issuer left must not be able to speak for `old/root` by handing out the claim `old/root`."""
    state = _state(single_issuer=True, principals={"old/root": ("analysts",)})
    assert state.rights(_principal("corp/old/root"), state.catalogs["lake"]) is None


def test_the_full_name_comes_before_the_bare_one() -> None:
    """An operator who writes the issuer means that entry alone."""
    state = _state(single_issuer=True, principals={"corp/bob": ("analysts",), "bob": ("loaders",)})
    assert state.rights(_principal("corp/bob"), state.catalogs["lake"]) == Rights(frozenset({0}), 1)
    assert state.principal_roles_of(_principal("corp/bob", "loaders", "analysts")) == ("analysts", "loaders")


def test_rights_are_told_apart_by_catalog_principal_issuer_and_roles() -> None:
    """An answer that is remembered for one caller must never serve another."""
    state = _state()
    lake, hr = state.catalogs["lake"], state.catalogs["hr"]
    carol = _principal("corp/carol", "loaders")
    assert state.rights(carol, lake) == Rights(frozenset({1, 9}), 2)
    assert state.rights(carol, hr) == Rights(frozenset({5}), 0)
    assert state.rights(_principal("corp/carol"), lake) is None
    assert state.rights(_principal("corp/carol", "analysts"), lake) == Rights(frozenset({0}), 1)
    single = _state(single_issuer=True, principals={"c": ("analysts",)})
    assert single.rights(_principal("a/b/c", issuer="a/b"), single.catalogs["lake"]) is not None
    assert single.rights(_principal("a/b/c", issuer="a"), single.catalogs["lake"]) is None


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens for ever new principals must not fill the memory."""
    monkeypatch.setattr(state_module, "MAX_RIGHTS", 3)
    state = _state()
    lake = state.catalogs["lake"]
    sizes = []
    for number in range(7):
        assert state.rights(_principal(f"corp/p{number}", "loaders"), lake) is not None
        sizes.append(len(state._remembered))
    assert sizes == [1, 2, 3, 1, 2, 3, 1]


def test_unknown_principals_are_not_remembered() -> None:
    """Strangers must not push out those who work."""
    state = _state()
    assert state.rights(_principal("corp/nobody"), state.catalogs["lake"]) is None
    assert state._remembered == {}


@pytest.mark.parametrize("roles", ({1}, {1, 2}, {1, 2, 3, 4, 5}, {9}, set()))
@pytest.mark.parametrize("grants", ({}, {1: 1}, {1: 1, 2: 2, 3: 4}, {1: 1, 2: 2, 3: 4, 6: 8, 7: 16, 8: 32}))
def test_grants_add_up_whichever_side_is_longer(roles: set[int], grants: dict[int, int]) -> None:
    """Walking the shorter side must never change the sum."""
    expected = sum(mask for role, mask in grants.items() if role in roles)
    assert granted(grants, frozenset(roles)) == expected


def test_the_storage_of_a_bucket() -> None:
    """A copy source names a bucket alone."""
    catalog = _state().catalogs["lake"]
    assert catalog.storage_of("cold") is AWS
    assert catalog.storage_of("foreign") is None
