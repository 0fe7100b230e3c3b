"""Turn the settings of upstream catalogs into the catalog room's own values, and compare them with the policy."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Iterator, Mapping

from signproxy.catalog.signer_grant import Offer
from signproxy.catalog.upstream_spec import (
    CallTimeouts,
    ExchangedToken,
    Forwarding,
    InventorySpec,
    SameToken,
    Secret,
    ServiceToken,
    UpstreamSpec,
)
from signproxy.config.upstream import TokenForwarding, UpstreamSettings
from signproxy.diagnosis import Diagnosis, advised
from signproxy.documents import path_of
from signproxy.errors import Finding, SettingsInvalid, nearest
from signproxy.outbound.tls import client_tls
from signproxy.policy.catalog import TablesFrom
from signproxy.policy.state import PolicyState
from signproxy.server.process.named_files import content_of, each_of, secret_of

MAX_CA_BYTES = 1024 * 1024
"""All certificate authorities of a system have a quarter of it."""

_SECRET = re.compile(r"[\x21-\x7e]+")
_MIB = 1024 * 1024


def upstreams_of(settings: Mapping[str, UpstreamSettings]) -> tuple[UpstreamSpec, ...]:
    """Return the upstreams, their files read; raise SettingsInvalid with every fault."""
    return each_of(_spec, settings.items())


def contents_in(specs: Iterable[UpstreamSpec]) -> Iterator[bytes]:
    """Yield the contents of the upstreams' files, each with its catalog; see `digest_of`."""
    for spec in specs:
        match spec.forwarding:
            case ServiceToken(token=Secret() as secret) | ExchangedToken(client_secret=secret):
                held = secret.reveal()
            case _:
                held = ""
        token = spec.inventory.token
        for content in (spec.catalog, held, spec.ca, "" if token is None else token.reveal()):
            yield content.encode()


def missing_upstreams(state: PolicyState, bound: Iterable[str]) -> Iterator[Finding]:
    """Yield each catalog whose tables an upstream is to tell, and that has none."""
    known = set(bound)
    for catalog in state.catalogs.values():
        if catalog.tables_from is TablesFrom.UPSTREAM and catalog.name not in known:
            problem = "this key is missing; the policy says `tables: upstream` for the catalog"
            yield Finding("", path_of("upstreams", catalog.name), problem)


def unused_upstreams(state: PolicyState, bound: Iterable[str]) -> Iterator[Diagnosis]:
    """Yield each upstream that no call will ever reach."""
    for name in bound:
        catalog = state.catalogs.get(name)
        if catalog is None:
            problem = f"the policy has no catalog {name!r}{nearest(name, state.catalogs)}"
        elif catalog.tables_from is TablesFrom.DECLARED:
            problem = f"has no effect: catalog {name!r} does not say `tables: upstream`"
        else:
            continue
        yield advised(path_of("upstreams", name), problem)


def _spec(name: str, settings: UpstreamSettings) -> UpstreamSpec:
    path = path_of("upstreams", name)
    ca = _authorities(f"{path}.ca_file", settings.ca_file) if settings.ca_file else ""
    return UpstreamSpec(
        catalog=name,
        uri=settings.uri.rstrip("/"),
        warehouse=settings.warehouse,
        prefix=settings.prefix,
        separator=settings.namespace_separator,
        ca=ca,
        forwarding=_forwarding(path, settings),
        offer=Offer(settings.offer_signing.value),
        headers=frozenset(header.lower() for header in settings.headers),
        connections=settings.connections,
        times=CallTimeouts(
            settings.connect_seconds, settings.answer_seconds, settings.read_seconds, settings.load_seconds
        ),
        max_answer=settings.max_answer_mib * _MIB,
        inventory=_inventory(f"{path}.inventory", settings),
    )


def _inventory(path: str, settings: UpstreamSettings) -> InventorySpec:
    inventory = settings.inventory
    token = _secret(f"{path}.token_file", inventory.token_file) if inventory.token_file else None
    if token is None and settings.token_forwarding is TokenForwarding.NONE and settings.token_file:
        token = _secret(path_of("upstreams", "token_file"), settings.token_file)
    return InventorySpec(
        required=inventory.required,
        refresh=float(inventory.refresh_seconds),
        token=token,
        connections=inventory.connections,
        page_size=inventory.page_size,
    )


def _forwarding(path: str, settings: UpstreamSettings) -> Forwarding:
    match settings.token_forwarding:
        case TokenForwarding.SAME:
            return SameToken()
        case TokenForwarding.NONE:
            return ServiceToken(_secret(f"{path}.token_file", settings.token_file) if settings.token_file else None)
        case TokenForwarding.EXCHANGE:
            exchange = settings.exchange
            return ExchangedToken(
                url=exchange.token_url,
                client_id=exchange.client_id,
                client_secret=_secret(f"{path}.exchange.client_secret_file", exchange.client_secret_file),
                audience=exchange.audience,
                scope=exchange.scope,
                resource=exchange.resource,
            )


def _secret(path: str, file: str) -> Secret:
    value = _text(path, file, secret_of(path, file))
    if not _SECRET.fullmatch(value):
        raise SettingsInvalid([Finding("", path, f"{file!r} is empty, or has a character that no token has")])
    return Secret(value)


def _text(path: str, file: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise SettingsInvalid([Finding("", path, f"{file!r} is not UTF-8 text")]) from None


def _authorities(path: str, file: str) -> str:
    ca = _text(path, file, content_of(path, file, MAX_CA_BYTES))
    try:
        client_tls(ca=ca)
    except (ssl.SSLError, ValueError):
        raise SettingsInvalid([Finding("", path, f"{file!r} holds no certificate (PEM)")]) from None
    return ca
