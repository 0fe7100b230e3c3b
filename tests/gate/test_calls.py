"""Prove who may make which catalog call, and what a list shows of the catalog."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.gate.calls import CallPlace, admit_call
from signproxy.gate.judgement import Judgement, look_at, unjudged
from signproxy.gate.request import NOTHING_ASKED, CatalogAddress
from signproxy.model import Ceiling, Deny, Principal, Subject, TableId, TableScope
from signproxy.policy.privileges import Privilege, mask_of
from tests.gate.cases import new_request
from tests.inventory.learned_rig import Site, policy, principal

LIST = int(Privilege.TABLE_LIST)
LOAD = int(Privilege.TABLE_READ_PROPERTIES)
DROP = int(Privilege.TABLE_DROP)
PURGE = DROP | int(Privilege.TABLE_WRITE_DATA)
CREATE = int(Privilege.TABLE_CREATE)
NAMESPACES = int(Privilege.NAMESPACE_LIST)
NAMESPACE = int(Privilege.NAMESPACE_READ_PROPERTIES)

MORE = """
- {role: reader, namespace: team.a, privileges: [TABLE_CREATE]}
- {role: owner, namespace: hr, table: view, privileges: [VIEW_FULL_METADATA]}
"""


def _judged(
    site: Site, who: str | Principal, need: int, namespace: str | None = None, name: str | None = None, **how: object
) -> Judgement | None:
    """Return what is said of a refusal; None where the call may be made."""
    caller = principal(who) if isinstance(who, str) else who
    subject = Subject(caller, how.get("effective", caller), (), how.get("ceiling", Ceiling.NONE))  # type: ignore[arg-type]  # by name
    try:
        catalog = admit_call(
            site.state,
            subject,
            CatalogAddress(str(how.get("catalog", "lake"))),
            need,
            CallPlace(namespace, name, how.get("made")),  # type: ignore[arg-type]  # by name
        )
    except Refused as refused:
        return unjudged(new_request(), subject, NOTHING_ASKED, refused, look_at(site.state))
    assert catalog is site.state.catalogs["lake"]
    return None


def _admit(
    site: Site, who: str | Principal, need: int, namespace: str | None = None, name: str | None = None, **how: object
) -> Reason:
    judged = _judged(site, who, need, namespace, name, **how)
    if judged is None:
        return Reason.ALLOWED
    assert judged.refused is not None
    if judged.catalog:
        # The event names the catalog, and the policy that refused.
        assert (judged.policy_rev, judged.policy_epoch) == (site.state.rev, site.state.epoch)
    return judged.refused.reason


ALLOWED, REFUSED = Reason.ALLOWED, Reason.CALL_NOT_PERMITTED


@pytest.mark.parametrize(
    ("who", "need", "namespace", "name", "told"),
    (
        ("reader", LOAD, "sales", "orders", ALLOWED),
        ("reader", LOAD, "no\x1fsuch", "orders", ALLOWED),
        ("reader", DROP, "sales", "orders", REFUSED),
        ("reader", PURGE, "sales", "orders", REFUSED),
        ("writer", PURGE, "sales", "orders", REFUSED),
        ("owner", PURGE, "sales", "orders", ALLOWED),
        ("reader", CREATE, "team\x1fa", None, ALLOWED),
        ("reader", CREATE, "team\x1fa\x1fdeep", None, ALLOWED),
        ("reader", CREATE, "team", None, REFUSED),
        ("reader", CREATE, None, None, REFUSED),
        ("lender", LOAD, "sales", "lent", ALLOWED),
        ("lender", LOAD, "sales", "orders", REFUSED),
        # A caller who may see one table may list the way to it: the list shows no more than that.
        ("lender", LIST, "sales", None, ALLOWED),
        ("lender", NAMESPACES, None, None, ALLOWED),
        ("lender", LIST, "hr", None, REFUSED),
        ("lender", LIST | CREATE, "sales", None, REFUSED),
        ("lender", LIST, "sales", "orders", REFUSED),
        ("lender", NAMESPACE, "sales", None, REFUSED),
        ("reader", 0, None, None, ALLOWED),
        ("stranger", 0, None, None, Reason.PRINCIPAL_UNKNOWN),
        ("stranger", LOAD, "sales", "orders", Reason.PRINCIPAL_UNKNOWN),
    ),
)
def test_a_call_needs_its_privileges_at_its_place(
    who: str, need: int, namespace: str | None, name: str | None, told: Reason
) -> None:
    """A refused load, list or commit costs the upstream nothing and tells the caller nothing."""
    site = Site(policy(more=MORE))
    assert _admit(site, who, need, namespace, name) is told
    assert site.upstream.asked == []
    judged = _judged(site, who, need, namespace, name)
    if told is REFUSED:
        assert judged is not None
        assert judged.catalog == "lake"
        deny = judged.deny
        assert deny is not None
        assert deny.table == (None if name is None or namespace is None else TableId("lake", namespace, name))
        assert f"'corp/{who}'" in deny.detail
    else:
        assert judged is None or judged.deny == Deny(told, (judged.refused and judged.refused.detail) or "")


def test_a_refusal_names_what_is_missing() -> None:
    """An operator grants what the message asks for, and no more."""
    site = Site()
    for namespace, where in (("sales", "namespace 'sales'"), (None, "the catalog")):
        judged = _judged(site, "reader", PURGE, namespace)
        assert judged is not None
        assert judged.deny is not None
        assert judged.deny.reason is REFUSED
        assert "lacks TABLE_WRITE_DATA, TABLE_DROP on " in judged.deny.detail
        assert where in judged.deny.detail


@pytest.mark.parametrize(("authorizer", "told"), (("policy", REFUSED), ("both", REFUSED), ("catalog", ALLOWED)))
def test_where_the_upstream_authorizes_it_judges_the_call_itself(authorizer: str, told: Reason) -> None:
    """The policy of such a catalog names no principal."""
    site = Site(policy(f"authorizer: {authorizer}"))
    assert _admit(site, "reader", DROP, "sales", "orders") is told
    stranger = _admit(site, "stranger", LOAD, "sales", "orders")
    assert stranger is (ALLOWED if authorizer == "catalog" else Reason.PRINCIPAL_UNKNOWN)
    assert site.gate.may_see(site.state.catalogs["lake"], Subject.of(principal("stranger")), "sales", "x") is (
        authorizer == "catalog"
    )


@pytest.mark.parametrize("off", ("remote_signing: false", "remote_signing: true, kind: external"))
def test_calls_are_passed_on_whether_or_not_signing_is_on(off: str) -> None:
    """Switching signing off must not take the catalog away."""
    site = Site(policy().replace("remote_signing: true, tables", f"{off}, tables"))
    assert _admit(site, "reader", LOAD, "sales", "orders") is ALLOWED


def test_a_catalog_is_for_whom_its_issuer_may_speak() -> None:
    """Federated identities are limited to catalogs; a facade must not be the way around."""
    site = Site()
    limited = Principal("corp/reader", "corp", "reader", 4e9, catalogs=("other",))
    assert _admit(site, limited, LOAD, "sales", "orders") is Reason.CATALOG_NOT_FOR_ISSUER
    assert _admit(site, "reader", LOAD, "sales", "orders", catalog="nobody") is Reason.CATALOG_UNKNOWN


@pytest.mark.parametrize("authorizer", ("policy", "catalog"))
@pytest.mark.parametrize("privilege", Privilege)
def test_a_caller_that_only_ever_reads_changes_nothing(authorizer: str, privilege: Privilege) -> None:
    """A clamped session, or one on another's rights, must not commit, create or drop."""
    site = Site(policy(f"authorizer: {authorizer}"))
    reads = {"TABLE_REMOTE_SIGN"} | {
        name for name in Privilege.__members__ if "_READ_" in name or name.endswith("_LIST")
    }
    told = ALLOWED if privilege.name in reads else Reason.CEILING
    assert _admit(site, "owner", int(privilege), "a", "b", ceiling=Ceiling.READ_ONLY) is told
    assert _admit(site, "stranger", int(privilege), "a", "b", effective=principal("owner")) is told
    assert _admit(site, "owner", int(privilege), "a", "b") is ALLOWED


