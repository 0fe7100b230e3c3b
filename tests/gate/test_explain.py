"""Explain: the very decision of the gate, told check by check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from signproxy.errors import Check, Reason
from signproxy.gate.explain import Explanation, explain
from signproxy.gate.request import CatalogAddress
from signproxy.model import BY_LOCATION, Allow, NamedTable
from tests.gate.cases import ALLOWED, CASES, GATE_CHECKS, SEALED, SMALL, Ask, Slow, subject_of, verdict
from tests.product import HOST, Product


async def _explained(ask: Ask, product: Product | None = None) -> Explanation:
    used = product or Product(SEALED)
    return await explain(used.gate, subject_of(used, ask), ask.asked)


@pytest.mark.parametrize("reason", CASES, ids=lambda reason: reason.code)
async def test_explain_says_what_the_gate_says(reason: Reason) -> None:
    """An explanation of another decision than the one that was served is worse than none."""
    explained = await _explained(CASES[reason])
    judged = await verdict(Product(SEALED), CASES[reason])
    assert explained.reason is reason
    if isinstance(judged, Allow):
        assert (explained.decision, explained.rule_id) == ("allow", judged.authority.rule_id)
        assert (explained.detail, explained.fix) == ("", "")
    else:
        assert (explained.decision, explained.rule_id) == ("deny", "")
        assert (explained.reason, explained.detail) == (judged.reason, judged.detail)
        assert explained.fix


@pytest.mark.parametrize("reason", CASES, ids=lambda reason: reason.code)
async def test_checks_before_the_failed_one_passed_and_those_after_it_did_not_run(reason: Reason) -> None:
    """An operator who repairs the wrong check loses a day."""
    checks = (await _explained(CASES[reason])).checks
    assert tuple(check for check, _, _ in checks) == GATE_CHECKS
    for check, outcome, fact in checks:
        if reason is Reason.ALLOWED or check < reason.check:
            assert outcome == "passed"
        elif check is reason.check:
            assert outcome == "failed"
            assert fact
        else:
            assert (outcome, fact) == ("skipped", "")


@pytest.mark.parametrize("ask", (*ALLOWED, *CASES.values()))
async def test_a_table_that_must_be_asked_for_is_explained_alike(ask: Ask) -> None:
    """Learned tables are the ones that an operator has the most questions about."""
    assert await _explained(ask, Product(SEALED, resolver=Slow())) == await _explained(ask)


def _facts(explained: Explanation) -> dict[Check, str]:
    return {check: fact for check, _, fact in explained.checks}


async def test_an_allowed_request_is_explained_by_facts() -> None:
    """`passed` alone does not say which storage, key or table was meant."""
    ask = Ask(headers={"x-amz-te": ["append-md5"], "Range": ["bytes=0-1"]})
    assert _facts(await _explained(ask)) == {
        Check.CATALOG: "catalog lake, remote signing on",
        Check.ENDPOINT: "storage main, bucket my-bucket",
        Check.URI: "key 'wh/t1/data/f.parquet'",
        Check.OPERATION: "GetObject",
        Check.HEADERS: "signed: x-amz-te",
        Check.BODY: "payload UNSIGNED-PAYLOAD",
        Check.TABLE: "table lake.ns.t1",
        Check.PRIVILEGE: "writer@catalog:lake",
        Check.LOCATION: "",
        Check.METADATA: "",
        Check.STORAGE: "",
    }


async def test_the_facts_of_other_kinds_of_requests() -> None:
    """A list has a prefix, a bulk delete many keys, an unsafe storage a story."""
    listed = _facts(await _explained(Ask(uri=f"{HOST}?list-type=2&prefix=wh/t1/")))
    assert listed[Check.URI] == "prefix 'wh/t1/'"
    assert listed[Check.HEADERS] == "signed: none of the client's"
    body = "<Delete><Object><Key>wh/t1/a</Key></Object><Object><Key>wh/t1/b</Key></Object></Delete>"
    deleted = _facts(await _explained(Ask(method="POST", uri=f"{HOST}?delete", body=body)))
    assert deleted[Check.URI] == "2 keys, the first 'wh/t1/a'"
    assert deleted[Check.BODY].startswith("payload ")
    unsafe = CASES[Reason.UNSAFE_STORAGE]
    accepted = _facts(await _explained(unsafe, Product(SEALED, accepted_unsafe=frozenset({"minio"}))))
    assert accepted[Check.STORAGE] == "takes unsigned headers; accepted by name in the settings"
    read = replace(unsafe, method="GET", uri=f"{SMALL}/wh/small/f")
    assert _facts(await _explained(read))[Check.STORAGE] == ""


async def test_the_table_of_the_path_is_told_where_it_failed_later() -> None:
    """Before the decision all that is known of the table is its name in the path."""
    named = _facts(await _explained(CASES[Reason.OUTSIDE_TABLE]))
    assert named[Check.TABLE] == "table t1 of the path"
    assert named[Check.PRIVILEGE] == ""
    found = replace(CASES[Reason.METADATA_PROTECTED], target=BY_LOCATION)
    assert _facts(await _explained(found))[Check.TABLE] == ""


_FIXES: tuple[tuple[Reason, str], ...] = (
    (Reason.NO_READ_DATA, '{role: "sign_only", catalog: "lake", namespace: ["ns"], table: "t1", privileges: ['),
    (Reason.NO_REMOTE_SIGN, "privileges: [TABLE_REMOTE_SIGN]"),
    (Reason.METADATA_PROTECTED, "privileges: [TABLE_FULL_METADATA]"),
    (Reason.METADATA_SEALED, "metadata: protected"),
    (Reason.OUTSIDE_TABLE, 'locations: ["s3://my-bucket/wh/t10"]'),
    (Reason.COPY_SOURCE_OUTSIDE, "binding: by-location"),
)


@pytest.mark.parametrize(("reason", "yaml"), _FIXES, ids=lambda value: getattr(value, "code", ""))
async def test_a_denial_of_the_policy_comes_with_its_own_change(reason: Reason, yaml: str) -> None:
    """The general remedy of a reason does not name the role or the table."""
    fix = (await _explained(CASES[reason])).fix
    assert yaml in fix
    assert fix != reason.value.remedy


@pytest.mark.parametrize("reason", (Reason.CATALOG_UNKNOWN, Reason.KEY_DOT_SEGMENT, Reason.UNSAFE_STORAGE))
async def test_any_other_refusal_comes_with_the_reasons_remedy(reason: Reason) -> None:
    """Every denial is explained down to something that can be done."""
    assert (await _explained(CASES[reason])).fix == reason.value.remedy


async def test_a_refusal_without_detail_is_explained_by_its_meaning() -> None:
    """An empty line does not help."""
    explained = await _explained(CASES[Reason.DELETE_WITHOUT_BODY])
    assert explained.detail == ""
    assert _facts(explained)[Check.BODY] == Reason.DELETE_WITHOUT_BODY.value.meaning


async def test_explaining_records_nothing() -> None:
    """The trail holds what callers did, not what an operator wondered about."""
    product = Product(SEALED)
    await _explained(Ask(), product)
    await _explained(CASES[Reason.OUTSIDE_TABLE], product)
    assert product.trail.state.queued == 0
    assert "signproxy_requests_total{" not in product.metrics.render().body.decode()


async def test_an_unknown_table_of_an_unknown_catalog_is_no_fault_of_explain() -> None:
    """A question about nothing gets an answer too."""
    explained = await _explained(Ask(address=CatalogAddress(prefix="x"), target=NamedTable("a", "b")))
    assert explained.reason is Reason.CATALOG_UNKNOWN
    assert explained.checks[0][1] == "failed"
