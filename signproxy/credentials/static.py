"""Provide credentials that the operator put into files or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import msgspec

from signproxy.credentials.credentials import Credentials
from signproxy.credentials.provider import OwnProvider
from signproxy.documents.files import read_together
from signproxy.errors import Finding, ProviderInvalid, nearest
from signproxy.model import SessionScope
from signproxy.s3.storage import Storage

MAX_FILE_BYTES = 65_536
"""Far more than a session token has; a wrong path must not read a disk image into memory."""

_FIELDS = ("access_key_id", "secret_access_key", "session_token")
_REQUIRED = _FIELDS[:2]
_SINGLE = {f"{field}_{source}": (field, source) for field in _FIELDS for source in ("file", "env")}
_FILES = ("file", *(name for name, (_, source) in _SINGLE.items() if source == "file"))
_KNOWN = ("file", "profile", *_SINGLE)

# The names that AWS' tools write, beside our own.
_JSON_NAMES = {
    "access_key_id": ("access_key_id", "AccessKeyId"),
    "secret_access_key": ("secret_access_key", "SecretAccessKey"),
    "session_token": ("session_token", "SessionToken", "Token"),
    "expires_at": ("expires_at", "Expiration"),
}


class StaticProvider(OwnProvider):
    """Read the key pair again for each refresh, so that a rotation needs no restart.

    Properties: for each of `access_key_id`, `secret_access_key` and `session_token` either `<field>_file`, a path,
    or `<field>_env`, the name of an environment variable; or `file`, a JSON object or an AWS shared credentials file
    with `profile`. The settings never hold a secret themselves.
    """

    def __init__(self) -> None:
        super().__init__()
        self._properties: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"StaticProvider({self._properties!r})"

    async def initialize(self, properties: Mapping[str, str]) -> None:
        """Check the properties; files and variables are read when credentials are asked for."""
        faults = list(_faults(properties))
        if faults:
            raise ProviderInvalid(faults)
        self._properties = dict(properties)

    async def get(self, storage: Storage, scope: SessionScope) -> Credentials:  # noqa: ARG002 - the interface's
        """Return what the files and variables hold now."""
        # Small files, but they need not be local.
        return await self._threads.run(lambda: _read(self._properties))

    def files(self) -> tuple[Path, ...]:
        """Return the files that hold the key pair."""
        return tuple(Path(where) for name, where in self._properties.items() if name in _FILES)


def _faults(properties: Mapping[str, str]) -> list[Finding]:
    faults = []
    for name, value in properties.items():
        if name in _FIELDS:
            problem = "secrets do not belong into the settings; name a file with {0}_file or a variable with {0}_env"
            faults.append(Finding("", name, problem.format(name)))
        elif name not in _KNOWN:
            faults.append(Finding("", name, f"unknown property{nearest(name, _KNOWN)}"))
        elif not value:
            faults.append(Finding("", name, "is empty"))
    single = [_SINGLE[name][0] for name in properties if name in _SINGLE]
    if "file" in properties:
        if single:
            faults.append(Finding("", "file", "holds the whole key pair; it cannot be mixed with single fields"))
        return faults
    if "profile" in properties:
        faults.append(Finding("", "profile", "selects a section of `file`, which is not given"))
    for field in _FIELDS:
        if single.count(field) > 1:
            faults.append(Finding("", f"{field}_file", f"{field}_env is given too; one of them is right"))
        if field in _REQUIRED and field not in single and field not in properties:
            faults.append(Finding("", f"{field}_file", f"missing: {field}_file, {field}_env or file is needed"))
    return faults


def _read(properties: Mapping[str, str]) -> Credentials:
    # Key id and secret may lie in two files: read between the two steps of a rotation they would not match, and the
    # store would answer with a riddle.
    contents = _contents({name: where for name, where in properties.items() if name in _FILES})
    if "file" in properties:
        return _parse(properties["file"], contents["file"], properties.get("profile", "default"))
    values = {}
    for name, where in properties.items():
        field, source = _SINGLE[name]
        if source == "file":
            values[field] = contents[name].strip()
        elif where in os.environ:
            values[field] = os.environ[where].strip()
        else:
            raise ProviderInvalid([Finding("", name, f"the environment has no variable {where!r}")])
    return Credentials(values["access_key_id"], values["secret_access_key"], values.get("session_token", ""))


def _contents(files: Mapping[str, str]) -> dict[str, str]:
    """Return the text of the files, by the property that names them, all as of one moment."""
    try:
        raw = read_together([Path(where) for where in files.values()], limit=MAX_FILE_BYTES)
    except OSError as error:
        path = str(error.filename or "")
        name = next((name for name, where in files.items() if str(Path(where)) == path), next(iter(files)))
        raise ProviderInvalid([Finding(path, name, f"cannot be read: {error.strerror}")]) from None
    texts = {}
    for (name, where), content in zip(files.items(), raw, strict=True):
        try:
            texts[name] = content.decode()
        except UnicodeDecodeError:
            # `from None`, here and below: these errors carry the text that they fail on.
            raise ProviderInvalid([Finding(where, name, "is not UTF-8")]) from None
    return texts


def _parse(path: str, content: str, profile: str) -> Credentials:
    if content.lstrip().startswith("{"):
        return _from_json(path, content)
    import configparser  # noqa: PLC0415 - only for files that AWS' tools wrote

    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(content)
    except configparser.Error:
        raise ProviderInvalid([Finding(path, "file", "is neither JSON nor a shared credentials file")]) from None
    if not parser.has_section(profile):
        hint = nearest(profile, parser.sections())
        raise ProviderInvalid([Finding(path, "profile", f"there is no section {profile!r}{hint}")])
    section = parser[profile]
    return _credentials(path, {field: section.get(f"aws_{field}", "").strip() for field in _FIELDS}, None)


def _from_json(path: str, content: str) -> Credentials:
    try:
        document = msgspec.json.decode(content, type=dict[str, str | int | float | None])
    except msgspec.DecodeError:
        raise ProviderInvalid([Finding(path, "file", "is not a JSON object of plain values")]) from None
    found = {
        field: next((document[name] for name in names if name in document), None)
        for field, names in _JSON_NAMES.items()
    }
    expires_at = found.pop("expires_at")
    texts = {field: value if isinstance(value, str) else "" for field, value in found.items()}
    return _credentials(path, texts, None if expires_at is None else _time(path, expires_at))


def _time(path: str, value: str | float) -> float:
    if not isinstance(value, str):
        return float(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        _refuse_time(path)
    if moment.tzinfo is None:
        _refuse_time(path)
    return moment.timestamp()


def _refuse_time(path: str) -> NoReturn:
    raise ProviderInvalid([Finding(path, "expires_at", "is neither Unix time nor RFC 3339 with a zone")]) from None


def _credentials(path: str, texts: Mapping[str, str], expires_at: float | None) -> Credentials:
    try:
        return Credentials(texts["access_key_id"], texts["secret_access_key"], texts["session_token"], expires_at)
    except ProviderInvalid as invalid:
        raise ProviderInvalid(Finding(path, found.path, found.problem) for found in invalid.findings) from None
