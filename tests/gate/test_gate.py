"""The gate: one order of checks, one policy per request, the same answer whether a table had to be asked for or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, permutations

import msgspec
import pytest

from signproxy.errors import Check, Reason, Refused
from signproxy.gate import gate
from signproxy.gate.judgement import Judgement
from signproxy.gate.request import CatalogAddress
from signproxy.model import Allow, NamedTable, Subject, TableId
from signproxy.policy.state import PolicyState
from signproxy.s3.operation import Access, Operation
from tests.gate.cases import (
    ALLOWED,
    CASES,
    GATE_CHECKS,
    SEALED,
    SMALL,
    T1,
    Ask,
    Slow,
    judge,
    subject_of,
    verdict,
    verdict_of,
)
from tests.gate.forward_cases import OF_THE_S3_LISTENER, OF_VOLUMES
from tests.gate.learned_cases import LEARNED_CASES, OF_THE_FACADE
from tests.policies import MemoryPolicySource
from tests.product import HOST, KEY, Product

# The server gives these before the gate, or after it.
_NOT_THE_GATES = {reason for reason in Reason if reason.check not in GATE_CHECKS} | OF_THE_FACADE | OF_THE_S3_LISTENER


def test_every_reason_of_the_gates_checks_has_a_case() -> None:
    """A reason without a case is a refusal that was never seen."""
    assert set(CASES) | set(LEARNED_CASES) | OF_VOLUMES == (set(Reason) - _NOT_THE_GATES) | {Reason.ALLOWED}
    assert not set(CASES) & set(LEARNED_CASES)


@pytest.mark.parametrize("reason", LEARNED_CASES, ids=lambda reason: reason.code)
async def test_each_reason_of_learned_tables_and_calls_is_given_for_its_own_fault(reason: Reason) -> None:
    """They are few, and each of them means another thing to do."""
    assert await LEARNED_CASES[reason]() is reason


@pytest.mark.parametrize("reason", CASES, ids=lambda reason: reason.code)
async def test_each_reason_is_given_for_its_own_fault(reason: Reason) -> None:
    """A wrong reason sends the operator to the wrong place."""
    judged = await verdict(Product(SEALED), CASES[reason])
    assert (judged.reason if isinstance(judged, Refused) else Reason.ALLOWED) is reason


@pytest.mark.parametrize("ask", ALLOWED)
async def test_what_is_allowed_says_for_which_table_and_by_which_rule(ask: Ask) -> None:
    """The audit trail has nothing else to say why a request was served."""
    judged = await judge(Product(SEALED), ask)
    allow = judged.allow
    assert isinstance(allow, Allow)
    assert allow.table == TableId("lake", "ns", "t1")
    assert allow.authority.rule_id == f"{ask.who}@catalog:lake"
    assert (judged.refused, judged.deny, judged.catalog) == (None, None, "lake")
    assert judged.asked.target == ask.target
    assert judged.asked.wire is not None
    assert (judged.asked.wire.method, judged.asked.wire.uri) == (ask.method, ask.uri)
    assert (judged.asked.wire.headers, judged.asked.wire.body) == (ask.headers, ask.body)
    assert judged.request is not None


@pytest.mark.parametrize("ask", (*ALLOWED, *CASES.values()))
async def test_a_table_that_must_be_asked_for_is_judged_alike(ask: Ask) -> None:
    """Learned tables come from another catalog; waiting for it must not open a second way through the rules."""
    slow = Slow()
    at_once = await judge(Product(SEALED), ask)
    later = await judge(Product(SEALED, resolver=slow), ask)
    first, second = verdict_of(at_once), verdict_of(later)
    if isinstance(first, Refused):
        assert isinstance(second, Refused)
        assert (second.reason, second.detail) == (first.reason, first.detail)
    else:
        assert isinstance(second, Allow)
        assert (second.table, second.write_once) == (first.table, first.write_once)
    assert (later.deny, later.request, later.catalog) == (at_once.deny, at_once.request, at_once.catalog)
    # What is refused before the table is looked for asks no upstream.
    assert slow.asked == int(not isinstance(first, Refused) or first.reason.check >= Check.TABLE)


def test_on_a_hit_nothing_is_awaited() -> None:
    """A turn of the event loop costs more than the decision."""
    product = Product(SEALED)
    ask = Ask()
    judged = product.gate.judge(subject_of(product, ask), ask.asked)
    assert isinstance(judged, Judgement)
    assert isinstance(judged.allow, Allow)


def _on_small(ask: Ask) -> Ask:
    return replace(ask, method="PUT", uri=f"{SMALL}/wh/small/f", region="us-east-1", target=NamedTable("ns", "small"))


# Each fault breaks one check of a write that is otherwise allowed, whatever else is broken.
_FAULTS: dict[Check, Callable[[Ask], Ask]] = {
    Check.CATALOG: lambda ask: replace(ask, address=CatalogAddress(prefix="nosuch")),
    Check.ENDPOINT: lambda ask: replace(ask, region="nowhere"),
    Check.URI: lambda ask: replace(ask, uri=f"{ask.uri}?a=1&a=2"),
    Check.OPERATION: lambda ask: replace(ask, method="PATCH"),
    Check.HEADERS: lambda ask: replace(ask, headers={"x-amz-acl": ["private"]}),
    Check.BODY: lambda ask: replace(ask, body="x"),
    Check.TABLE: lambda ask: replace(ask, target=NamedTable("ns", "nosuch")),
    Check.PRIVILEGE: lambda ask: replace(ask, who="reader"),
    Check.LOCATION: lambda ask: replace(ask, uri=ask.uri.replace("/wh/small/", "/wh/elsewhere/")),
    Check.METADATA: lambda ask: replace(ask, uri=ask.uri.replace("/f", "/version-hint.text")),
}


@pytest.mark.parametrize(("earlier", "later"), tuple(combinations((*_FAULTS, Check.STORAGE), 2)))
async def test_the_earlier_check_speaks(earlier: Check, later: Check) -> None:
    """A caller without privileges would learn where tables lie; and `explain` shows an order that must be true."""
    ask = _on_small(Ask())
    for check in (later, earlier):
        ask = _FAULTS[check](ask) if check in _FAULTS else ask
    # The unsafe storage is the fault of every write there, unless the operator accepted it.
    accepted = frozenset() if later is Check.STORAGE else frozenset({"minio"})
    refused = await verdict(Product(SEALED, accepted_unsafe=accepted), ask)
    assert isinstance(refused, Refused)
    assert refused.reason.check is earlier


_ADDRESSES: tuple[tuple[CatalogAddress, str | None], ...] = (
    (CatalogAddress(prefix="lake"), "lake"),
    (CatalogAddress(prefix="opaque-1"), "lake"),
    (CatalogAddress(name="lake"), "lake"),
    (CatalogAddress(name="located"), "located"),
    (CatalogAddress(), "lake"),
    (CatalogAddress(name="lake", prefix="opaque-1"), "lake"),
    (CatalogAddress(name="lake", prefix="lake"), "lake"),
    # The mount fixes the catalog; a prefix of another one does not lead out of it.
    (CatalogAddress(name="lake", prefix="located"), None),
    (CatalogAddress(name="located", prefix="opaque-1"), None),
    (CatalogAddress(name="lake", prefix="nosuch"), None),
    (CatalogAddress(name="nosuch"), None),
    # An opaque prefix is no name of a catalog.
    (CatalogAddress(name="opaque-1"), None),
    (CatalogAddress(prefix=""), None),
    (CatalogAddress(name=""), None),
)


@pytest.mark.parametrize(("address", "found"), _ADDRESSES)
def test_a_catalog_is_found_by_mount_or_prefix(address: CatalogAddress, found: str | None) -> None:
    """A prefix that led into another catalog would be judged by the wrong policy."""
    product = Product(SEALED)
    ask = Ask(who="reader", address=address)
    subject = subject_of(product, ask)
    judged = product.gate.judge(subject, ask.asked)
    assert isinstance(judged, Judgement)
    if found is not None:
        assert product.gate.catalog(product.state, subject, address).name == found == judged.catalog
        return
    with pytest.raises(Refused) as refused:
        product.gate.catalog(product.state, subject, address)
    assert refused.value.reason is Reason.CATALOG_UNKNOWN
    assert judged.catalog == ""


async def test_without_a_default_catalog_it_has_to_be_named() -> None:
    """Guessing a catalog would be guessing whose tables are meant."""
    refused = await verdict(Product("remote_signing: true"), Ask(address=CatalogAddress()))
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.detail) == (Reason.CATALOG_UNKNOWN, "'(no default catalog)'")


async def test_signing_off_system_wide_is_off_everywhere() -> None:
    """The one switch that an operator throws when something is wrong."""
    product = Product(SEALED.replace("remote_signing: true\ndefault", "remote_signing: false\ndefault"))
    refused = await verdict(product, Ask())
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.detail) == (Reason.REMOTE_SIGNING_OFF, "off for the whole system")


async def test_an_external_catalog_signs_only_where_that_is_allowed() -> None:
    """Its locations are another party's word."""
    ask = CASES[Reason.CATALOG_FEDERATED]
    allowed = SEALED.replace("kind: external\n", "kind: external\n    allow_external: true\n")
    assert isinstance(await verdict(Product(allowed), ask), Allow)


