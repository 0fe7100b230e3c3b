"""Run a public S3 test suite against a store and through signproxy: what passes there passes here."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import LISTED, Doors
from tests.e2e.forward.door import Door, run_door, storage_of, volume_policy
from tests.e2e.forward.full_flow import Flow, run_all, run_cases
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.stores import SWIFT, VERSITYGW, RunningStore, StoreKind
from tests.e2e.stores.contents import buckets_of, objects_of, parse, uploads_of
from tests.e2e.stores.direct import Owner
from tests.e2e.stores.install import VERSITYGW_VERSION
from tests.e2e.stores.minio import MINIO

CLIENT = "versitygw test full-flow"

_ACCOUNT = "it expects its own access key to be an account of the store, as an owner or in a bucket's policy"
_ADMIN = "the store's own administration, which is no S3"
_FIRST = "of two faults the other one is told, or the same refusal in other words: it stops at the first byte"
_FORM = "a form of a browser carries its signature in the body: without one in the head no request is served"
_CODE = "it expects the code `400`, which is none of S3's: a refusal names the rule that a key breaks"
_PADDED = "a dot segment with blanks around it, which some stores trim"
_STRICTER = "S3 itself refuses what this store takes"
_UNSIGNED = "an unsigned request: only callers that are known are served"
_UPLOAD = "an upload's id is sealed to its key: a foreign one is refused before the store is asked"

# What no proxy that has keys of its own can answer as the store does, or must not, and why.
OWN = {
    name: why
    for why, names in {
        _ACCOUNT: """
            CreateBucket_default_acl CreateBucket_private_canned_acl
            CreateBucket_private_canned_acl_bucket_owner_enforced_ownership
            DeleteObjectTagging_expected_bucket_owner DeleteObject_expected_bucket_owner
            GetBucketAcl_translation_canned_private GetBucketAcl_translation_canned_public_read
            GetBucketAcl_translation_canned_public_read_write ListBuckets_success ListBuckets_truncated
            ListBuckets_with_prefix PutBucketAcl_invalid_acl_acp_and_grants
            PutBucketAcl_invalid_acl_canned_and_grants PutBucketPolicy_version
            PutObjectRetention_shorten_compliance_denied PutObjectRetention_shorten_governance_with_bypass
            WORMProtection_object_lock_retention_governance_bypass_overwrite_copy
            WORMProtection_object_lock_retention_governance_bypass_overwrite_mp
            WORMProtection_object_lock_retention_governance_bypass_overwrite_put
            WORMProtection_root_bypass_governance_retention_delete_object
        """,
        _ADMIN: """
            IAM_CreateBucket_empty_owner_header IAM_CreateBucket_non_existing_user
        """,
        _CODE: """
            PutObject_invalid_object_names
        """,
        _FIRST: """
            Server_large_http_header UnsignedStreamingPayloadTrailer_incomplete_body
            UploadPartCopy_non_existing_bucket
        """,
        _FORM: """
            PostObject_access_denied PostObject_checksums_success PostObject_default_content_type
            PostObject_expired_due_to_date PostObject_incorrect_region PostObject_invalid_algorithm
            PostObject_invalid_checksum_algorithm PostObject_invalid_checksum_value PostObject_invalid_content_type
            PostObject_invalid_credential_format PostObject_invalid_date PostObject_invalid_object_names
            PostObject_invalid_policy_document PostObject_invalid_tagging
            PostObject_invalid_website_redirect_location PostObject_missing_boundary
            PostObject_multiple_checksum_headers PostObject_partial_auth_fields PostObject_policy_access_control
            PostObject_policy_condition_key_mismatch PostObject_policy_content_length_too_large
            PostObject_policy_content_length_too_small PostObject_policy_expired PostObject_policy_extra_field
            PostObject_policy_missing_bucket_condition PostObject_should_ignore_anything_after_file
            PostObject_signature_mismatch PostObject_success PostObject_success_double_dash_boundary
            PostObject_success_status_200 PostObject_success_status_201 PostObject_success_with_meta_properties
            PostObject_success_with_tagging
        """,
        _PADDED: """
            PutObject_false_negative_object_names
        """,
        _STRICTER: """
            DeleteObjects_empty_input
        """,
        _UNSIGNED: """
            GetObject_overrides_fail_public HeadObject_overrides_fail_public PreflightOPTIONS_access_forbidden
            PreflightOPTIONS_access_granted PreflightOPTIONS_invalid_request_headers
            PreflightOPTIONS_invalid_request_method PreflightOPTIONS_missing_origin
            PreflightOPTIONS_non_existing_bucket PreflightOPTIONS_unset_bucket_cors
            PublicBucket_default_private_bucket PublicBucket_incorrect_sha256_hash
            PublicBucket_policy_deny_overrides_public_acl PublicBucket_public_acl PublicBucket_public_bucket_policy
            PublicBucket_public_object_policy PublicBucket_signed_streaming_payload RouterCopySourceNotAllowed
            RouterGetUploadsWithKey RouterListVersionsWithKey RouterPUTObjectOnlyUploadId
            RouterPostObjectWithoutQuery RouterPostRoot RouterPutPartNumberWithoutUploadId
        """,
        _UPLOAD: """
            AbortMultipartUpload_non_existing_bucket CompletedMultipartUpload_non_existing_bucket
            ListMultipartUploads_delimiter_truncated UploadPart_non_existing_bucket
        """,
    }.items()
    for name in names.split()
}

BUCKETS = "test-bucket-"
"""What the suite calls its buckets."""

OPEN = (f"{BUCKETS}*", "my-prefix-*", "bucket*", "incorrect-*", "invalid-*", "new-*", "non-*", "src*")
"""The buckets of the volumes: those that it makes, and those that it asks for where there are none."""

MAX_SUSPECTS = 250

ROUNDS = 4
"""How often a suspect is run alone before it counts as lost.

