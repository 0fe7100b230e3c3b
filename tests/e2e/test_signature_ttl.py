"""Prove on strict stores that a signature ends when the setting says."""

from __future__ import annotations

import pytest

from tests.e2e.ending import EndingSignatures
from tests.e2e.stores.direct import code_of

pytestmark = pytest.mark.ci


def test_a_signature_is_taken_until_its_end_and_no_longer(ending_signatures: EndingSignatures) -> None:
    """A revoke is complete when the last signature has ended: the operator must be able to say when that is."""
    outcomes = ending_signatures.outcomes()
    assert outcomes.keys() == {"versitygw", "swift"}
    for store, (at_once, just_before, just_after) in outcomes.items():
        assert at_once.body == just_before.body == b"content", store
        assert (just_after.status, code_of(just_after)) == (403, "RequestTimeTooSkewed"), store
