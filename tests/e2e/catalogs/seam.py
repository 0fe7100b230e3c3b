"""Say what a test may ask of an upstream catalog, whichever it is."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.catalogs.authority import Authority
from tests.e2e.stores import RunningStore

_TIMEOUT = 60.0
"""Seconds for one call; a cold JVM takes some for its first one."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a catalog keeps what it writes itself, and whom it believes."""

    store: RunningStore
    """It has the store's keys."""
    bucket: str
    folder: str
    """Below which all its tables lie; a key, without slashes at its ends."""
    authority: Authority
    hands_out_keys: bool = False
    """Whether it shows the store's keys to a client that loads a table, as catalogs that vend do."""

    @property
    def warehouse(self) -> str:
        """Return the location of the folder."""
        return f"s3://{self.bucket}/{self.folder}"


@dataclass(frozen=True, slots=True)
class RunningCatalog:
    """A catalog that listens on loopback and lets in who has a token of the authority."""

    name: str
    version: str
    uri: str
    """What a client is given as `uri`, without a slash at its end."""
    prefix: str
    """What its `/v1/config` has clients put into their paths, as it stands on the wire; most have none."""
    warehouse: str
    """What a client is given as `warehouse`."""
    site: Site
    log: Callable[[], str]
    end: Callable[[], None]
    """Ends it for good, as a failure would."""
    grants_tokens: bool = True
    """Whether it has a token endpoint of its own, as older clients expect."""

    def call(self, method: str, path: str, token: str, content: object = None) -> tuple[int, Any]:
        """Call the catalog itself, as its administrator; `path` begins below `v1/` and the prefix."""
        below = "/".join(part for part in ("v1", self.prefix, path) if part)
        return call(f"{self.uri}/{below}", method, token, content)

    def must(self, method: str, path: str, token: str, content: object = None) -> Any:
        """Call the catalog and have it succeed."""
        status, answer = self.call(method, path, token, content)
        if status >= 300:
            raise AssertionError(f"{self.name}: {method} {path}: {status} {answer}")
        return answer

    def __repr__(self) -> str:
        return f"RunningCatalog({self.name} {self.version} at {self.uri})"


@dataclass(frozen=True, slots=True)
class CatalogKind:
    """A catalog that can be started in an empty directory."""

    name: str
    version: str
    run: Callable[[Path, Site], AbstractContextManager[RunningCatalog]]

    def __str__(self) -> str:
        return self.name


def call(url: str, method: str, token: str, content: object = None) -> tuple[int, Any]:
    """Send one call with JSON in and out; what is no JSON comes back as text."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        body = None if content is None else json.dumps(content)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, target, body, {**headers, "Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    try:
        return answer.status, json.loads(text) if text else None
    except ValueError:
        return answer.status, text
