"""Check settings and policy as a start would, and tell every fault at once."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from signproxy.cli import configuration
from signproxy.cli.terminal import complain, say, say_json
from signproxy.config.settings import AuditSinkKind, Settings
from signproxy.credentials.bindings import unused_bindings
from signproxy.errors import Finding, Invalid, SettingsInvalid
from signproxy.policy.state import PolicyState
from signproxy.server import build

VALID = 0
INVALID = 1

T = TypeVar("T")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --json and how settings are found."""
    configuration.arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the findings, one per line."""
    findings: list[Finding] = []
    warnings: list[Finding] = []
    state: PolicyState | None = None
    settings = _tried(lambda: configuration.settings_of(options), findings)
    if settings is not None:
        state = check(settings, findings)
    if settings is not None and state is not None:
        storages = [storage for catalog in state.catalogs.values() for storage in catalog.storages.values()]
        warnings = unused_bindings(storages, build.bindings(settings), path="storages")
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


def check(settings: Settings, findings: list[Finding]) -> PolicyState | None:
    """Make everything that a start makes, short of listening; add what is wrong to `findings`."""
    _tried(lambda: build.authenticator(settings), findings)
    _tried(lambda: asyncio.run(_make_providers(settings)), findings)
    # Whoever checks need not be whoever serves: an empty audit file of the wrong owner must not be left behind.
    findings += _audit_faults(settings)
    return _tried(lambda: build.policy_source(settings).load(0), findings)


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
    if settings.audit.sink is not AuditSinkKind.FILE:
        return
    file = Path(settings.audit.path)
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
