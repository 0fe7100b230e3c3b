"""Find what works, and is worth a word: secrets that others can read, files that will never be seen to change."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import inspect

from signproxy.config.fields import TlsSettings
from signproxy.config.identity import IssuerSettings
from signproxy.config.paths import is_file_property, says
from signproxy.config.s3 import PodSettings, S3Identity, S3Settings
from signproxy.config.settings import AdminSettings, AuditSettings, ContextSettings, ListenSettings, Settings
from signproxy.config.storage import ProviderSettings
from signproxy.config.sts import CHAINED_SECONDS, StsSettings
from signproxy.config.upstream import ExchangeSettings, InventorySettings, SightingsSettings, UpstreamSettings
from signproxy.diagnosis import Diagnosis, advised
from signproxy.documents import child, described, path_of

SECRETS = frozenset(
    {
        (TlsSettings, "key_file"),
        (ContextSettings, "secret_files"),
        (IssuerSettings, "secret_file"),
        (IssuerSettings, "token_file"),
        (UpstreamSettings, "token_file"),
        (ExchangeSettings, "client_secret_file"),
        (InventorySettings, "token_file"),
        (PodSettings, "token_file"),
        (StsSettings, "web_identity_token_file"),
    }
)
"""Settings that name a file which no other user may read. Files of credential providers are such files as well."""

WRITTEN = frozenset(
    {
        (SightingsSettings, "file"),
        (AuditSettings, "path"),
        (AuditSettings, "directory"),
        (ListenSettings, "socket"),
        (AdminSettings, "socket"),
        (S3Settings, "socket"),
    }
)
"""Settings that name what signproxy makes itself."""

MOUNTS = Path("/proc/self/mountinfo")
"""https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html"""

_ESCAPED = re.compile(r"\\([0-7]{3})")

_PUBLIC_PROPERTIES = frozenset({"ca_file"})


class NamedFile(NamedTuple):
    """A file that a setting names, and that is read."""

    path: str
    """Of the setting."""
    file: Path
    secret: bool


def advice(settings: Settings, file: str = "") -> Iterator[Diagnosis]:
    """Yield what an operator should know of the files that the settings name, and of the settings' own."""
    files = list(files_of(settings))
    for named in files:
        problem = _unreadable(named.file) or (_exposed(named.file) if named.secret else "")
        if problem:
            yield advised(named.path, problem)
    yield from _short_lived(settings)
    yield from _untold(settings)
    yield from _cut_short(settings)
    yield from _naming_their_owner(settings)
    own = [NamedFile("", Path(file), secret=False)] if file else []
    by_file = {named.file: named.path for named in (*files, *own)}
    for frozen in frozen_mounts(by_file):
        problem = f"{str(frozen)!r} is mounted by itself (subPath): its changes are never seen; mount the directory"
        yield advised(by_file[frozen], problem, "" if by_file[frozen] else file)
    for section, where in (("listen", settings.listen), ("admin", settings.admin), ("s3", settings.s3)):
        if where.socket and (problem := _open_to_others(Path(where.socket).parent)):
            yield advised(f"{section}.socket", problem)


def files_of(settings: Settings) -> Iterator[NamedFile]:
    """Yield every file that the settings name to be read, a policy directory among them."""
    yield from _walk(settings, "")


def _short_lived(settings: Settings) -> Iterator[Diagnosis]:
    """Say what clients carry in vain, once the process has ended or where they meet another sidecar."""
    carried = ["table tokens"] if settings.context.table_tokens else []
    carried += ["creates that are not committed"] if settings.upstreams else []
    carried += ["issued S3 keys"] if settings.s3.enabled and S3Identity.EMULATED in settings.s3.identities else []
    if carried and not settings.context.secret_files:
        problem = f"without one, {_listed(carried)} are nothing to this sidecar after a restart, and to any other"
        yield advised("context.secret_files", problem)


def _untold(settings: Settings) -> Iterator[Diagnosis]:
    """Say which clients would send an issued key to the store, as the facade cannot tell them where else to go."""
    if settings.s3.enabled and settings.upstreams and not settings.s3.client_url:
        problem = "without one, the facade tells clients that sign by themselves the store's address, and not ours"
        yield advised("s3.public_url", problem)


def _cut_short(settings: Settings) -> Iterator[Diagnosis]:
    """Say which sessions end sooner than they are set to, as another session asks for them."""
    for name, binding in settings.storages.items():
        sts, provider = binding.sts, settings.credentials.providers.get(binding.credentials)
        chained = provider is not None and provider.class_ == "assume-role" and not sts.web_identity_token_file
        if sts.role and chained and sts.duration_seconds > CHAINED_SECONDS:
            problem = f"{binding.credentials!r} assumes a role, whose sessions make no longer ones than an hour"
            yield advised(path_of("storages", name, "sts", "duration_seconds"), problem)


