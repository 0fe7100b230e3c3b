"""What the settings say of session services is what these are asked with, for the storages that the policy has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from signproxy.config.settings import Settings
from signproxy.credentials.store import CredentialStore
from signproxy.errors import Reason, Refused
from signproxy.policy.catalog import Catalog
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import OptIns, Storage, StorageKind
from signproxy.server.process.vendors import keyless, session_vendor, source_of, unusable_services
from signproxy.vending.policy_language import PolicyLanguage
from tests.vending.scopes import scope

ROLE = "arn:aws:iam::123456789012:role/lake"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/6f1a3c5e-0000-4000-8000-000000000001"


def storage(name: str, kind: StorageKind = StorageKind.AWS, *keys: str) -> Storage:
    return Storage(name, kind, "eu-west-1", ("lake",), (), opt_ins=OptIns(kms_keys=keys))


def state(*storages: Storage) -> PolicyState:
    catalog = Catalog("lake", storages={each.name: each for each in storages})
    return PolicyState(rev="r1", epoch=1, catalogs={"lake": catalog})


def settings(**sts: Any) -> Settings:
    storages = {"lake": {"credentials": "main", "hosts": ["aws"], "sts": sts}}
    return msgspec.convert({"storages": storages}, Settings)


def test_every_setting_reaches_the_service() -> None:
    """A setting that is read and lost would look as if it were in force."""
    found = source_of(
        storage("lake"),
        settings(
            role=ROLE,
            external_id="xx",
            duration_seconds=900,
            region="eu-central-1",
            endpoint="https://sts.example",
            web_identity_token_file="token",
            tags={"a": "b"},
            source_identity=True,
            policy_variables=True,
            policy_case=True,
            policy_denies_sts=False,
            policy_prefix=True,
            never_beyond_token=True,
        )
        .storages["lake"]
        .sts,
    )
    assert msgspec.structs.asdict(found) == {
        "storage": storage("lake"),
        "role": ROLE,
        "external_id": "xx",
        "seconds": 900,
        "region": "eu-central-1",
        "endpoint": "https://sts.example",
        "web_identity_token_file": Path("token"),
        "tags": (("a", "b"),),
        "source_identity": True,
        "language": PolicyLanguage(),
    }


def test_what_the_operator_says_of_another_store_is_believed() -> None:
    """By default it is taken for one that knows nothing of what is needed."""
    other = storage("lake", StorageKind.S3_COMPATIBLE)
    strict = source_of(other, settings(role=ROLE).storages["lake"].sts).language
    assert strict == PolicyLanguage(escapes=False, tells_case=False, judges_prefix=False)
    said = settings(role=ROLE, policy_variables=True, policy_case=True, policy_denies_sts=False, policy_prefix=True)
    assert source_of(other, said.storages["lake"].sts).language == PolicyLanguage(denies_sessions=False)


async def test_a_storage_without_a_role_has_no_sessions() -> None:
    """Its own keys are not handed out in their place."""
    for given in (settings(), settings(role=ROLE)):
        vendor = session_vendor(given, state(storage("lake"), storage("other")), CredentialStore())
        with pytest.raises(Refused) as caught:
            await vendor.vend(scope(storage="other"))
        assert caught.value.reason is Reason.SCOPE_NOT_VENDABLE
        assert vendor.storages == ({"lake"} if given.storages["lake"].sts.role else set())
        # Bound to no credentials here; that is asked only where there is a role.
        with pytest.raises(Refused) as caught:
            await vendor.vend(scope())
        expected = Reason.CREDENTIALS_UNAVAILABLE if given.storages["lake"].sts.role else Reason.SCOPE_NOT_VENDABLE
        assert caught.value.reason is expected


def test_another_store_without_an_endpoint_is_refused() -> None:
    """Its keys would be shown to Amazon."""
    other = state(storage("lake", StorageKind.S3_COMPATIBLE))
    assert [finding.path for finding in unusable_services(other, settings(role=ROLE))] == ["storages.lake.sts.endpoint"]
    assert not list(unusable_services(other, settings(role=ROLE, endpoint="https://store.example")))
    assert not list(unusable_services(other, settings()))
    assert not list(unusable_services(state(storage("lake")), settings(role=ROLE)))


def test_a_kms_key_that_no_policy_can_name_is_told_of() -> None:
    """Signed requests may use it, vended keys may not: jobs would fail with the one and not the other."""
    for names, told in (((KEY,), []), ((KEY, "alias/lake"), ["storages.lake.sts"])):
        assert [
            found.where[1] for found in keyless(state(storage("lake", StorageKind.AWS, *names)), settings(role=ROLE))
        ] == told