@pytest.mark.parametrize("catalogs", ((), ("located",), ("opaque-1",)))
async def test_an_issuer_speaks_only_for_its_catalogs(catalogs: tuple[str, ...]) -> None:
    """A test system's issuer would open the production catalog; a prefix is no name."""
    refused = await verdict(Product(SEALED), Ask(catalogs=catalogs))
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.CATALOG_NOT_FOR_ISSUER
    assert isinstance(await verdict(Product(SEALED), Ask(catalogs=("x", "lake"))), Allow)


class _Counting:
    """A policy that changes between two looks."""

    def __init__(self, *states: PolicyState) -> None:
        self.states = list(states)
        self.looks = 0

    def __call__(self) -> PolicyState:
        self.looks += 1
        return self.states[min(self.looks, len(self.states)) - 1]


async def test_the_policy_is_read_once_per_request() -> None:
    """A request judged half by the old policy and half by the new one is judged by none."""
    open_state = MemoryPolicySource(SEALED, single_issuer=True).load(1)
    closed = MemoryPolicySource("remote_signing: false", single_issuer=True).load(2)
    product = Product(SEALED)
    states = _Counting(open_state, closed)
    product.judge_by(state=states)
    judged = await judge(product, Ask())
    assert isinstance(judged.allow, Allow)
    assert (judged.policy_rev, judged.policy_epoch, states.looks) == (open_state.rev, 1, 1)
    # The next request sees the reload.
    refused = await verdict(product, Ask())
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.CATALOG_UNKNOWN


