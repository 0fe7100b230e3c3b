"""A client that signs wrongly is told what is wrong in S3's own words, and nothing that may be a secret."""

from __future__ import annotations

from calendar import monthrange

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.s3.codes import s3_answer
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.presented_faults import fault_of_authorization, fault_of_query

SIGNATURE = "a" * 64
CREDENTIAL = "AKID/20260101/us-east-1/s3/aws4_request"
AUTHORIZATION = f"AWS4-HMAC-SHA256 Credential={CREDENTIAL}, SignedHeaders=host;x-amz-date, Signature={SIGNATURE}"
PRESIGNED = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": CREDENTIAL,
    "X-Amz-Date": "20260101T000000Z",
    "X-Amz-Expires": "3600",
    "X-Amz-SignedHeaders": "host",
    "X-Amz-Signature": SIGNATURE,
}


def told(refused: Refused) -> tuple[Fault | None, tuple[str, ...]]:
    return (refused.fault, refused.facts) if isinstance(refused, S3Refused) else (None, ())


@pytest.mark.parametrize(
    ("value", "fault", "facts"),
    (
        ("", Fault.AUTHORIZATION_FORM, ("Authorization", "")),
        ("invalid_header", Fault.AUTHORIZATION_FORM, ("Authorization", "invalid_header")),
        # A token in the wrong place, or a signature that lost its blank.
        ("e" * 33, Fault.AUTHORIZATION_FORM, ("Authorization", "...")),
        ("Basic dXNlcjpzZWNyZXQ=", Fault.AUTHORIZATION_TYPE, ("Authorization", "Basic")),
        ("AWS AKID:signature", Fault.SIGNATURE_VERSION, ()),
        (AUTHORIZATION.replace("-HMAC-", "-ECDSA-P256-"), Fault.AUTHORIZATION_TYPE, None),
        (AUTHORIZATION.replace(", SignedHeaders=host;x-amz-date", ""), Fault.COMPONENTS, ()),
        (AUTHORIZATION + ", a=b", Fault.COMPONENTS, ()),
        (AUTHORIZATION.replace("SignedHeaders=", "SignedHeaders-"), Fault.COMPONENT_FORM, None),
        (AUTHORIZATION.replace(f"Signature={SIGNATURE}", "Sign"), Fault.COMPONENT_FORM, ("Sign",)),
        (AUTHORIZATION.replace(f"Signature={SIGNATURE}", f"Signature=={SIGNATURE}"), Fault.COMPONENT_FORM, ("...",)),
        (AUTHORIZATION.replace("Credential=", "Cred="), Fault.COMPONENT_MISSING, ("Credential",)),
        (AUTHORIZATION.replace("SignedHeaders=", "Headers="), Fault.COMPONENT_MISSING, ("SignedHeaders",)),
        (AUTHORIZATION.replace(" Signature=", " Sig="), Fault.COMPONENT_MISSING, ("Signature",)),
        (AUTHORIZATION.replace("/us-east-1", ""), Fault.CREDENTIAL_FORM, ()),
        (AUTHORIZATION.replace("AKID/", "A/B/"), Fault.CREDENTIAL_FORM, ()),
        (AUTHORIZATION.replace("/s3/", "/ec2/"), Fault.CREDENTIAL_SERVICE, ("ec2",)),
        (AUTHORIZATION.replace("aws4_request", "aws5"), Fault.CREDENTIAL_TERMINAL, ("aws5",)),
        (AUTHORIZATION.replace("20260101", "2026-01-01"), Fault.CREDENTIAL_DATE, ("2026-01-01",)),
        (AUTHORIZATION.replace("20260101", "20260231"), Fault.CREDENTIAL_DATE, ("20260231",)),
        (AUTHORIZATION.replace("20260101", "20261301"), Fault.CREDENTIAL_DATE, ("20261301",)),
        # S3 has no words of its own for these.
        (AUTHORIZATION.replace(SIGNATURE, "short"), None, ()),
        (AUTHORIZATION.replace("host;", "Host;"), None, ()),
    ),
)
def test_a_header_is_told_what_is_wrong_with_it(value: str, fault: Fault | None, facts: tuple[str, ...] | None) -> None:
    """The author of a client would have to guess which of a dozen faults it has."""
    refused = fault_of_authorization(value)
    expected = Reason.SCOPE_MISMATCH if fault is Fault.CREDENTIAL_SERVICE else Reason.AUTHORIZATION_MALFORMED
    assert refused.reason is expected
    found = told(refused)
    assert found[0] is fault
    assert facts is None or found[1] == facts
    answer = s3_answer(refused)
    assert SIGNATURE not in f"{answer} {refused.detail}"


