"""Provide credentials from memory, and fail as told: the fake behind the tests of registry and store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from signproxy.credentials.credentials import Credentials
from signproxy.errors import Finding, ProviderInvalid
from signproxy.model import SessionScope
from signproxy.s3.storage import Storage

SECRET = "memory-secret"


class MemoryProvider:
    """A provider whose instances can be looked at. `answers` are given in turn, the last one for ever."""

    made: ClassVar[list[MemoryProvider]] = []

    def __init__(self) -> None:
        self.made.append(self)
        self.properties: dict[str, str] = {}
        self.scopes: list[SessionScope] = []
        self.answers: list[object] = []
        self.initialized = 0
        self.closed = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def __repr__(self) -> str:
        return f"MemoryProvider({self.properties!r})"

    async def initialize(self, properties: Mapping[str, str]) -> None:
        """Take the properties; `fail` and `crash` make it raise."""
        await asyncio.sleep(0)
        self.initialized += 1
        self.properties = dict(properties)
        if "fail" in properties:
            raise ProviderInvalid([Finding("", "fail", properties["fail"])])
        if "crash" in properties:
            raise RuntimeError(properties["crash"])

    async def get(self, storage: Storage, scope: SessionScope) -> Credentials:
        """Give the next answer, once the gate is open."""
        self.scopes.append(scope)
        await self.gate.wait()
        if not self.answers:
            return Credentials(self.properties.get("id", f"AKID-{storage.name}"), SECRET)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]  # a fake must be able to break the contract

    def files(self) -> tuple[Path, ...]:
        """Return what `files` lists."""
        return tuple(Path(each) for each in self.properties.get("files", "").split())

    async def aclose(self) -> None:
        """Count the call; `hang` and `crash_on_close` make it misbehave."""
        self.closed += 1
        if "hang" in self.properties:
            await asyncio.Event().wait()
        if "crash_on_close" in self.properties:
            raise RuntimeError("closing failed")


class NotAProvider:
    """A class without the methods."""


class BlockingProvider:
    """A class with the methods' names, which are not asynchronous."""

    def initialize(self, properties: Mapping[str, str]) -> None:
        """Do nothing."""

    def get(self, storage: Storage, scope: SessionScope) -> None:
        """Do nothing."""

    def files(self) -> tuple[Path, ...]:
        """Return nothing."""
        return ()

    def aclose(self) -> None:
        """Do nothing."""


class NeedsArguments(MemoryProvider):
    """A provider that cannot be made as the contract says."""

    def __init__(self, something: str) -> None:
        super().__init__()
        self.something = something