SCOPE = TableScope("lake", "sales\x1feu", "orders", "u1")


@pytest.mark.parametrize("authorizer", ("policy", "catalog", "both"))
@pytest.mark.parametrize(
    ("namespace", "name", "told"),
    (
        ("sales\x1feu", "orders", ALLOWED),
        ("sales\x1feu", "other", Reason.NOT_IN_SCOPE),
        ("sales", "orders", Reason.NOT_IN_SCOPE),
        ("sales\x1feu", None, Reason.NOT_IN_SCOPE),
        (None, None, Reason.NOT_IN_SCOPE),
    ),
)
def test_a_tables_token_makes_that_tables_calls(
    authorizer: str, namespace: str | None, name: str | None, told: Reason
) -> None:
    """It is handed to every executor, and must be worth no more than the table."""
    site = Site(policy(f"authorizer: {authorizer}"))
    scoped = principal("owner", scope=SCOPE)
    assert _admit(site, scoped, LOAD, namespace, name) is told
    assert _admit(site, scoped, DROP, namespace, name) is told
    # What needs no privilege touches no table.
    assert _admit(site, scoped, 0, namespace, name) is ALLOWED


def test_a_tables_token_makes_the_table_that_was_staged_and_no_other() -> None:
    """The commit that makes a staged table needs its privilege at the namespace: the token has to do for that too."""
    site = Site(policy("authorizer: catalog"))
    scoped = principal("owner", scope=SCOPE)
    assert _admit(site, scoped, CREATE, "sales\x1feu", made="orders") is ALLOWED
    assert _admit(site, scoped, CREATE, "sales\x1feu", made="other") is Reason.NOT_IN_SCOPE
    assert _admit(site, scoped, CREATE, "sales", made="orders") is Reason.NOT_IN_SCOPE


