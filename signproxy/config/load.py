"""Merge file, environment and flags into Settings; every fault is told with the place that it came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from signproxy.config.checks import check
from signproxy.config.environment import Assignment, assignments_of
from signproxy.config.paths import anchor
from signproxy.config.settings import Settings
from signproxy.documents import MAX_FINDINGS, decode, load_yaml
from signproxy.errors import DocumentInvalid, Finding, SettingsInvalid

MAX_FILE_BYTES = 4 * 1024 * 1024
"""Settings are small; a policy or a log was named by mistake where they are not."""


def load_settings(
    path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings of a file, overridden by `SIGNPROXY__SECTION__KEY`, overridden by flags (`section.key`).

    Paths in the file are relative to it, all others to the working directory. Raise SettingsInvalid with every
    fault.
    """
    file = str(path) if path is not None else "settings"
    try:
        document = {} if path is None else _read(path)
        anchor(Settings, document, path.parent if path is not None else Path())
        assignments = assignments_of(Settings, document, environ, overrides or {})
        for assignment in assignments:
            assignment.apply(document)
        settings = _decode(document, file, assignments)
    except DocumentInvalid as error:
        raise SettingsInvalid(error.findings) from None
    findings = [_attributed(finding, assignments) for finding in check(settings, file)]
    if findings:
        raise SettingsInvalid(findings[:MAX_FINDINGS])
    return settings


def _read(path: Path) -> dict[str, object]:
    file = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise DocumentInvalid([Finding(file, "", f"larger than {MAX_FILE_BYTES} bytes: not a settings file")])
        document = load_yaml(raw.decode("utf-8-sig"), file)
    except OSError as error:
        raise DocumentInvalid([Finding(file, "", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise DocumentInvalid([Finding(file, "", "is not UTF-8 text")]) from None
    if not isinstance(document, dict):
        raise DocumentInvalid([Finding(file, "", "a mapping of sections expected, such as `listen:`")])
    return document


def _decode(document: dict[str, object], file: str, assignments: list[Assignment]) -> Settings:
    try:
        return decode(Settings, document, file=file)
    except DocumentInvalid as error:
        raise SettingsInvalid(_attributed(finding, assignments) for finding in error.findings) from None


def _attributed(finding: Finding, assignments: list[Assignment]) -> Finding:
    """Name the variable or flag instead of the file where the faulty value came from there."""
    for assignment in reversed(assignments):
        if finding.path == assignment.path or finding.path.startswith((f"{assignment.path}.", f"{assignment.path}[")):
            return Finding(assignment.source, assignment.name, finding.problem)
    return finding