def _naming_their_owner(settings: Settings) -> Iterator[Diagnosis]:
    """Say of which stores a session tells more than it may, as far as the settings give them away."""
    for name, binding in settings.storages.items():
        if binding.sts.role and not binding.sts.policy_denies_sts:
            problem = (
                "MinIO takes uploads under any access key that exists, without its secret (GHSA-9c4q-hq6p-c237), and"
                " its sessions name the key that they were made with: use `vend: issued`"
            )
            yield advised(path_of("storages", name, "sts", "policy_denies_sts"), problem)


def _listed(words: list[str]) -> str:
    return " and ".join((*filter(None, [", ".join(words[:-1])]), words[-1]))


def _walk(value: object, path: str) -> Iterator[NamedFile]:
    match value:
        case msgspec.Struct():
            kind = described(type(value))
            fields = kind.fields if isinstance(kind, inspect.StructType) else ()
            for field in fields:
                below, where = getattr(value, field.name), child(path, field.encode_name)
                if says(field.type, "path"):
                    known = (type(value), field.name)
                    if below and known not in WRITTEN:
                        yield from _named(below, where, secret=known in SECRETS)
                else:
                    yield from _properties(value, where) if says(field.type, "file_properties") else _walk(below, where)
        case Mapping():
            for name, below in value.items():
                yield from _walk(below, child(path, name))
        case tuple():
            for index, below in enumerate(value):
                yield from _walk(below, child(path, index))
        case _:
            pass


def _named(value: str | tuple[str, ...], path: str, *, secret: bool) -> Iterator[NamedFile]:
    if isinstance(value, str):
        yield NamedFile(path, Path(value), secret)
    else:
        for index, file in enumerate(value):
            yield NamedFile(child(path, index), Path(file), secret)


def _properties(provider: msgspec.Struct, path: str) -> Iterator[NamedFile]:
    if isinstance(provider, ProviderSettings):
        for name, value in provider.properties.items():
            if is_file_property(name) and value:
                yield NamedFile(child(path, name), Path(value), name not in _PUBLIC_PROPERTIES)


def _unreadable(file: Path) -> str:
    try:
        file.stat()
    except OSError as error:
        return f"{str(file)!r} cannot be read: {error.strerror}"
    return "" if os.access(file, os.R_OK) else f"{str(file)!r} cannot be read by this user"


def _exposed(file: Path) -> str:
    """Say so if every user of the machine can read the file; its directories may keep them from it."""
    real = file.resolve()
    mode = real.stat().st_mode
    if not mode & stat.S_IROTH or not all(parent.stat().st_mode & stat.S_IXOTH for parent in real.parents):
        return ""
    permissions = f"{stat.S_IMODE(mode):04o}"
    return f"{str(file)!r} can be read by every user here (mode {permissions}); in Kubernetes, set defaultMode: 0440"


def _open_to_others(directory: Path) -> str:
    """Say so if others could put a socket of their own in the place of ours, and be sent the clients' tokens."""
    try:
        mode = directory.stat().st_mode
    except OSError:
        return ""
    if not mode & stat.S_IWOTH or mode & stat.S_ISVTX:
        return ""
    return f"in {str(directory)!r}, every user here can replace the socket by another (mode {stat.S_IMODE(mode):04o})"


def frozen_mounts(paths: Iterable[Path], mountinfo: str | None = None) -> Iterator[Path]:
    """Yield the paths that are, hold, or lie below what was mounted by itself out of a volume.

    That is what `subPath` of Kubernetes makes, and a single file as a volume of Docker: the mount goes on showing the
    old file after another one has taken its name.
    """
    if mountinfo is None:
        try:
            mountinfo = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            # Not there on other systems: nothing is known, and nothing is said.
            return
    roots = dict(_mounts(mountinfo))
    for path in paths:
        real = path.resolve()
        below = [Path(point) for point in roots if real in Path(point).parents]
        if any(_is_frozen(each, roots) for each in (real, *real.parents, *below)):
            yield path


def _is_frozen(path: Path, roots: dict[str, str]) -> bool:
    root = roots.get(str(path))
    if root is None or path == Path(path.anchor):
        return False
    # Volumes of Kubernetes keep their files in a directory `..<time>`, which another one takes the place of.
    return not path.is_dir() or any(part.startswith("..") for part in Path(root).parts)


def _mounts(mountinfo: str) -> Iterator[tuple[str, str]]:
    """Yield mount point and root of each mount; of several in one place the last is seen."""
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) > 4:
            root, point = (_ESCAPED.sub(lambda code: chr(int(code[1], 8)), field) for field in fields[3:5])
            yield point, root
