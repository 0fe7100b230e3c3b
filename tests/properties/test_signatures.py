"""Whatever is asked for: what is signed touches only what its caller may touch, and every store accepts it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.gate.explain import explain
from signproxy.gate.request import AskedFor
from signproxy.server.api.routes import find_route
from signproxy.signing.sign_way import read_message
from tests.properties.drafts import Draft, drafts, wild
from tests.properties.world import (
    ALL_GRANTS,
    CALLERS,
    Signed,
    attempt,
    check_contained,
    check_signed,
    check_uri,
    check_verifies,
    gate_of,
    subject_of,
)

EXAMPLES = 250
"""About a hundred of them are signed."""


def _over(strategy: st.SearchStrategy[Draft], check: Callable[[Signed], None]) -> Counter[str]:
    """Check every signed request that is drawn; return how many were signed, and how many were drawn."""
    seen: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(strategy)
    def each(draft: Draft) -> None:
        outcome = attempt(draft.who, draft.path, draft.raw)
        seen["drawn"] += 1
        if isinstance(outcome, Signed):
            seen["signed"] += 1
            assert outcome.judgement.request is not None
            seen[outcome.judgement.request.operation.s3_name] += 1
            check(outcome)

    each()
    return seen


def _enough(seen: Counter[str]) -> None:
    """Fail where too little was signed to say anything."""
    assert seen["drawn"] >= EXAMPLES
    assert seen["signed"] * 6 >= seen["drawn"], seen
    assert len(seen.keys() - {"drawn", "signed"}) >= 6, seen


def test_nothing_that_is_signed_touches_what_the_caller_may_not() -> None:
    """Another table's data would leak, or be overwritten, through some store's own idea of a key."""
    _enough(_over(drafts(), check_contained))


def test_everything_that_is_signed_verifies_as_both_clients_send_it() -> None:
    """A signature that a strict store refuses fails the job that waits for it."""
    _enough(_over(drafts(), check_verifies))


def test_the_uri_comes_back_byte_for_byte_with_the_stamp_alone() -> None:
    """Clients send the answered uri: any other change would address another object."""
    _enough(_over(drafts(), check_uri))


@given(wild())
def test_anything_in_any_field_is_signed_soundly_or_refused(draft: Draft) -> None:
    """A raw fault is an answer 503 and a riddle; a signature for nonsense is a hole."""
    outcome = attempt(draft.who, draft.path, draft.raw)
    if isinstance(outcome, Signed):
        check_signed(outcome)


@given(st.sampled_from(CALLERS), st.text(max_size=80), st.binary(max_size=200))
def test_any_path_and_any_bytes_are_refused(who: str, path: str, raw: bytes) -> None:
    """Whatever arrives, the answer is a reason."""
    assert isinstance(attempt(who, path, raw), Refused)
    assert isinstance(attempt(who, "/v1/aws/s3/sign", raw), Refused)


async def _explained(draft: Draft) -> Reason:
    route = find_route(draft.path)
    message = read_message(draft.raw)
    return (await explain(gate_of(), subject_of(draft.who), AskedFor(route.address, route.target, message))).reason


def test_explain_says_what_the_gate_said() -> None:
    """An operator who is told another reason repairs the wrong thing."""
    seen: Counter[Reason] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(drafts())
    def each(draft: Draft) -> None:
        outcome = attempt(draft.who, draft.path, draft.raw)
        reason = outcome.reason if isinstance(outcome, Refused) else Reason.ALLOWED
        seen[reason] += 1
        if reason is not Reason.MESSAGE_MALFORMED:
            assert asyncio.run(_explained(draft)) is reason

    each()
    assert len(seen) >= 5, seen


def test_taking_a_grant_away_never_allows_anything() -> None:
    """A revoke that opened something would be found by its user alone."""
    seen: Counter[str] = Counter()

    @given(drafts(), st.sets(st.sampled_from(sorted(ALL_GRANTS)), max_size=4), st.sampled_from(sorted(ALL_GRANTS)))
    def each(draft: Draft, without: set[int], taken: int) -> None:
        more = ALL_GRANTS - without
        before = attempt(draft.who, draft.path, draft.raw, gate_of(frozenset(more)))
        after = attempt(draft.who, draft.path, draft.raw, gate_of(frozenset(more - {taken})))
        if isinstance(before, Refused):
            assert isinstance(after, Refused)
            seen["refused"] += 1
        else:
            seen["lost" if isinstance(after, Refused) else "kept"] += 1
            # What is left is still contained.
            check_signed(before)

    each()
    assert seen["kept"], seen
    assert seen["refused"], seen
