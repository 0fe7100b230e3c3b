"""Put the rooms over a policy together as a server does it: every rig that has a gate, or more, has it from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from signproxy.audit.trail import AuditTrail
from signproxy.config.container import ContainerProfile
from signproxy.config.settings import Settings
from signproxy.config.storage import StorageBinding
from signproxy.credentials.credentials import Credentials
from signproxy.errors import Refused
from signproxy.gate.gate import Gate
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import EmulatedKeys
from signproxy.identity.opaque import OpaqueToken, StaticTokens
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.inventory.learned.learned_resolver import LearnedResolver
from signproxy.policy.resolver import PolicyResolver, TableResolver
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage
from signproxy.sealing import SealingSecret
from signproxy.server.api.key_way import KeyRooms
from signproxy.server.process.catalogs import Catalogs, learned_tables
from signproxy.server.process.generation import Generation
from signproxy.server.process.rooms import House, ServingProcess, assemble
from signproxy.server.process.seals import seals_of
from signproxy.telemetry.metrics import Metrics
from tests.audit.sinks import MemorySink

ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


class FixedCredentials:
    """Credentials that are always there; what a real store offers at `current`."""

    def __init__(self, session_token: str = "") -> None:
        self.credentials = Credentials(ACCESS_KEY, SECRET, session_token)
        self.refusal: Refused | None = None

    def current(self, _storage: Storage, _bucket: str) -> Credentials:
        if self.refusal is not None:
            raise self.refusal
        return self.credentials


def accepting(settings: Settings, unsafe: frozenset[str], unhashed: frozenset[str] = frozenset()) -> Settings:
    """Return settings whose operator accepts storages that leave headers, or the content, unchecked."""
    bindings = {
        name: StorageBinding(
            "store", (), accept_unchecked_headers=name in unsafe, accept_unchecked_payload=name in unhashed
        )
        for name in unsafe | unhashed
    }
    return msgspec.structs.replace(settings, storages={**settings.storages, **bindings})


class Assembled:
    """The rooms over a policy, and what lasts as long as their process."""

    def __init__(
        self,
        state: PolicyState,
        settings: Settings | None = None,
        *,
        trail: AuditTrail | None = None,
        tokens: dict[str, OpaqueToken] | None = None,
        authenticator: Authenticator | None = None,
        resolver: TableResolver | None = None,
        learned: LearnedTables | None = None,
        learned_resolver: LearnedResolver | None = None,
        session_token: str = "",
    ) -> None:
        """`tokens` are those of callers, by their digest; `learned_resolver` asks another upstream than a server's."""
        self.settings = settings or Settings()
        self.trail = trail or AuditTrail(MemorySink())
        self.metrics = Metrics("test")
        self.credentials = FixedCredentials(session_token)
        self.secret = SealingSecret(b"x" * 32)
        seals = seals_of(self.settings.context, (), self.secret)
        self.authenticator = authenticator or Authenticator((), StaticTokens(tokens or {}), seals.table_tokens)
        self.recorder = Recorder(self.trail, self.metrics)
        self.house = House(state)
        tables = learned_tables(self.house.current, self.settings.sightings, seals.sightings)
        self.catalogs = Catalogs(
            tables if learned is None else (learned, None), self.authenticator, self.recorder, self.metrics, None
        )
        if learned_resolver is not None:
            self.catalogs.resolver = learned_resolver
        self.process = ServingProcess(
            self.house.current,
            self.authenticator,
            self.credentials,  # type: ignore[arg-type]  # the one method that is called
            self.recorder,
            self.catalogs,
            self.secret,
            resolver=resolver or PolicyResolver(),
        )
        self.generation = Generation(self.settings, self.settings, "test", state, (), (), StaticTokens({}))
        self.assemble()

    def assemble(self) -> None:
        """Answer by rooms that are put together as a server does it."""
        self.house.swap(assemble(self.generation, self.process))

    @property
    def gate(self) -> Gate:
        """The gate that judges."""
        return self.house.rooms.api.gate

    def judge_by(self, *, learned_resolver: LearnedResolver | None = None, **of_process: Any) -> None:
        """Judge by other tables, or another source of the policy, than until now."""
        if learned_resolver is not None:
            self.catalogs.resolver = learned_resolver
        self.process = self.process._replace(**of_process)
        self.assemble()

    def sign_by(self, **rooms: Any) -> None:
        """Sign by other rooms than those that the settings ask for."""
        self._answer_by(signing=self.house.rooms.api.signing._replace(**rooms))

    def configure_by(self, **rooms: Any) -> None:
        """Tell clients how to configure themselves by other rooms than those that the settings ask for."""
        self._answer_by(config=self.house.rooms.api.config._replace(**rooms))

    def issue_by(self, keys: EmulatedKeys, profiles: Mapping[str, ContainerProfile] | None = None) -> None:
        """Issue keys, which the settings do not ask for, and those of profiles."""
        for_upstream = self.house.rooms.api.config.facade is not None
        self._answer_by(
            keys=KeyRooms(self.house.rooms.api.gate, self.authenticator, keys, for_upstream, profiles or {})
        )

    def _answer_by(self, **rooms: Any) -> None:
        served = self.house.rooms
        self.house.swap(served._replace(api=served.api._replace(**rooms)))

    @property
    def state(self) -> PolicyState:
        """The policy in force."""
        return self.house.current()

    @state.setter
    def state(self, state: PolicyState) -> None:
        self.generation = msgspec.structs.replace(self.generation, state=state)
        self.house.swap(self.house.rooms._replace(generation=self.generation))


def gate_over(state: PolicyState, accepted_unsafe: frozenset[str] = frozenset()) -> Gate:
    """Return the gate of a server with this policy."""
    return Assembled(state, accepting(Settings(), accepted_unsafe)).gate