async def test_what_had_to_be_asked_for_is_judged_anew_as_a_whole() -> None:
    """A revoke that came while an upstream was asked would not bite until the next request."""
    open_state = MemoryPolicySource(SEALED, single_issuer=True).load(1)
    closed = MemoryPolicySource("remote_signing: false", single_issuer=True).load(2)
    product = Product(SEALED)
    states = _Counting(open_state, closed)
    product.judge_by(state=states, resolver=Slow())
    judged = await judge(product, Ask())
    assert judged.refused is not None
    assert judged.refused.reason is Reason.CATALOG_UNKNOWN
    # Each of the two attempts by one policy, and the event names the one that judged.
    assert (judged.policy_rev, judged.policy_epoch, states.looks) == (closed.rev, 2, 2)


_OPERATIONS: dict[Operation, Ask] = {
    Operation.GET_OBJECT: Ask(),
    Operation.HEAD_OBJECT: Ask(method="HEAD"),
    Operation.LIST_OBJECTS_V2: Ask(uri=f"{SMALL}?list-type=2&prefix=wh/small/"),
    Operation.LIST_PARTS: Ask(uri=f"{SMALL}/wh/small/f?uploadId=u"),
    Operation.PUT_OBJECT: Ask(method="PUT"),
    Operation.COPY_OBJECT: Ask(method="PUT", headers={"x-amz-copy-source": ["small/wh/small/a"]}),
    Operation.CREATE_MULTIPART_UPLOAD: Ask(method="POST", uri=f"{SMALL}/wh/small/f?uploads"),
    Operation.UPLOAD_PART: Ask(method="PUT", uri=f"{SMALL}/wh/small/f?uploadId=u&partNumber=1"),
    Operation.UPLOAD_PART_COPY: Ask(
        method="PUT",
        uri=f"{SMALL}/wh/small/f?uploadId=u&partNumber=1",
        headers={"x-amz-copy-source": ["small/wh/small/a"]},
    ),
    Operation.COMPLETE_MULTIPART_UPLOAD: Ask(method="POST", uri=f"{SMALL}/wh/small/f?uploadId=u"),
    Operation.ABORT_MULTIPART_UPLOAD: Ask(method="DELETE", uri=f"{SMALL}/wh/small/f?uploadId=u"),
    Operation.DELETE_OBJECT: Ask(method="DELETE"),
    Operation.DELETE_OBJECTS: Ask(
        method="POST",
        uri=f"{SMALL}?delete",
        body="<Delete><Object><Key>wh/small/f</Key></Object></Delete>",
    ),
    Operation.GET_OBJECT_TAGGING: Ask(uri=f"{SMALL}/wh/small/f?tagging"),
    Operation.PUT_OBJECT_TAGGING: Ask(method="PUT", uri=f"{SMALL}/wh/small/f?tagging"),
    Operation.LIST_OBJECT_VERSIONS: Ask(uri=f"{SMALL}?versions&prefix=wh/small/"),
    Operation.LIST_MULTIPART_UPLOADS: Ask(uri=f"{SMALL}?uploads&prefix=wh/small/"),
}
_OPTED_IN = SEALED.replace(
    "checks_unsigned_headers: false\n",
    "checks_unsigned_headers: false\n    checks_payload_hash: true\n"
    "    opt_ins: {tagging: true, recover: true, multipart_cleanup: true}\n",
)