@pytest.mark.parametrize(
    ("who", "shown"),
    (
        ("reader", {"sales", "sales\x1feu", "hr", "sales/orders", "sales/lent", "hr/view"}),
        ("owner", {"sales", "sales\x1feu", "hr", "sales/orders", "sales/lent", "hr/view"}),
        ("lender", {"sales", "sales/lent"}),
        ("stranger", set()),
    ),
)
def test_a_list_shows_what_may_be_seen(who: str, shown: set[str]) -> None:
    """Names of other tenants' tables are other tenants' business."""
    site = Site(policy(more=MORE))
    catalog = site.state.catalogs["lake"]
    subject = Subject.of(principal(who))
    names: tuple[tuple[str, str | None], ...] = (
        ("sales", None),
        ("sales\x1feu", None),
        ("hr", None),
        ("sales", "orders"),
        ("sales", "lent"),
        ("hr", "view"),
    )
    seen = {
        namespace if name is None else f"{namespace}/{name}"
        for namespace, name in names
        if site.gate.may_see(catalog, subject, namespace, name)
    }
    assert seen == shown


@pytest.mark.parametrize(
    ("catalog", "namespace", "name", "shown"),
    (
        ("lake", "sales", None, True),
        ("lake", "sales\x1feu", None, True),
        ("lake", "sales\x1feu", "orders", True),
        ("lake", "sales\x1feu", "other", False),
        ("lake", "sales\x1feu2", None, False),
        ("lake", "sale", None, False),
        ("lake", "hr", None, False),
        ("other", "sales", None, False),
    ),
)
def test_a_tables_token_sees_the_way_to_its_table(catalog: str, namespace: str, name: str | None, shown: bool) -> None:
    """A finder of it in an executor's log learns of nothing else."""
    site = Site(policy(catalogs="  other: {storages: [aws], roots: ['s3://cold/x'], tables: upstream}"))
    subject = Subject.of(principal("owner", scope=SCOPE))
    assert site.gate.may_see(site.state.catalogs[catalog], subject, namespace, name) is shown


def test_a_list_is_shown_by_the_policy_in_force_when_it_is_answered() -> None:
    """An upstream may take seconds to list; what was revoked meanwhile must not be in the answer."""
    site = Site(policy(more=MORE))
    catalog = site.state.catalogs["lake"]
    subject = Subject.of(principal("lender"))
    assert site.gate.may_see(catalog, subject, "sales", "lent")
    # Roles have other numbers now: those of the old catalog would mean another principal.
    site.reload(
        policy(more=MORE).replace("lake: [reader, writer, owner, lender]", "lake: [lender, owner, writer, reader]")
    )
    assert site.gate.may_see(catalog, subject, "sales", "lent")
    assert not site.gate.may_see(catalog, subject, "sales", "orders")
    site.reload(
        policy().replace("{role: lender, namespace: sales, table: lent", "{role: lender, namespace: sales, table: x")
    )
    assert not site.gate.may_see(catalog, subject, "sales", "lent")
    site.reload(
        policy()
        .replace("  lake: {storages", "  pond: {storages")
        .replace("default_catalog: lake", "default_catalog: pond")
        .replace("{lake: [", "{pond: [")
    )
    assert not site.gate.may_see(catalog, subject, "sales", "lent")


def test_the_masks_of_needs_are_what_the_lattice_says() -> None:
    """The tests above would prove nothing with masks that imply each other."""
    assert mask_of(["TABLE_DROP"]) == DROP
    assert mask_of(["TABLE_LIST"]) == LIST