The store sorts uploads of one key by the time of their directory, which its kernel counts in ticks: two uploads
within a tick are listed in either order, and the case that compares the order fails by chance, direct as well.
"""

_GROUP = re.compile("[A-Za-z]+")


@contextmanager
def _conformance_door(directory: Path, store: RunningStore) -> Iterator[Door]:
    """Open a door to every bucket that the suite makes."""
    policy = volume_policy(storage_of(store, [LISTED]), OPEN)
    with run_door(directory, store, policy) as door:
        yield door


def _purge(owner: Owner) -> None:
    """Remove what cases have left behind: the next one of that name could not make its bucket."""
    for bucket in (name for name in buckets_of(owner) if name.startswith(BUCKETS)):
        for upload in uploads_of(owner, bucket):
            owner.ask("DELETE", f"{bucket}/{upload.key}", f"uploadId={upload.upload_id}")
        for found in objects_of(owner, bucket):
            owner.ask("DELETE", f"{bucket}/{found.key}")
        versions = owner.ask("GET", bucket, "versions=")
        for element in parse(versions.body).iter() if versions.ok else ():
            version = element.findtext("VersionId")
            if element.tag in ("Version", "DeleteMarker") and version:
                locked = {"x-amz-bypass-governance-retention": "true"}
                owner.ask("DELETE", f"{bucket}/{element.findtext('Key')}", f"versionId={version}", headers=locked)
        owner.ask("DELETE", bucket)


def _regressions(direct: Flow, through: Flow) -> dict[str, str]:
    lost = direct.passed - through.passed - OWN.keys()
    return {name: through.failed.get(name, "not run") for name in sorted(lost)}


def _confirmed(
    owner: Owner, endpoints: tuple[Endpoint, Endpoint], home: Path, suspects: Mapping[str, str]
) -> dict[str, str]:
    """Return those that pass direct and never through when each is run alone: side by side, some disturb each other."""
    lost = dict(suspects)
    # So many do not disturb each other: something else is wrong, and each would tell the same.
    if len(lost) > MAX_SUSPECTS:
        return lost
    for _ in range(ROUNDS):
        if lost:
            direct, through = (run_cases(endpoint, home, lost, partial(_purge, owner)) for endpoint in endpoints)
            lost = _regressions(direct, through)
    return lost


def _record(matrix: Matrix, store: RunningStore, direct: Flow, lost: Collection[str]) -> None:
    """Write one row for each group of cases."""
    groups = {_GROUP.match(name)[0] for name in direct.passed}  # type: ignore[index]  # each begins with letters
    for group in sorted(groups):
        failed = [name for name in lost if _GROUP.match(name)[0] == group]  # type: ignore[index]  # see above
        row = Row(CLIENT, VERSITYGW_VERSION, store.name, store.version, group, way="through the S3 listener")
        with matrix.row(row._replace(outcome=Outcome.FAILED) if failed else row):
            pass


@pytest.mark.ci
def test_versitygw_keeps_every_pass(doors: Doors, matrix: Matrix, tmp_path: Path) -> None:
    """Each case that is lost is something that a user's client does and then cannot."""
    store = doors.store(VERSITYGW)
    with closing(Owner(store)) as owner, _conformance_door(tmp_path / "door", store) as door:
        endpoints = (Endpoint.direct(store), door.endpoint_without_token())
        flows = []
        for endpoint in endpoints:
            _purge(owner)
            flows.append(run_all(endpoint, tmp_path / "home"))
        direct, through = flows
        assert not direct.crashed
        assert len(direct.passed) > 600
        assert not through.crashed
        lost = _confirmed(owner, endpoints, tmp_path / "home", _regressions(direct, through))
        _record(matrix, store, direct, lost)
    assert not lost, _told(lost, direct)


@pytest.mark.parametrize("kind", (SWIFT, MINIO), ids=str)
def test_other_stores_keep_every_pass(doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind) -> None:
    """What is fitted to one store breaks in front of the next."""
    names = run_all(Endpoint.direct(doors.store(VERSITYGW)), tmp_path / "home").names
    flows: dict[str, Flow] = {}
    lost: dict[str, str] = {}
    # Each in a store of its own: what one run has locked, cannot be removed for the other.
    for side in ("direct", "through"):
        (tmp_path / side).mkdir()
        with kind.run(tmp_path / side) as store, closing(Owner(store)) as owner, ExitStack() as stack:
            endpoint = Endpoint.direct(store)
            if side == "through":
                endpoint = stack.enter_context(_conformance_door(tmp_path / "door", store)).endpoint_without_token()
            flows[side] = run_cases(endpoint, tmp_path / "home", names, partial(_purge, owner))
            if side == "through":
                suspects = _regressions(flows["direct"], flows[side])
                lost = _confirmed(owner, (Endpoint.direct(store), endpoint), tmp_path / "home", suspects)
                _record(matrix, store, flows["direct"], lost)
    assert len(flows["direct"].passed) > 100
    assert not lost, _told(lost, flows["direct"])


def _told(lost: dict[str, str], direct: Flow) -> str:
    return "\n".join((f"{len(lost)} of {len(direct.passed)} lost", *(f"{name}: {why}" for name, why in lost.items())))
