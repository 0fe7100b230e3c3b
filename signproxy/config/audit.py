"""Declare how segments of the audit trail are made, and where sealed ones are shipped to."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from signproxy.errors import nearest


class AuditFsync(Enum):
    """When what was written is made to survive a crash of the machine."""

    REQUEST = "request"
    INTERVAL = "interval"


class ShipSettings(msgspec.Struct, frozen=True):
    """Where sealed segments are uploaded to, with signproxy's own credentials; nowhere, where no bucket is named."""

    storage: Annotated[
        str, Meta(description="A storage of the policy's catalogs, which `storages` binds to credentials.")
    ] = ""
    bucket: Annotated[
        str,
        Meta(
            description="The bucket, to which only signproxy should write. Sealed segments go nowhere if it is empty."
        ),
    ] = ""
    prefix: Annotated[str, Meta(description="What stands before `audit/v1/…` in the keys; none, or ends with `/`.")] = (
        ""
    )
    ca_file: Annotated[
        str, Meta(description="Certificate authorities (PEM) to trust instead of the system's.", extra={"path": True})
    ] = ""
    at_end_seconds: Annotated[
        float,
        Meta(
            ge=0, le=300, description="For the last segments after SIGTERM; what is left is shipped by the next start."
        ),
    ] = 5.0

    @property
    def wanted(self) -> bool:
        """Whether anything is shipped."""
        return bool(self.bucket)

    def faults(self, storages: Iterator[str] | tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield key and problem of everything that contradicts itself."""
        known = tuple(storages)
        if not self.wanted:
            for name, value in (("storage", self.storage), ("prefix", self.prefix), ("ca_file", self.ca_file)):
                if value:
                    yield name, "has no effect without a bucket"
            return
        if not self.storage:
            yield "storage", "this key is missing; `bucket` needs it"
        elif self.storage not in known:
            yield "storage", f"storages binds no {self.storage!r}{nearest(self.storage, known)}"
        if self.prefix and not _is_prefix(self.prefix):
            yield "prefix", f"{self.prefix!r} has to end with a slash, without empty or dot segments, in plain letters"


def _is_prefix(prefix: str) -> bool:
    segments = prefix.removesuffix("/").split("/")
    plain = prefix.isascii() and prefix.isprintable()
    return prefix.endswith("/") and plain and not {"", ".", ".."} & set(segments)
