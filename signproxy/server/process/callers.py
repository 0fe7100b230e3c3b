"""Build what tells who calls the S3 listener, from settings, seals and the authenticator."""

from __future__ import annotations

from pathlib import Path

from signproxy.config.s3 import S3Identity, S3Settings
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import EmulatedKeys
from signproxy.identity.pod_caller import PodIdentity, TokenFile
from signproxy.identity.s3_caller import S3Callers
from signproxy.policy.state import PolicyState
from signproxy.server.process.seals import Seals


def emulated_keys(settings: S3Settings, seals: Seals, authenticator: Authenticator) -> EmulatedKeys | None:
    """Return what issues and opens S3 keys; None where no listener would take one."""
    if not settings.enabled or S3Identity.EMULATED not in settings.identities:
        return None
    return EmulatedKeys(seals.s3_keys, seals.s3_secrets, authenticator, settings.keys.max_seconds)


def s3_callers(
    settings: S3Settings, keys: EmulatedKeys | None, authenticator: Authenticator, state: PolicyState
) -> S3Callers:
    """Return what tells the callers of the listener; it remembers keys, and is made anew with each generation."""
    bearer = S3Identity.BEARER in settings.identities
    pod = None
    if S3Identity.POD in settings.identities:
        pod = PodIdentity(
            TokenFile(Path(settings.pod.token_file)), frozenset(settings.pod.uids), authenticator.authenticate
        )
    # Some stores take a signature for any region; one for a region that is not here was made for another service.
    regions = frozenset(storage.region for catalog in state.catalogs.values() for storage in catalog.storages.values())
    return S3Callers(keys, authenticator, bearer=bearer, pod=pod, regions=regions)