@pytest.mark.parametrize("year", (1900, 2000, 2023, 2024))
@pytest.mark.parametrize("month", range(1, 13))
def test_every_month_has_its_own_last_day(year: int, month: int) -> None:
    """A client would look for a fault in its date that is none, or would not be told of one that is."""
    last = monthrange(year, month)[1]
    for day, fault in ((0, Fault.CREDENTIAL_DATE), (1, None), (last, None), (last + 1, Fault.CREDENTIAL_DATE)):
        value = AUTHORIZATION.replace("20260101", f"{year}{month:02}{day:02}")
        assert told(fault_of_authorization(value))[0] is fault


@pytest.mark.parametrize(
    ("changes", "fault", "facts"),
    (
        ({"X-Amz-Algorithm": "AWS4-ECDSA-P256-SHA256"}, Fault.QUERY_HMAC, ()),
        ({"X-Amz-Algorithm": "AWS4-SHA256"}, Fault.QUERY_ALGORITHM, ()),
        ({"X-Amz-Credential": "AKID"}, Fault.QUERY_CREDENTIAL_FORM, ()),
        ({"X-Amz-Credential": CREDENTIAL.replace("s3", "ec2")}, Fault.QUERY_CREDENTIAL_SERVICE, ("ec2",)),
        ({"X-Amz-Credential": CREDENTIAL.replace("aws4_", "aws_")}, Fault.QUERY_CREDENTIAL_TERMINAL, ("aws_request",)),
        ({"X-Amz-Credential": CREDENTIAL.replace("2026", "26")}, Fault.QUERY_CREDENTIAL_DATE, ("260101",)),
        ({"X-Amz-Date": "03032006"}, Fault.QUERY_DATE, ()),
        ({"X-Amz-Expires": "hundred"}, Fault.QUERY_EXPIRES_NUMBER, ()),
        ({"X-Amz-Expires": ""}, Fault.QUERY_EXPIRES_NUMBER, ()),
        ({"X-Amz-Expires": "-1"}, Fault.QUERY_EXPIRES_NEGATIVE, ()),
        ({"X-Amz-Expires": "604801"}, Fault.QUERY_EXPIRES_LATE, ()),
        ({"X-Amz-Expires": "9" * 5000}, Fault.QUERY_EXPIRES_LATE, ()),
        ({"X-Amz-Expires": "+0"}, None, ()),
        ({"X-Amz-Signature": "short"}, None, ()),
    ),
)
def test_a_presigned_url_is_told_what_is_wrong_with_it(
    changes: dict[str, str], fault: Fault | None, facts: tuple[str, ...]
) -> None:
    """A URL that does not work is in the hands of a user who did not make it."""
    assert told(fault_of_query({**PRESIGNED, **changes})) == (fault, facts)


@given(st.text(alphabet="AWS4-HMAC-SHA256 Credential=,/;Signature%{}", max_size=120))
def test_no_header_ends_in_an_error(text: str) -> None:
    """A caller that is not known yet must not be able to fill the log with traces."""
    for value in (text, f"AWS4-HMAC-SHA256 {text}", AUTHORIZATION.replace("AKID", text)):
        answer = s3_answer(fault_of_authorization(value))
        assert 400 <= answer.status < 500
