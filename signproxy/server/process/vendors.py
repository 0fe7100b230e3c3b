"""Make what hands out sessions of the storages whose settings say how."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from signproxy.config.settings import Settings
from signproxy.config.storage import Vend
from signproxy.config.sts import StsSettings
from signproxy.credentials.store import CredentialStore
from signproxy.diagnosis import Diagnosis, advised
from signproxy.documents import path_of
from signproxy.errors import Finding
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage, StorageKind
from signproxy.vending.mints import SessionVendor
from signproxy.vending.policy_language import language_of
from signproxy.vending.scope import KnownPlaces
from signproxy.vending.session_policy import key_arn
from signproxy.vending.sts import SessionService, SessionSource
from signproxy.vending.vending import Minting


def session_vendor(settings: Settings, state: PolicyState, credentials: CredentialStore) -> SessionVendor:
    """Return the vendor of a generation; of storages that have no role it has no sessions."""
    return SessionVendor(
        {
            storage.name: SessionService(source_of(storage, sts), credentials)
            for storage, sts in _set_up(settings, state)
        }
    )


def minting_of(
    settings: Settings, state: PolicyState, credentials: CredentialStore, known: KnownPlaces
) -> Minting | None:
    """Return what has stores make keys; None where the settings have none make any."""
    minted = {name: binding.sts for name, binding in settings.storages.items() if binding.vend is Vend.STS}
    if not minted:
        return None
    bound = frozenset(name for name, sts in minted.items() if sts.never_beyond_token)
    return Minting(session_vendor(settings, state, credentials), frozenset(minted), known, bound)


def unusable_services(state: PolicyState, settings: Settings) -> Iterator[Finding]:
    """Yield what keeps a storage of the policy from having sessions, although a role is set."""
    for storage, sts in _set_up(settings, state):
        if storage.kind is not StorageKind.AWS and not sts.endpoint:
            problem = "this key is missing; Amazon's session service knows no keys of another store"
            yield Finding("", path_of("storages", storage.name, "sts", "endpoint"), problem)


def keyless(state: PolicyState, settings: Settings) -> Iterator[Diagnosis]:
    """Yield the KMS keys that vended keys cannot use."""
    for storage, _ in _set_up(settings, state):
        names = [name for name in storage.opt_ins.kms_keys if not key_arn(name)]
        if names:
            problem = f"sessions cannot use the KMS key {names[0]!r}: a policy needs its ARN"
            yield advised(path_of("storages", storage.name, "sts"), problem)


def _set_up(settings: Settings, state: PolicyState) -> Iterator[tuple[Storage, StsSettings]]:
    storages = {name: storage for catalog in state.catalogs.values() for name, storage in catalog.storages.items()}
    for name, storage in storages.items():
        binding = settings.storages.get(name)
        if binding is not None and binding.sts.role:
            yield storage, binding.sts


def source_of(storage: Storage, sts: StsSettings) -> SessionSource:
    """Return how sessions of a storage are asked for."""
    return SessionSource(
        storage=storage,
        role=sts.role,
        external_id=sts.external_id,
        seconds=sts.duration_seconds,
        region=sts.region,
        endpoint=sts.endpoint,
        web_identity_token_file=Path(sts.web_identity_token_file) if sts.web_identity_token_file else None,
        tags=tuple(sts.tags.items()),
        source_identity=sts.source_identity,
        language=language_of(
            storage,
            escapes=sts.policy_variables,
            tells_case=sts.policy_case,
            denies_sessions=sts.policy_denies_sts,
            judges_prefix=sts.policy_prefix,
        ),
    )
