"""Declare what clients carry for signproxy and bring back, and the secrets that it is sealed with."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]


class ContextSettings(msgspec.Struct, frozen=True):
    """What signproxy gives its clients to carry: sealed, so that no other party can read it or change it."""

    secret_files: Annotated[
        tuple[Text, ...],
        Meta(
            description="Secrets of at least 32 bytes, in files: the first one seals, each of them opens. Sidecars "
            "that serve the same clients share them. Without one, a random secret lasts as long as the process.",
            extra={"path": True},
        ),
    ] = ()
    table_tokens: Annotated[
        bool,
        Meta(
            description="Hand out tokens that are good for one table, in the table's configuration. Iceberg Java uses "
            "them in place of the caller's own until they end, and cannot renew them; PyIceberg ignores them."
        ),
    ] = False
    table_token_seconds: Annotated[
        int,
        Meta(ge=60, le=7 * 86_400, description="How long a table token lives, if the caller's own lives as long."),
    ] = 12 * 3_600
    staged_seconds: Annotated[
        int,
        Meta(
            ge=60,
            le=86_400,
            description="How long files are signed for a table that a client has begun to create and not committed.",
        ),
    ] = 86_400
