"""Turn the secrets of the settings into what seals and opens what clients carry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from signproxy.catalog.carried import Contexts
from signproxy.config.context import ContextSettings
from signproxy.documents import child
from signproxy.documents.files import read_together
from signproxy.errors import Finding, SettingsInvalid
from signproxy.identity.table_token import TableTokens
from signproxy.sealing import Deriver, Marker, Purpose, Sealer, SealingSecret

MAX_SECRET_BYTES = 64 * 1024
"""Larger than any secret; a wrong path must not read a disk image into memory."""


class Seals(msgspec.Struct, frozen=True):
    """What seals and opens, by purpose."""

    contexts: Contexts
    table_tokens: TableTokens | None
    """None where they are switched off."""
    s3_keys: Sealer
    s3_secrets: Deriver
    upload_ids: Marker
    sightings: Sealer


def seals_of(settings: ContextSettings, secrets: Sequence[SealingSecret], own: SealingSecret) -> Seals:
    """Return what seals with the operator's secrets, or with the server's own where there are none."""
    sealing = secrets or (own,)
    table_tokens = None
    if settings.table_tokens:
        table_tokens = TableTokens(Sealer(sealing, Purpose.TABLE_TOKEN), settings.table_token_seconds)
    return Seals(
        contexts=Contexts(Sealer(sealing, Purpose.CONTEXT), settings.staged_seconds),
        table_tokens=table_tokens,
        s3_keys=Sealer(sealing, Purpose.S3_KEY),
        s3_secrets=Deriver(sealing, Purpose.S3_SECRET),
        upload_ids=Marker(sealing, Purpose.UPLOAD_ID),
        sightings=Sealer(sealing, Purpose.SIGHTINGS),
    )


def secrets_of(settings: ContextSettings) -> tuple[SealingSecret, ...]:
    """Return the operator's secrets; raise SettingsInvalid with every fault of each of them."""
    secrets: list[SealingSecret] = []
    findings: list[Finding] = []
    for index, file in enumerate(settings.secret_files):
        path = child("context.secret_files", index)
        try:
            # A newline that an editor added is not part of a secret.
            secrets.append(SealingSecret(read_together((Path(file),), limit=MAX_SECRET_BYTES)[0].rstrip(b"\r\n")))
        except OSError as error:
            findings.append(Finding("", path, f"{file!r} cannot be read: {error.strerror}"))
        except SettingsInvalid as invalid:
            findings += [Finding("", path, f"{file!r} {finding.problem}") for finding in invalid.findings]
    if findings:
        raise SettingsInvalid(findings)
    return tuple(secrets)


def secrets_digest(secrets: Iterable[SealingSecret]) -> str:
    """Return what tells these secrets from others, so that workers know that they read the same. Not for logs."""
    digest = hashlib.sha256()
    for secret in secrets:
        digest.update(hashlib.sha256(secret.reveal()).digest())
    return digest.hexdigest()
