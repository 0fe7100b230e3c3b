"""Describe one client's way to its tables: where signproxy and the store are, and what the client is told of them."""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from signproxy.audit.event import MAX_CONTEXT_BYTES
from signproxy.cli.clients.client import VERSIONS, Client, version_of
from signproxy.errors import Finding, Invalid

_COMMAND_LINE = "command line"

# A header's value: nothing that ends it early, or acts on whatever shows it.
_CONTEXT = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
# What stands between two dots of Spark's keys.
_SPARK_NAME = re.compile(r"[A-Za-z0-9_\-]+")
# No user, who might bring a password, and no query, which would end up before each route.
_URL = re.compile(r"https?://[0-9A-Za-z.\-_\[\]:]+(?:/[!\"$->A-~]*)?")


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
        problems = {
            "--client-version": self._version_problem(),
            "--as": self._name_problem(),
            "--catalog-uri": self._catalog_uri_problem(),
            "--warehouse": self._warehouse_problem(),
            "--application": _context_problem(self.application),
            "--query-id": _context_problem(self.query_id),
        }
        if findings := [Finding(_COMMAND_LINE, option, told) for option, told in problems.items() if told]:
            raise Invalid(findings)

    @property
    def called(self) -> str:
        """The catalog's name in the client."""
        return self.name or self.site.catalog

    @property
    def minor(self) -> str:
        """The version as configurations differ by it."""
        return version_of(self.client, self.version) or ""

    def _version_problem(self) -> str:
        if self.minor:
            return ""
        what = "Iceberg" if self.client.java else "PyIceberg"
        return f"{self.version!r} is no version of {what} that is known: {', '.join(VERSIONS[self.client])}"

    def _name_problem(self) -> str:
        if self.client is Client.SPARK and not _SPARK_NAME.fullmatch(self.called):
            return f"Spark cannot call a catalog {self.called!r}; give it a name of letters, digits, - and _"
        return ""

    def _catalog_uri_problem(self) -> str:
        if self.mode is Mode.FACADE:
            return (
                "goes with --mode direct; through the facade the client's uri is signproxy's"
                if self.catalog_uri
                else ""
            )
        if not self.catalog_uri:
            return "is needed with --mode direct, where the client asks the catalog itself"
        if not _URL.fullmatch(self.catalog_uri):
            # Not repeated: it may hold a password.
            return "http(s)://HOST/PATH without user and query expected"
        return ""

    def _warehouse_problem(self) -> str:
        if self.warehouse and self.mode is Mode.FACADE:
            return "goes with --mode direct; signproxy's address names the catalog already"
        return "" if self.warehouse.isprintable() else "printable text expected"


def _context_problem(text: str) -> str:
    if not _CONTEXT.fullmatch(text):
        return "printable ASCII expected; it travels in a header"
    return f"is longer than {MAX_CONTEXT_BYTES} bytes" if len(text) > MAX_CONTEXT_BYTES else ""