@pytest.mark.parametrize("operation", [operation for operation in Operation if not operation.forward_only])
async def test_only_what_changes_nothing_is_signed_for_an_unsafe_store(operation: Operation) -> None:
    """With one unsigned header a client turns any signed change into a copy of another table's object."""
    ask = _OPERATIONS[operation]
    if ask.uri == f"{HOST}/{KEY}":
        ask = replace(ask, uri=f"{SMALL}/wh/small/f")
    ask = replace(ask, region="us-east-1", target=NamedTable("ns", "small"))
    judgement = await judge(Product(_OPTED_IN), ask)
    judged = verdict_of(judgement)
    changes = operation.access in (Access.WRITE, Access.DELETE)
    assert judgement.request is not None
    assert judgement.request.operation is operation
    if changes:
        assert isinstance(judged, Refused)
        assert judged.reason is Reason.UNSAFE_STORAGE
        assert "storage 'minio' " in judged.detail
        assert judgement.deny is not None
        assert judgement.deny.table == TableId("lake", "ns", "small")
    else:
        assert isinstance(judged, Allow)
        assert judged.unsafe_storage is False
    # Accepted by name; another name accepts nothing.
    accepted = await verdict(Product(_OPTED_IN, accepted_unsafe=frozenset({"minio"})), ask)
    assert isinstance(accepted, Allow)
    assert accepted.unsafe_storage is changes
    other = await verdict(Product(_OPTED_IN, accepted_unsafe=frozenset({"main", "elsewhere"})), ask)
    assert isinstance(other, Refused) is changes


async def test_a_bulk_delete_needs_a_store_that_hashes_the_body() -> None:
    """Where it does not, the client sends other keys than the checked ones, and every table can be emptied."""
    policy = _OPTED_IN.replace("checks_unsigned_headers: false", "checks_unsigned_headers: true").replace(
        "checks_payload_hash: true", "checks_payload_hash: false"
    )
    small = {"region": "us-east-1", "target": NamedTable("ns", "small")}
    bulk = replace(_OPERATIONS[Operation.DELETE_OBJECTS], **small)  # type: ignore[arg-type]  # fields of Ask
    single = replace(_OPERATIONS[Operation.DELETE_OBJECT], uri=f"{SMALL}/wh/small/f", **small)  # type: ignore[arg-type]
    refused = await verdict(Product(policy), bulk)
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.detail) == (
        Reason.UNSAFE_STORAGE,
        "storage 'minio' does not compare a body with its hash",
    )
    plain = await verdict(Product(policy), single)
    assert isinstance(plain, Allow)
    assert plain.unsafe_storage is False
    accepted = await verdict(Product(policy, accepted_unhashed=frozenset({"minio"})), bulk)
    assert isinstance(accepted, Allow)
    assert accepted.unsafe_storage is True
    # Accepting the one risk is not accepting the other.
    other = await verdict(Product(policy, accepted_unsafe=frozenset({"minio"})), bulk)
    assert isinstance(other, Refused)


async def test_a_store_that_checks_needs_no_acceptance() -> None:
    """The event says `unsafe_storage` only where it is so."""
    allow = await verdict(Product(SEALED), Ask(method="PUT"))
    assert isinstance(allow, Allow)
    assert allow.unsafe_storage is False


