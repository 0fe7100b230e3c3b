"""Rewrite the answers that describe a table: facts are read, keys taken out, and what a signing client needs put in.

`metadata` is the table's own and passes byte for byte; two levels of it are looked at, and none is decoded.

`read-restrictions` tells whether the upstream keeps rows or columns of a table from the caller that asked. It stands in
the answers to load, create and register. An object without a row filter and without projections restricts nothing, as
if it were not there, and so does a filter that is always true. What is not known to restrict nothing restricts: a
member of a later specification, another type, a filter that cannot be read.
"""

from __future__ import annotations

import re
from typing import NoReturn

import msgspec
from msgspec import Raw

from signproxy.catalog.client_properties import StoreAddress, passed
from signproxy.catalog.json_object import JsonInvalid, Members, Value, member, read_members, read_object, read_string
from signproxy.catalog.signer_grant import SWITCH, SignerGrant
from signproxy.catalog.storage_credential import StorageCredential
from signproxy.errors import Reason, Refused
from signproxy.inventory.declared.catalog_draft import LOCATION_PROPERTIES
from signproxy.inventory.learned.sighting import TableFacts

RESTRICTIONS = "read-restrictions"

_SPACE = re.compile(rb"[ \t\r\n]+")
_LONGEST = 64
"""Bytes of what restricts nothing, with white space; what is longer is not looked at."""

_NOTHING = {
    "required-column-projections": frozenset({b"null", b"[]"}),
    "required-row-filter": frozenset({b"null", b"true", b'{"type":"true"}'}),
}
_ABSENT = frozenset({b"null"})


def restricts(members: Members) -> bool:
    """Whether an answer restricts what its reader may see of the table."""
    for name, value in members.values.items():
        if name.casefold() != RESTRICTIONS or value is None:
            continue
        if name != RESTRICTIONS or not isinstance(value, dict):
            return True
        for inner, raw in value.items():
            text = bytes(raw)
            if len(text) > _LONGEST or _SPACE.sub(b"", text) not in _NOTHING.get(inner, _ABSENT):
                return True
    return False


_METADATA = "metadata"
_METADATA_LOCATION = "metadata-location"
_CONFIG = "config"

MAX_UUID = 64

_encode = msgspec.json.Encoder(order="deterministic").encode


Pieces = tuple[bytes | memoryview, ...]
"""An answer in pieces: its metadata may have megabytes, and is not copied."""


class TableAnswer:
    """A load, create, register, stage-create or commit answer of the upstream, not yet passed on."""

    __slots__ = ("_config", "_members", "facts", "restricted")

    def __init__(self, members: Members, config: dict[str, str], facts: TableFacts) -> None:
        """`config` is what passes of the upstream's."""
        self._members = members
        self._config = config
        self.facts = facts
        self.restricted = restricts(members)
        """Whether the upstream keeps rows or columns of the table from the caller."""

    def with_grant(
        self, store: StoreAddress | None, grant: SignerGrant | None, vended: StorageCredential | None = None
    ) -> Pieces:
        """Return the answer for a caller who is told of the signer, gets keys, or neither of it.

        The store is named in any case: where it is, the upstream is not believed. `config` is never empty, or Iceberg
        1.12 would use its catalog's FileIO, which knows no table to sign for.
        """
        config = dict(self._config)
        if store is not None and vended is None:
            # Keys name their store themselves, which may be the listener, and is then reached in another style.
            config |= store.properties
        if grant is not None:
            config |= grant.properties(self.facts)
        elif vended is not None:
            # Some clients read the keys here alone, and one that was set up to have its requests signed has keys now.
            config |= {**vended.config, SWITCH: "false"}
        elif store is None:
            config[SWITCH] = "false"
        head, metadata = self._own()
        tail: list[bytes | memoryview] = [b',"config":', _encode(config)]
        if vended is not None:
            tail += [b',"storage-credentials":', _encode([vended])]
        restrictions = self._members.raw(RESTRICTIONS)
        if restrictions is not None:
            # What the upstream wants its readers to leave out is not for a proxy to lift.
            tail += [b',"read-restrictions":', restrictions]
        if grant is not None:
            tail += [b',"remote-signing-config":', _encode(grant.signing_config)]
        return head, metadata, b"".join([*tail, b"}"])

    def of_commit(self) -> Pieces:
        """Return the answer to a commit, which holds the table and nothing else."""
        return *self._own(), b"}"

    def _own(self) -> tuple[bytes, memoryview]:
        """Return what is the table's own: what comes before its metadata, and that as it stands in the answer."""
        metadata = self._members.raw(_METADATA)
        assert metadata is not None  # noqa: S101 - the facts were read from it
        location = self._members.raw(_METADATA_LOCATION)
        if location is None:
            return b'{"metadata":', metadata
        return b"".join([b'{"metadata-location":', location, b',"metadata":']), metadata


def read_table(content: bytes, namespace: str, name: str) -> TableAnswer:
    """Return an upstream's answer with a table of this name. Raise Refused (UPSTREAM_INVALID)."""
    try:
        members = read_members(content)
        metadata = _object(members.values.get(_METADATA), _METADATA)
        config = passed(_object(members.values.get(_CONFIG), _CONFIG))
        location = members.values.get(_METADATA_LOCATION)
        if not isinstance(location, str | None):
            _invalid("metadata-location is no text")
        facts = TableFacts(
            namespace=namespace,
            name=name,
            uuid=_text(metadata, "table-uuid"),
            location=_text(metadata, "location"),
            properties=_locations(metadata),
            metadata_location=location or "",
        )
        if len(facts.uuid) > MAX_UUID or not facts.uuid.isprintable():
            _invalid("table-uuid is none")
    except JsonInvalid as invalid:
        raise Refused(Reason.UPSTREAM_INVALID, f"a table's answer: {invalid}") from None
    return TableAnswer(members, config, facts)


def _locations(metadata: dict[str, Raw]) -> dict[str, str]:
    properties = member(metadata, "properties")
    given = {} if properties is None else read_object(properties)
    names = [name for name in LOCATION_PROPERTIES if name in given and member(given, name) is not None]
    return {name: read_string(given[name]) for name in names}


def _text(metadata: dict[str, Raw], name: str) -> str:
    value = metadata.get(name)
    text = "" if value is None else read_string(value)
    if not text:
        _invalid(f"no {name!r}")
    return text


def _object(value: Value, name: str) -> dict[str, Raw]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        _invalid(f"{name} is no object")
    return value


def _invalid(problem: str) -> NoReturn:
    raise JsonInvalid(problem)
