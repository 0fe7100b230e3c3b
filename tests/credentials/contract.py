"""State as tests what every credential provider promises: inherit, and say how to make one."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping

import pytest

from signproxy.credentials.credentials import Credentials
from signproxy.credentials.provider import CredentialProvider
from signproxy.errors import SignproxyError
from signproxy.model import SessionScope
from signproxy.s3.storage import Storage
from tests.credentials.values import storage


class ProviderContract(ABC):
    """What holds for all providers."""

    @abstractmethod
    def make(self) -> CredentialProvider:
        """Return a new instance, as signproxy makes it."""

    @pytest.fixture
    @abstractmethod
    def properties(self) -> Mapping[str, str]:
        """Properties that work."""

    @pytest.fixture
    @abstractmethod
    def secrets(self) -> tuple[str, ...]:
        """Every secret that these properties lead to."""

    @abstractmethod
    def rotate_source(self) -> None:
        """Put another key pair behind the properties."""

    @abstractmethod
    def break_source(self) -> None:
        """Make the source behind the properties fail from now on."""

    async def given(self, provider: CredentialProvider, of: Storage | None = None) -> Credentials:
        """Return what a provider gives."""
        place = of or storage()
        return await provider.get(place, SessionScope(place.name, ""))

    async def test_it_gives_credentials(self, properties: Mapping[str, str], secrets: tuple[str, ...]) -> None:
        """Anything else, and None above all, would mean to sign with nothing."""
        provider = self.make()
        await provider.initialize(properties)
        given = await self.given(provider)
        assert isinstance(given, Credentials)
        assert given.secret_access_key in secrets
        await provider.aclose()

    async def test_many_may_ask_at_once(self, properties: Mapping[str, str]) -> None:
        """Storages and buckets refresh independently of each other."""
        provider = self.make()
        await provider.initialize(properties)
        places = [storage(f"lake-{number}") for number in range(50)]
        given = await asyncio.gather(*(self.given(provider, place) for place in places))
        assert all(isinstance(each, Credentials) for each in given)
        await provider.aclose()

    async def test_it_asks_anew_each_time(self, properties: Mapping[str, str], secrets: tuple[str, ...]) -> None:
        """What it kept would be served on after a rotation, and twice as long as the store means."""
        provider = self.make()
        await provider.initialize(properties)
        first = await self.given(provider)
        self.rotate_source()
        second = await self.given(provider)
        assert first.secret_access_key != second.secret_access_key
        assert second.secret_access_key in secrets
        await provider.aclose()

    async def test_it_names_the_files_that_it_reads(self, properties: Mapping[str, str]) -> None:
        """They are watched: a rotated key is in use within seconds."""
        provider = self.make()
        await provider.initialize(properties)
        files = provider.files()
        assert all(file.exists() for file in files)
        assert provider.files() == files
        await provider.aclose()

    async def test_it_does_not_depend_on_the_mapping_it_got(self, properties: Mapping[str, str]) -> None:
        """Settings are reloaded; an instance keeps what it was made with."""
        provider = self.make()
        mutable = dict(properties)
        await provider.initialize(mutable)
        mutable.clear()
        assert isinstance(await self.given(provider), Credentials)
        await provider.aclose()

    async def test_it_shows_no_secret(self, properties: Mapping[str, str], secrets: tuple[str, ...]) -> None:
        """Its representation stands in logs and in traces."""
        provider = self.make()
        await provider.initialize(properties)
        given = await self.given(provider)
        shown = f"{provider!r} {provider} {given!r} {given} {[given]}"
        assert not [secret for secret in secrets if secret in shown]
        await provider.aclose()

    async def test_what_it_gives_stays_in_the_process(self, properties: Mapping[str, str]) -> None:
        """A pickle is a file or a message with the secret in it."""
        provider = self.make()
        await provider.initialize(properties)
        given = await self.given(provider)
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                attempt(given)
        await provider.aclose()

    async def test_a_broken_source_raises_without_secrets(
        self, properties: Mapping[str, str], secrets: tuple[str, ...], caplog: pytest.LogCaptureFixture
    ) -> None:
        """The error is logged with its trace, and kept for the operator to see."""
        provider = self.make()
        await provider.initialize(properties)
        await self.given(provider)
        self.break_source()
        with caplog.at_level(logging.DEBUG), pytest.raises((SignproxyError, OSError)) as caught:
            await self.given(provider)
        error = caught.value
        shown = "".join(traceback.format_exception(error)) + caplog.text + repr(error) + repr(vars(error))
        assert not [secret for secret in secrets if secret in shown]
        # A collector of errors follows these whether they are suppressed or not.
        for behind in (error.__cause__, error.__context__):
            hidden = "" if behind is None else f"{behind!r} {vars(behind)!r}"
            assert not [secret for secret in secrets if secret in hidden]
        await provider.aclose()

    async def test_it_may_be_closed_twice_and_unused(self, properties: Mapping[str, str]) -> None:
        """A shutdown that is interrupted closes again."""
        provider = self.make()
        await provider.initialize(properties)
        await provider.aclose()
        await provider.aclose()