async def test_a_refusal_leaves_what_was_known_until_then() -> None:
    """The event of a refusal says what was asked for, as far as it was understood."""
    early = await judge(Product(SEALED), CASES[Reason.URI_MALFORMED])
    assert (early.catalog, early.request, early.deny, early.allow) == ("lake", None, None, None)
    assert (early.asked.target, early.asked.wire) == (T1, CASES[Reason.URI_MALFORMED].wire)
    late = await judge(Product(SEALED), CASES[Reason.OUTSIDE_TABLE])
    assert late.request is not None
    assert late.request.key == "wh/t10/f"
    assert late.deny is not None
    assert (late.deny.reason, late.deny.table) == (Reason.OUTSIDE_TABLE, TableId("lake", "ns", "t1"))
    assert late.allow is None


async def test_a_reload_is_judged_anew_for_callers_admitted_before() -> None:
    """What passed under the old policy is no right under the new one: a revoke bites on the next request."""
    product = Product(SEALED)
    ask = Ask()
    subject = subject_of(product, ask)

    asked = ask.asked

    def judged() -> Allow | Reason:
        found = product.gate.judge(subject, asked)
        assert isinstance(found, Judgement)
        said = verdict_of(found)
        return said.reason if isinstance(said, Refused) else said

    assert isinstance(judged(), Allow)
    assert isinstance(judged(), Allow)
    for change, reason in (
        (("remote_signing: true\ndefault", "remote_signing: false\ndefault"), Reason.REMOTE_SIGNING_OFF),
        (("writer: {roles: [writers]}", "writer: {roles: []}"), Reason.PRINCIPAL_UNKNOWN),
        (("prefixes: [opaque-1]", "prefixes: [opaque-1]\n    kind: external"), Reason.CATALOG_FEDERATED),
        (("  - {role: writer, privileges: [TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]}\n", ""), Reason.NO_REMOTE_SIGN),
    ):
        assert change[0] in SEALED
        product.state = MemoryPolicySource(SEALED.replace(*change), single_issuer=True).load(2)
        assert judged() is reason
        product.state = MemoryPolicySource(SEALED, single_issuer=True).load(3)
        assert isinstance(judged(), Allow)


async def test_admission_of_one_caller_or_route_admits_no_other() -> None:
    """What is remembered is for the very values that were checked."""
    product = Product(SEALED)
    asks = (
        Ask(),
        CASES[Reason.CATALOG_UNKNOWN],
        CASES[Reason.CATALOG_NOT_FOR_ISSUER],
        CASES[Reason.PRINCIPAL_UNKNOWN],
        CASES[Reason.REMOTE_SIGNING_OFF],
        CASES[Reason.CATALOG_FEDERATED],
        Ask(who="reader"),
    )
    for _ in range(2):
        for first, second in permutations(asks, 2):
            for ask in (first, second):
                alone = await verdict(Product(SEALED), ask)
                judged = await verdict(product, ask)
                assert isinstance(judged, Allow) is isinstance(alone, Allow)
                if isinstance(judged, Refused) and isinstance(alone, Refused):
                    assert judged.reason is alone.reason


async def test_a_caller_with_a_borrowed_name_is_checked_by_itself() -> None:
    """Rights are the effective principal's; which catalogs an issuer may speak for is the caller's own limit."""
    product = Product(SEALED)
    ask = Ask()
    writer = subject_of(product, ask)
    asked = ask.asked
    own = product.gate.judge(writer, asked)
    assert isinstance(own, Judgement)
    assert isinstance(own.allow, Allow)
    limited = msgspec.structs.replace(writer.caller, catalogs=("other",))
    borrowed = product.gate.judge(Subject(limited, writer.effective), asked)
    assert isinstance(borrowed, Judgement)
    assert borrowed.refused is not None
    assert borrowed.refused.reason is Reason.CATALOG_NOT_FOR_ISSUER


async def test_what_is_remembered_of_callers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of short-lived tokens must not fill the memory."""
    monkeypatch.setattr(gate, "_ADMISSIONS_KEPT", 3)
    product = Product(SEALED)
    ask = Ask()
    for _ in range(10):
        caller = msgspec.structs.replace(subject_of(product, ask).caller)
        subject = Subject(caller, caller)
        product.gate.judge(subject, ask.asked)
        assert len(product.gate._admitted) <= 3
