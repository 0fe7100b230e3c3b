"""Check settings, policy, keys and certificates as a start would, and tell every fault at once."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from signproxy.cli import serve
from signproxy.cli.terminal import complain, say, say_json
from signproxy.config.advice import advice
from signproxy.config.load import SettingsSource
from signproxy.config.s3 import S3Settings
from signproxy.config.settings import AdminSettings, AuditSinkKind, ListenSettings, Settings
from signproxy.credentials.bindings import unused_bindings
from signproxy.diagnosis import Diagnosis, Urgency, advised, diagnosed, worst_first
from signproxy.errors import Finding, Invalid, SettingsInvalid
from signproxy.policy.state import PolicyState
from signproxy.server.process import build, process_setup
from signproxy.server.process.seals import secrets_of
from signproxy.server.process.sockets import unix_problems
from signproxy.server.process.tls import load_certificate
from signproxy.server.process.upstreams import missing_upstreams, unused_upstreams, upstreams_of
from signproxy.server.process.vendors import keyless, unusable_services

VALID = 0
INVALID = 1

T = TypeVar("T")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --json and the flags of a start, so that its very command line can be checked."""
    serve.arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print what was found, one per line, the worst first."""
    found: list[Diagnosis] = []
    state: PolicyState | None = None
    source = _tried(lambda: serve.source_of(options), found)
    settings = None if source is None else _tried(source.load, found)
    if source is not None and settings is not None:
        state = check(settings, found)
        found += _warnings(source, settings, state, tuple(found))
    valid = all(each.weight is Urgency.LOOK for each in found)
    if options.json:
        rev = None if state is None else state.rev
        wrong, look = ([_finding(each) for each in found if each.weight is weight] for weight in Urgency)
        say_json({"valid": valid, "policy_rev": rev, "findings": wrong, "warnings": look})
    else:
        for each in worst_first(found):
            complain(f"warning: {each}" if each.weight is Urgency.LOOK else str(each))
        if state is not None and valid:
            say(f"valid: {_summary(state)}")
    return VALID if valid else INVALID


def check(settings: Settings, found: list[Diagnosis]) -> PolicyState | None:
    """Make everything that a start makes, short of listening; add what is wrong, and what is worth a word."""
    _tried(lambda: build.authenticator(settings), found)
    _tried(lambda: secrets_of(settings.context), found)
    _tried(lambda: asyncio.run(_make_providers(settings)), found)
    # The user who checks need not be the one who serves: no empty audit file of the wrong owner must be left behind.
    found += diagnosed(_audit_faults(settings))
    if settings.sightings.file and not os.access(Path(settings.sightings.file).parent, os.W_OK | os.X_OK):
        problem = f"{str(Path(settings.sightings.file).parent)!r} is no directory that can be written"
        found.append(Diagnosis(problem, where=("", "sightings.file")))
    _tried(lambda: process_setup.loop_factory(settings.loop), found)
    _check_listener("listen", settings.listen, urlsplit(settings.advertised_url), found)
    if settings.admin.enabled:
        _check_listener("admin", settings.admin, None, found)
    if settings.s3.enabled:
        _check_listener("s3", settings.s3, None, found)
    _tried(lambda: upstreams_of(settings.upstreams), found)
    state = _tried(lambda: build.policy_source(settings).load(0), found)
    if state is not None:
        found += diagnosed(missing_upstreams(state, settings.upstreams))
        found += diagnosed(build.missing_target(state, settings))
        found += diagnosed(unusable_services(state, settings))
        found += keyless(state, settings)
    return state


def _finding(diagnosis: Diagnosis) -> dict[str, str]:
    return Finding._make((*diagnosis.where, diagnosis.what))._asdict()


def _check_listener(
    section: str, where: ListenSettings | AdminSettings | S3Settings, url: SplitResult | None, found: list[Diagnosis]
) -> None:
    if where.socket:
        found += diagnosed(Finding("", f"{section}.socket", problem) for problem in unix_problems(Path(where.socket)))
    if not where.tls.enabled:
        return
    certificate = _tried(lambda: load_certificate(where.tls, section), found)
    if certificate is None:
        return
    found += certificate.warnings
    if url is not None and url.scheme == "https" and url.hostname and not certificate.covers(url.hostname):
        problem = f"the certificate is not good for {url.hostname!r}, to which clients are sent"
        found.append(advised(f"{section}.tls.cert_file", problem))


def _warnings(
    source: SettingsSource, settings: Settings, state: PolicyState | None, found: Iterable[Diagnosis]
) -> Iterator[Diagnosis]:
    # What is about no path is always worth its word.
    told = {each.where[-1] for each in found if each.weight is Urgency.WRONG} - {""}
    yield from (warning for warning in advice(settings, source.file) if warning.where[-1] not in told)
    if state is not None:
        storages = [storage for catalog in state.catalogs.values() for storage in catalog.storages.values()]
        yield from unused_bindings(storages, build.bindings(settings), path="storages")
        yield from unused_upstreams(state, settings.upstreams)


def _tried(make: Callable[[], T], found: list[Diagnosis]) -> T | None:
    try:
        return make()
    except Invalid as invalid:
        found += diagnosed(invalid.findings)
        return None


async def _make_providers(settings: Settings) -> None:
    """Initialise each provider as a start does; that takes no network and shows wrong properties."""
    registry = build.registry(settings)
    findings: list[Finding] = []
    try:
        for binding in build.bindings(settings):
            for spec in (binding.provider, *binding.buckets.values()):
                try:
                    await registry.get(spec, binding.storage)
                except Invalid as invalid:
                    findings += [found for found in invalid.findings if found not in findings]
    finally:
        await registry.aclose()
    if findings:
        raise SettingsInvalid(findings)


def _audit_faults(settings: Settings) -> Iterator[Finding]:
    audit = settings.audit
    if audit.sink is AuditSinkKind.SEGMENTS:
        directory = Path(audit.directory)
        # It is made where it is missing, as a whole path.
        there = next((path for path in (directory, *directory.absolute().parents) if path.exists()), Path("/"))
        if not there.is_dir():
            yield Finding("", "audit.directory", f"{str(there)!r} is no directory")
        elif not os.access(there, os.W_OK | os.X_OK):
            yield Finding("", "audit.directory", f"{str(there)!r} cannot be written")
    elif audit.sink is AuditSinkKind.FILE:
        file = Path(audit.path)
        if file.is_dir():
            yield Finding("", "audit.path", f"{str(file)!r} is a directory")
        elif not os.access(file if file.exists() else file.parent, os.W_OK):
            yield Finding("", "audit.path", f"{str(file)!r} cannot be written")


def _summary(state: PolicyState) -> str:
    catalogs = state.catalogs.values()
    tables = sum(len(catalog.tables()) for catalog in catalogs)
    signing = sum(catalog.remote_signing for catalog in catalogs) if state.remote_signing else 0
    return (
        f"policy {state.rev}, {len(catalogs)} catalogs ({signing} with remote signing), {tables} tables, "
        f"{len(state.principals)} principals"
    )
