"""Describe one client's way to its tables: where signproxy and the store are, and what the client is told of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

import msgspec

from signproxy.audit.event import MAX_CONTEXT_BYTES
from signproxy.cli.clients.client import VERSIONS, Client, version_of
from signproxy.cli.key_request import SERVER_URL
from signproxy.errors import Finding, Invalid

# A header's value: nothing that ends it early, or acts on whatever shows it.
_CONTEXT = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
# What stands between two dots of Spark's keys.
_SPARK_NAME = re.compile(r"[A-Za-z0-9_\-]+")


class Mode(Enum):
    """Whether the catalog's answers pass signproxy, or the catalog knows nothing of it."""

    FACADE = "facade"
    DIRECT = "direct"


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where signproxy is, and what the policy says of a catalog's store."""

    catalog: str
    public_url: str
    """Without a slash at its end."""
    region: str = ""
    s3_endpoint: str = ""
    """Empty on AWS, whose endpoints the clients know."""
    path_style: bool = False


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How one client reaches a catalog. Raises Invalid for what no configuration could be made of."""

    client: Client
    site: Site
    mode: Mode = Mode.FACADE
    version: str = ""
    """Of Iceberg, or of PyIceberg; empty: the newest that is known."""
    name: str = ""
    """What the client calls the catalog; empty: what the policy calls it."""
    token: str = ""
    """The token, or what the client finds it by; empty: it is told elsewhere."""
    catalog_uri: str = ""
    """The catalog's own, with `Mode.DIRECT`."""
    warehouse: str = ""
    application: str = ""
    query_id: str = ""

    def __post_init__(self) -> None:
        if findings := [Finding("command line", option, told) for option, told in self._problems()]:
            raise Invalid(findings)

    @property
    def called(self) -> str:
        """The catalog's name in the client."""
        return self.name or self.site.catalog

    @property
    def minor(self) -> str:
        """The version as configurations differ by it."""
        return version_of(self.client, self.version) or ""

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Yield each option that no configuration could be made of, and what is wrong with it."""
        facade = self.mode is Mode.FACADE
        if not self.minor:
            what = "Iceberg" if self.client.java else "PyIceberg"
            known = ", ".join(VERSIONS[self.client])
            yield "--client-version", f"{self.version!r} is no version of {what} that is known: {known}"
        if self.client is Client.SPARK and not _SPARK_NAME.fullmatch(self.called):
            yield "--as", f"Spark cannot call a catalog {self.called!r}; give it a name of letters, digits, - and _"
        if facade and self.catalog_uri:
            yield "--catalog-uri", "goes with --mode direct; through the facade the client's uri is signproxy's"
        elif not facade and not self.catalog_uri:
            yield "--catalog-uri", "is needed with --mode direct, where the client asks the catalog itself"
        elif not facade and not SERVER_URL.fullmatch(self.catalog_uri):
            # Not repeated: it may hold a password.
            yield "--catalog-uri", "http(s)://HOST/PATH without user and query expected"
        if facade and self.warehouse:
            yield "--warehouse", "goes with --mode direct; signproxy's address names the catalog already"
        elif not self.warehouse.isprintable():
            yield "--warehouse", "printable text expected"
        for option, text in (("--application", self.application), ("--query-id", self.query_id)):
            if not _CONTEXT.fullmatch(text):
                yield option, "printable ASCII expected; it travels in a header"
            elif len(text) > MAX_CONTEXT_BYTES:
                yield option, f"is longer than {MAX_CONTEXT_BYTES} bytes"
