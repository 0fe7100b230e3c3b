"""Say everything that is added to a table's answer so that a stock client has its requests signed.

What each generation reads of an answer; one answer serves all of them, since what one needs another ignores:

* Iceberg Java up to 1.11 goes to `s3.signer.uri` and `s3.signer.endpoint`, and repeats the endpoint's query.
* Iceberg Java from 1.12 goes to the `…/sign` route below its catalog's own `uri`, unless it is given `signer.*`, and
  repeats what `remote-signing-config` holds.
* PyIceberg goes where the older Java does, if `s3.signer` and `py-io-impl` say that it shall sign at all.

An answer differs from the upstream's by what was added to it, and its ETag is marked: with the upstream's own tag, a
client that kept an answer made for other settings, or without signproxy, would go on using that.
"""

from __future__ import annotations

import hashlib
import re
from enum import Enum
from urllib.parse import quote, urlencode

import msgspec

from signproxy.catalog.names import encode_segment
from signproxy.inventory.learned.sighting import TableFacts

DELEGATION_HEADER = "X-Iceberg-Access-Delegation"

_JAVA = "apache iceberg "
_PYICEBERG = "pyiceberg/"


class IcebergClient(Enum):
    """Clients that are answered differently."""

    JAVA = "iceberg-java"
    PYICEBERG = "pyiceberg"
    """Its file systems are told apart by their settings alone: see `SignerGrant`."""
    OTHER = "other"


class Offer(Enum):
    """Who is told how to have requests signed."""

    ON_REQUEST = "on-request"
    """Clients that ask; iceberg-go, for one, refuses a table that offers it."""
    ALWAYS = "always"


def client_of(user_agent: str, client_version: str) -> IcebergClient:
    """Return the client by its `User-Agent` and `X-Client-Version`; PyIceberg sends the latter, too, to no use."""
    if user_agent[: len(_PYICEBERG)].lower() == _PYICEBERG:
        return IcebergClient.PYICEBERG
    if client_version[: len(_JAVA)].lower() == _JAVA:
        return IcebergClient.JAVA
    return IcebergClient.OTHER


SWITCH = "s3.remote-signing-enabled"

SIGNER = {"s3.signer": "S3V4RestSigner", "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
"""PyIceberg's own switch, and the only FileIO of it that signs. Java knows neither."""

IDEMPOTENCY_KEY = "01980000-0000-7000-8000-000000000000"
"""Iceberg 1.12 repeats a sign call over a broken connection or a 5xx only where it has such a key. A signature may be
asked for twice, so one value does for all; a value of its own in each answer would make every answer another one."""

_REQUEST_TIMEOUT = "s3.request-timeout"
_TIMEOUT_SECONDS = 60
_PARTS = 10**12


class SignerGrant(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one caller is told of the signer, for any table of a catalog."""

    mount: str
    """The absolute URL below which the catalog's routes are, final slash included."""
    prefix: str
    """As it stands in a path."""
    client: IcebergClient = IcebergClient.OTHER
    token: str = ""
    """Good for this table alone; empty: the client goes on with its own."""
    context: dict[str, str] = {}
    """What comes back with each sign request; a client cannot be trusted with it, so it is sealed, or its own word."""

    def properties(self, facts: TableFacts) -> dict[str, str]:
        """Return what is added to a table's `config`.

        Never `signer.*`: Iceberg 1.12 would prefer it to the `…/sign` route, and send no context.
        """
        properties = {
            SWITCH: "true",
            **SIGNER,
            "s3.signer.uri": self.mount,
            "s3.signer.endpoint": self._endpoint(facts),
        }
        if self.client is IcebergClient.PYICEBERG:
            properties[_REQUEST_TIMEOUT] = _own_timeout(facts.uuid)
        if self.token:
            properties["token"] = self.token
        return properties

    @property
    def signing_config(self) -> dict[str, object]:
        """The `remote-signing-config` of Iceberg 1.12, which others do not read."""
        return {"properties": self.context, "headers": {"Idempotency-Key": [IDEMPOTENCY_KEY]}}

    def _endpoint(self, facts: TableFacts) -> str:
        """Return the table's sign route: relative, and without a leading slash, which older clients break on."""
        namespace, name = encode_segment(facts.namespace), encode_segment(facts.name)
        endpoint = f"v1/{self.prefix}/namespaces/{namespace}/tables/{name}/sign"
        return f"{endpoint}?{urlencode(self.context, quote_via=quote)}" if self.context else endpoint


def mount_of(public_url: str, catalog: str) -> str:
    """Return the URL below which a catalog's routes are; `public_url` is the operator's, never a Host header's."""
    return f"{public_url.rstrip('/')}/catalogs/{encode_segment(catalog)}/"


def variant_of(grant: SignerGrant | None, *besides: str) -> str:
    """Return what tells answers with this grant from others, for their ETags; its token makes no difference.

    `besides` is everything else that they depend on: the policy's revision, and with a token some time of which it is
    made, so that a client which only asks whether the table changed gets another one before it ends.
    """
    told = None if grant is None else [grant.mount, grant.prefix, grant.client.value, sorted(grant.context.items())]
    return hashlib.sha256(msgspec.json.encode([told, besides])).hexdigest()[:16]


def _own_timeout(uuid: str) -> str:
    """Return a time limit that no other table has: some 60 s.

    fsspec shares a file system among all tables of a process whose settings are equal, and the signer of the table
    that was opened last is then asked for all of them, at its own endpoint.
    """
    part = int.from_bytes(hashlib.sha256(uuid.encode()).digest()[:8], "big") % (_PARTS // 10)
    return f"{_TIMEOUT_SECONDS}.{part + 1:012}"


MAX_TAG = 512
MAX_TAGS = 32
"""Of one header; a client keeps one answer of a table, or a few."""

_TAG = re.compile(r'(?P<weak>W/)?"(?P<opaque>[\x21\x23-\x7e]*)"')
_LIST = re.compile(r'\s*(?P<tag>(?:W/)?"[\x21\x23-\x7e]*")\s*(?:,|$)')
_MARK = ".sp-"


def marked(etag: str, variant: str) -> str | None:
    """Return the ETag of an answer that was made of one with `etag`; None where that is none."""
    found = _TAG.fullmatch(etag) if len(etag) <= MAX_TAG else None
    if found is None:
        return None
    return f'{found["weak"] or ""}"{found["opaque"]}{_MARK}{variant}"'


def unmarked(if_none_match: str, variant: str) -> str | None:
    """Return the `If-None-Match` for the upstream: the tags of answers that would be the same today.

    None where there are none; `*` is one, for it means any answer, those of other settings included.
    """
    tags: list[str] = []
    position = 0
    while position < len(if_none_match) and len(tags) < MAX_TAGS:
        found = _LIST.match(if_none_match, position)
        if found is None:
            return None
        position = found.end()
        end = f'{_MARK}{variant}"'
        if found["tag"].endswith(end):
            tags.append(f'{found["tag"][: -len(end)]}"')
    return ", ".join(tags) or None
