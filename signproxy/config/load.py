"""Merge file, environment and flags into Settings, once and again; every fault is told with its place."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from signproxy.config.checks import contradictions_in
from signproxy.config.environment import Assignment, assignments_of
from signproxy.config.paths import anchor
from signproxy.config.settings import Settings
from signproxy.documents import MAX_FINDINGS, decode, load_yaml
from signproxy.documents.files import read_together
from signproxy.errors import DocumentInvalid, Finding, SettingsInvalid

MAX_FILE_BYTES = 4 * 1024 * 1024
"""Settings are small; a policy or a log was named by mistake where they are not."""

_DIGEST_CHARACTERS = 12


class Merged(msgspec.Struct, frozen=True):
    """What file, environment and flags say together, before it is checked."""

    file: str
    """The file's name in messages."""
    text: str
    """What the file holds; empty where there is none."""
    document: dict[str, object]
    assignments: list[Assignment]
    """What environment and flags put into the document, in this order."""

    def __repr__(self) -> str:
        return f"Merged(file={self.file!r}, …)"

    def decode(self) -> Settings:
        """Return it as settings, each well-formed; raise SettingsInvalid."""
        try:
            return decode(Settings, self.document, file=self.file)
        except DocumentInvalid as error:
            raise SettingsInvalid(self._attributed(finding) for finding in error.findings) from None

    def contradictions(self, settings: Settings) -> list[Finding]:
        """Return what one setting demands of another in vain."""
        found = (Finding(self.file, path, problem) for path, problem in contradictions_in(settings))
        return [*map(self._attributed, found)][:MAX_FINDINGS]

    def _attributed(self, finding: Finding) -> Finding:
        """Name the variable or flag instead of the file where the faulty value came from there."""
        for assignment in reversed(self.assignments):
            if assignment.covers(finding.path):
                return Finding(assignment.source, assignment.name, finding.problem)
        return finding


def load_settings(
    path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings of a file, overridden by `SIGNPROXY__SECTION__KEY`, overridden by flags (`section.key`).

    Paths in the file are relative to it, all others to the working directory. Raise SettingsInvalid with every
    fault.
    """
    merged = merge(path, environ, overrides or {})
    settings = merged.decode()
    findings = merged.contradictions(settings)
    if findings:
        raise SettingsInvalid(findings)
    return settings


class SettingsSource(msgspec.Struct, frozen=True):
    """A settings file, the flags over it, and the environment of this process between them."""

    file: str = ""
    overrides: dict[str, str] = {}
    """What the command line said, by the setting's path."""

    def load(self, environ: Mapping[str, str] | None = None) -> Settings:
        """Return the settings as they stand now. Raise SettingsInvalid with every fault."""
        file = Path(self.file) if self.file else None
        return load_settings(file, os.environ if environ is None else environ, self.overrides)


def digest_of(settings: Settings) -> str:
    """Return what tells these settings from others: in logs and metrics, instead of their content."""
    return hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()[:_DIGEST_CHARACTERS]


def merge(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, str]) -> Merged:
    """Return what file, environment and flags say together; raise SettingsInvalid if one of them cannot be read."""
    file = str(path) if path is not None else "settings"
    try:
        text, document = ("", {}) if path is None else _read(path)
        anchor(Settings, document, path.parent if path is not None else Path())
        assignments = assignments_of(Settings, document, environ, overrides)
    except DocumentInvalid as error:
        raise SettingsInvalid(error.findings) from None
    for assignment in assignments:
        assignment.apply(document)
    return Merged(file, text, document, assignments)


def _read(path: Path) -> tuple[str, dict[str, object]]:
    file = str(path)
    try:
        text = _text_of(path)
        document = load_yaml(text, file)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        if error.errno == errno.EFBIG:
            problem = f"larger than {MAX_FILE_BYTES} bytes: not a settings file"
        raise DocumentInvalid([Finding(file, "", problem)]) from None
    except UnicodeDecodeError:
        raise DocumentInvalid([Finding(file, "", "is not UTF-8 text")]) from None
    if not isinstance(document, dict):
        raise DocumentInvalid([Finding(file, "", "a mapping of sections expected, such as `listen:`")])
    return text, document


def _text_of(path: Path) -> str:
    if path.is_file():
        (raw,) = read_together((path,), limit=MAX_FILE_BYTES)
    else:
        # A pipe, as in `--config <(sops --decrypt …)`, or whatever says best itself why it cannot be read.
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return raw.decode("utf-8-sig")
