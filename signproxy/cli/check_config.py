"""Check settings, policy, keys and certificates as a start would, and tell every fault at once."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from signproxy.cli import serve
from signproxy.cli.terminal import complain, say, say_json
from signproxy.config.advice import advice
from signproxy.config.s3 import S3Settings
from signproxy.config.settings import AdminSettings, AuditSinkKind, ListenSettings, Settings
from signproxy.config.source import SettingsSource
from signproxy.credentials.bindings import unused_bindings
from signproxy.errors import Finding, Invalid, SettingsInvalid
from signproxy.policy.state import PolicyState
from signproxy.server import build, process
from signproxy.server.seals import secrets_of
from signproxy.server.sockets import unix_problems
from signproxy.server.tls import load_certificate
from signproxy.server.upstreams import missing_upstreams, unused_upstreams, upstreams_of

VALID = 0
INVALID = 1

T = TypeVar("T")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --json and the flags of a start, so that its very command line can be checked."""
    serve.arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the findings, one per line."""
    findings: list[Finding] = []
    warnings: list[Finding] = []
    state: PolicyState | None = None
    source = _tried(lambda: serve.source_of(options), findings)
    settings = None if source is None else _tried(source.load, findings)
    if source is not None and settings is not None:
        state = check(settings, findings, warnings)
        warnings += _warnings(source, settings, state, findings)
    if options.json:
        say_json(
            {
                "valid": not findings,
                "policy_rev": None if state is None else state.rev,
                "findings": [finding._asdict() for finding in findings],
                "warnings": [finding._asdict() for finding in warnings],
            }
        )
    else:
        for finding in findings:
            complain(str(finding))
        for warning in warnings:
            complain(f"warning: {warning}")
        if state is not None and not findings:
            say(f"valid: {_summary(state)}")
    return INVALID if findings else VALID


def check(settings: Settings, findings: list[Finding], warnings: list[Finding]) -> PolicyState | None:
    """Make everything that a start makes, short of listening; add what is wrong, and what is worth a word."""
    _tried(lambda: build.authenticator(settings), findings)
    _tried(lambda: secrets_of(settings.context), findings)
    _tried(lambda: asyncio.run(_make_providers(settings)), findings)
    # The user who checks need not be the one who serves: no empty audit file of the wrong owner must be left behind.
    findings += _audit_faults(settings)
    if settings.sightings.file and not os.access(Path(settings.sightings.file).parent, os.W_OK | os.X_OK):
        problem = f"{str(Path(settings.sightings.file).parent)!r} is no directory that can be written"
        findings.append(Finding("", "sightings.file", problem))
    _tried(lambda: process.loop_factory(settings.loop), findings)
    _check_listener("listen", settings.listen, urlsplit(settings.advertised_url), findings, warnings)
    if settings.admin.enabled:
        _check_listener("admin", settings.admin, None, findings, warnings)
    if settings.s3.enabled:
        _check_listener("s3", settings.s3, None, findings, warnings)
    _tried(lambda: upstreams_of(settings.upstreams), findings)
    state = _tried(lambda: build.policy_source(settings).load(0), findings)
    if state is not None:
        findings += missing_upstreams(state, settings.upstreams)
        findings += build.missing_target(state, settings)
    return state


def _check_listener(
    section: str,
    where: ListenSettings | AdminSettings | S3Settings,
    url: SplitResult | None,
    findings: list[Finding],
    warnings: list[Finding],
) -> None:
    if where.socket:
        findings += [Finding("", f"{section}.socket", problem) for problem in unix_problems(Path(where.socket))]
    if not where.tls.enabled:
        return
    certificate = _tried(lambda: load_certificate(where.tls, section), findings)
    if certificate is None:
        return
    warnings += certificate.warnings
    if url is not None and url.scheme == "https" and url.hostname and not certificate.covers(url.hostname):
        problem = f"the certificate is not good for {url.hostname!r}, to which clients are sent"
        warnings.append(Finding("", f"{section}.tls.cert_file", problem))


def _warnings(
    source: SettingsSource, settings: Settings, state: PolicyState | None, findings: Sequence[Finding]
) -> Iterator[Finding]:
    told = {finding.path for finding in findings}
    yield from (warning for warning in advice(settings, source.file) if not warning.path or warning.path not in told)
    if state is not None:
        storages = [storage for catalog in state.catalogs.values() for storage in catalog.storages.values()]
        yield from unused_bindings(storages, build.bindings(settings), path="storages")
        yield from unused_upstreams(state, settings.upstreams)


def _tried(make: Callable[[], T], findings: list[Finding]) -> T | None:
    try:
        return make()
    except Invalid as invalid:
        findings += invalid.findings
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


def _audit_faults(settings: Settings) -> Iterable[Finding]:
    audit = settings.audit
    if audit.sink is AuditSinkKind.SEGMENTS:
        yield from _directory_faults(settings)
    if audit.sink is not AuditSinkKind.FILE:
        return
    file = Path(audit.path)
    if file.is_dir():
        yield Finding("", "audit.path", f"{str(file)!r} is a directory")
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        yield Finding("", "audit.path", f"{str(file)!r} cannot be written")


def _directory_faults(settings: Settings) -> Iterable[Finding]:
    directory = Path(settings.audit.directory)
    # It is made where it is missing, as a whole path.
    there = next((path for path in (directory, *directory.absolute().parents) if path.exists()), Path("/"))
    if not there.is_dir():
        yield Finding("", "audit.directory", f"{str(there)!r} is no directory")
    elif not os.access(there, os.W_OK | os.X_OK):
        yield Finding("", "audit.directory", f"{str(there)!r} cannot be written")


def _summary(state: PolicyState) -> str:
    catalogs = state.catalogs.values()
    tables = sum(len(catalog.tables()) for catalog in catalogs)
    signing = sum(catalog.remote_signing for catalog in catalogs) if state.remote_signing else 0
    return (
        f"policy {state.rev}, {len(catalogs)} catalogs ({signing} with remote signing), {tables} tables, "
        f"{len(state.principals)} principals"
    )
