"""Put together what answers requests: one value for each generation of settings and policy.

A request reads it once and is served by it to its end; a reload puts another in its place, between two requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from signproxy.credentials.store import CredentialStore
from signproxy.facade.facade import Facade
from signproxy.gate.gate import Gate
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.inventory.resolver import PolicyResolver, TableResolver
from signproxy.policy.state import PolicyState
from signproxy.sealing import SealingSecret
from signproxy.server.api.key_calls import KeyCalls
from signproxy.server.process.callers import emulated_keys
from signproxy.server.process.catalogs import Catalogs
from signproxy.server.process.generation import Generation
from signproxy.server.s3.steering import Steering
from signproxy.signing.sign import RequestSigner

if TYPE_CHECKING:
    from signproxy.server.s3.handler import S3Rooms
    from signproxy.server.s3.service import S3Service


class ApiRooms(NamedTuple):
    """What answers sign requests, catalog calls and requests for keys."""

    gate: Gate
    authenticator: Authenticator
    credentials: CredentialStore
    signer: RequestSigner
    public_url: str
    client_cache: bool
    """Whether GET and HEAD answers may be kept by the client; off unless the operator switched it on."""
    listener: str
    """The URL of the S3 listener, for clients that sign by themselves; empty where they cannot be told one."""
    facade: Facade | None
    """Answers catalog calls; None where no catalog has an upstream."""
    keys: KeyCalls | None
    """Issues S3 keys; None where no listener takes any."""
    steering: Steering | None
    """Leads what cannot be signed safely to the S3 listener; None where that is switched off."""


class Rooms(NamedTuple):
    """All that answers requests."""

    generation: Generation
    api: ApiRooms
    s3: S3Rooms | None
    """None where there is no S3 listener."""


class House:
    """Where the rooms in force are: read once by each request, swapped once by each reload."""

    __slots__ = ("_state", "rooms")

    rooms: Rooms

    def __init__(self, state: PolicyState) -> None:
        """`state` is the policy in force until there are rooms."""
        self._state = state

    def current(self) -> PolicyState:
        """Return the policy in force."""
        return self._state

    def swap(self, rooms: Rooms) -> None:
        """Answer by other rooms from the next request on."""
        self.rooms = rooms
        self._state = rooms.generation.state


class ServingProcess(NamedTuple):
    """What lasts as long as the process, whichever rooms it serves with."""

    state: Callable[[], PolicyState]
    """The policy in force: what waited is judged by it, and not by that of its arrival."""
    authenticator: Authenticator
    credentials: CredentialStore
    recorder: Recorder
    catalogs: Catalogs
    secret: SealingSecret
    """Seals where the operator configured nothing to seal with."""
    s3: S3Service | None = None
    resolver: TableResolver = PolicyResolver()


def assemble(generation: Generation, process: ServingProcess) -> Rooms:
    """Return the rooms of a generation."""
    settings, authenticator = generation.settings, process.authenticator
    seals = generation.seals(process.secret)
    accepted = settings.accepted_unsafe, settings.accepted_unhashed
    gate = Gate(process.state, process.resolver, *accepted, process.catalogs.resolver)
    keys = emulated_keys(settings.s3, seals, authenticator)
    api = ApiRooms(
        gate=gate,
        authenticator=authenticator,
        credentials=process.credentials,
        signer=RequestSigner(settings.signing.signature_ttl_seconds),
        public_url=settings.advertised_url,
        client_cache=settings.signing.client_cache,
        listener=settings.s3.client_url,
        facade=process.catalogs.facade(settings, seals, gate),
        keys=None if keys is None else KeyCalls(keys, gate, process.recorder),
        steering=Steering(keys, settings.s3.advertised_url) if keys is not None and settings.s3.steer else None,
    )
    s3 = None if process.s3 is None else process.s3.rooms(generation, keys, seals, gate)
    return Rooms(generation, api, s3)
