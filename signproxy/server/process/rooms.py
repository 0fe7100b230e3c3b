"""Put together what answers requests: one value for each generation of settings and policy.

A request reads it once and is served by it to its end; a reload puts another in its place, between two requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from signproxy.credentials.store import CredentialStore
from signproxy.facade.config_way import ConfigRooms
from signproxy.gate.gate import Gate
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.policy.resolver import PolicyResolver, TableResolver
from signproxy.policy.state import PolicyState
from signproxy.sealing import SealingSecret
from signproxy.server.api.key_way import KeyRooms
from signproxy.server.process.build import emulated_keys, issuing_of
from signproxy.server.process.catalogs import Catalogs
from signproxy.server.process.generation import Generation
from signproxy.server.process.vendors import minting_of
from signproxy.signing.sign import RequestSigner
from signproxy.signing.sign_way import SigningRooms
from signproxy.signing.steering import Steering
from signproxy.vending.vend_way import VendRooms
from signproxy.vending.vending import Vending

if TYPE_CHECKING:
    from signproxy.server.s3.s3_way import S3Rooms
    from signproxy.server.s3.service import S3Service


class ApiRooms(NamedTuple):
    """What answers the requests of the API."""

    gate: Gate
    signing: SigningRooms
    config: ConfigRooms
    """Also the facade, which answers catalog calls; None where no catalog has an upstream."""
    keys: KeyRooms | None
    """Issues S3 keys; None where no listener takes any."""
    vending: VendRooms


class Rooms(NamedTuple):
    """All that answers requests."""

    generation: Generation
    api: ApiRooms
    s3: S3Rooms | None
    """None where there is no S3 listener."""


class House:
    """Where the rooms in force are: read once by each request, swapped once by each reload."""

    __slots__ = ("_state", "current", "rooms", "turn")

    rooms: Rooms

    def __init__(self, state: PolicyState) -> None:
        """`state` is the policy in force until there are rooms."""
        self._state = state
        self.turn = object()
        """Another one after each swap: what was found by rooms before holds as long as this one does."""
        # Every request asks, some of them several times: this calls no Python code.
        self.current: Callable[[], PolicyState] = partial(getattr, self, "_state")
        """Return the policy in force."""

    def swap(self, rooms: Rooms) -> None:
        """Answer by other rooms from the next request on."""
        self.rooms, self.turn = rooms, object()
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
    minting = minting_of(settings, generation.state, process.credentials, process.catalogs.learned)
    vending = Vending(settings.advertised_url, issuing_of(settings, keys), minting)
    facade = process.catalogs.facade(settings, seals, gate, vending)
    api = ApiRooms(
        gate,
        SigningRooms(
            gate,
            authenticator,
            process.credentials,
            RequestSigner(settings.signing.signature_ttl_seconds),
            settings.signing.client_cache,
            Steering(keys, settings.s3.advertised_url) if keys is not None and settings.s3.steer else None,
            None if facade is None else facade.carried,
        ),
        ConfigRooms(gate, authenticator, facade, settings.advertised_url, settings.s3.client_url),
        None
        if keys is None
        else KeyRooms(gate, authenticator, keys, facade is not None, settings.container_credentials.profiles),
        VendRooms(gate, authenticator, vending, facade is not None, process.catalogs.learned),
    )
    s3 = None if process.s3 is None else process.s3.rooms(generation, keys, seals, gate)
    return Rooms(generation, api, s3)
