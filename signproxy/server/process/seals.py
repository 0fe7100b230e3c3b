"""Turn the secrets of the settings into what seals and opens what clients carry."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from signproxy.catalog.carried import Contexts
from signproxy.config.settings import ContextSettings
from signproxy.documents import child
from signproxy.errors import Finding, SettingsInvalid
from signproxy.identity.table_token import TableTokens
from signproxy.sealing import Deriver, Marker, Purpose, Sealer, SealingSecret
from signproxy.server.process.named_files import each_of, secret_of


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
    named = ((child("context.secret_files", index), file) for index, file in enumerate(settings.secret_files))
    return each_of(_secret, named)


def _secret(path: str, file: str) -> SealingSecret:
    content = secret_of(path, file)
    try:
        return SealingSecret(content)
    except SettingsInvalid as invalid:
        found = [Finding("", path, f"{file!r} {finding.problem}") for finding in invalid.findings]
        raise SettingsInvalid(found) from None
