"""Put together the request that `explain` is asked about, from options and a request file."""

from __future__ import annotations

import argparse
import math
from typing import Annotated

import msgspec
from msgspec import Meta

from signproxy.cli.terminal import read_input
from signproxy.config.settings import Settings
from signproxy.documents import decode, load_yaml
from signproxy.errors import Finding, Invalid, Refused, nearest
from signproxy.identity.opaque import STATIC_ISSUER
from signproxy.model import BY_LOCATION, NAMESPACE_SEPARATOR, NamedTable, Principal, Target
from signproxy.policy.state import PolicyState
from signproxy.s3.forward_wire import ForwardWire
from signproxy.s3.request import WireRequest
from signproxy.s3.uri import split_uri

_TO_BE_FORWARDED = "s3://"

MAX_REQUEST_BYTES = 5 * 1024 * 1024
"""What the server takes at most."""

Text = Annotated[str, Meta(min_length=1)]


class ExplainRequest(msgspec.Struct, frozen=True):
    """A request as a file names it: a client's sign request, and who sends it where."""

    uri: Text
    principal: Text
    method: Text = "GET"
    roles: tuple[Text, ...] = ()
    catalog: Text | None = None
    prefix: Text | None = None
    namespace: Text | tuple[Text, ...] | None = None
    """Levels joined by dots, or a list where a level holds a dot itself."""
    table: Text | None = None
    region: str = ""
    headers: dict[str, str | tuple[str, ...]] = {}
    body: str | None = None
    provider: str | None = None
    properties: dict[str, str | None] | None = None
    """Both are what clients send along; no check depends on them."""

    def __post_init__(self) -> None:
        if (self.table is None) is not (self.namespace is None):
            raise ValueError("namespace and table go together; without both, the table is found by location")
        if self.forwarded and (self.catalog or self.prefix or self.table):
            raise ValueError("a request to the S3 listener names no catalog and no table; they are found by location")

    @property
    def forwarded(self) -> bool:
        """Whether it is asked of the S3 listener: `s3://bucket/key` names neither catalog nor store."""
        return self.uri.startswith(_TO_BE_FORWARDED)

    @property
    def target(self) -> Target:
        """The table that the route names, or none."""
        if self.table is None or self.namespace is None:
            return BY_LOCATION
        levels = self.namespace.split(".") if isinstance(self.namespace, str) else self.namespace
        return NamedTable(NAMESPACE_SEPARATOR.join(levels), self.table)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the parts of a request; each wins over the same part of --request."""
    parts = parser.add_argument_group("the request")
    parts.add_argument("--request", metavar="FILE", help="JSON or YAML with the keys below, as a client would sign it")
    parts.add_argument("--principal", metavar="NAME", help="issuer/claim; the claim alone where there is one issuer")
    parts.add_argument("--roles", metavar="A,B", help="principal roles that the token brings")
    parts.add_argument("--catalog", metavar="NAME", help="default: the policy's default catalog")
    parts.add_argument("--prefix", metavar="PREFIX", help="the prefix of the route, instead of --catalog")
    parts.add_argument("--namespace", metavar="A.B", help="of the table that the route names")
    parts.add_argument("--table", metavar="NAME", help="without it, the table is found by location")
    parts.add_argument("--method", metavar="METHOD", help="default: GET")
    parts.add_argument(
        "--uri", metavar="URI", help="the S3 request's full URI; s3://bucket/key?query asks the S3 listener instead"
    )
    parts.add_argument("--region", metavar="REGION", help="the client's region")
    parts.add_argument("--header", metavar="K:V", action="append", default=[], help="a header; may be repeated")
    parts.add_argument("--body", metavar="FILE", help="the XML of a bulk delete")


def question_of(options: argparse.Namespace) -> ExplainRequest:
    """Return the question that the options ask; raise Invalid."""
    document: dict[str, object] = {}
    if options.request is not None:
        loaded = load_yaml(read_input(options.request, MAX_REQUEST_BYTES), options.request)
        if not isinstance(loaded, dict):
            raise Invalid([Finding(options.request, "", "an object with uri, method and headers expected")])
        document = loaded
    named = ("principal", "catalog", "prefix", "namespace", "table", "method", "uri", "region")
    document |= {name: value for name in named if (value := getattr(options, name)) is not None}
    if options.roles is not None:
        document["roles"] = [role.strip() for role in options.roles.split(",") if role.strip()]
    if options.header:
        document["headers"] = _headers(options.header)
    if options.body is not None:
        document["body"] = read_input(options.body, MAX_REQUEST_BYTES)
    return decode(ExplainRequest, document, file=options.request or "command line")


def principal_of(question: ExplainRequest, settings: Settings) -> Principal:
    """Return the principal as its token would make it: with what its issuer may speak for, and no more."""
    identity = settings.identity
    issuers = [*identity.issuers, *([STATIC_ISSUER] if identity.static_tokens else [])]
    issuer, slash, subject = question.principal.partition("/")
    if not slash and len(issuers) == 1:
        issuer, subject = issuers[0], question.principal
    elif issuer not in issuers:
        hint = nearest(issuer, issuers) or f"; known: {', '.join(issuers) or 'none'}"
        raise Invalid([Finding("", "principal", f"{question.principal!r} is not issuer/claim of an issuer{hint}")])
    roles, catalogs = question.roles, None
    if issuer in identity.issuers:
        declared = identity.issuers[issuer]
        roles, catalogs = tuple(role for role in declared.roles if role in question.roles), declared.catalogs
    else:
        for token in identity.static_tokens:
            if token.principal == subject:
                roles, catalogs = token.roles, token.catalogs
                break
    return Principal(f"{issuer}/{subject}", issuer, subject, math.inf, roles, catalogs)


def wire_of(question: ExplainRequest, state: PolicyState) -> WireRequest:
    """Return the S3 request as the client would describe it; a region that is left out is the storage's own."""
    return WireRequest(
        method=question.method,
        uri=question.uri,
        headers=_listed(question),
        region=question.region or _region(question.uri, state),
        body=question.body,
    )


def forwarded_of(question: ExplainRequest) -> ForwardWire:
    """Return the request as the S3 listener would hand it on; the key is percent-encoded, as clients send it."""
    path, mark, query = question.uri.removeprefix(_TO_BE_FORWARDED).partition("?")
    bucket, _, key = path.partition("/")
    named = [(name, value) for name, values in _listed(question).items() for value in values]
    return ForwardWire(
        method=question.method,
        bucket=bucket,
        raw_key=key,
        raw_query=query if mark else None,
        headers=tuple((name.lower(), value) for name, value in named),
        names=tuple(name for name, _ in named),
        body=None if question.body is None else question.body.encode(),
    )


def _listed(question: ExplainRequest) -> dict[str, list[str]]:
    return {name: [value] if isinstance(value, str) else list(value) for name, value in question.headers.items()}


def _region(uri: str, state: PolicyState) -> str:
    try:
        spelled = split_uri(uri)[0]
    except Refused:
        # The gate will say so.
        return ""
    origins = [catalog.endpoints.find(spelled) for catalog in state.catalogs.values()]
    storages = [storage for origin in origins if origin is not None for storage in origin.storages.values()]
    return storages[0].region if storages else ""


def _headers(given: list[str]) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for header in given:
        name, colon, value = header.partition(":")
        if not colon or not name:
            raise Invalid([Finding("command line", "--header", f"NAME:VALUE expected, got {header!r}")])
        headers.setdefault(name, []).append(value.strip())
    return headers
