"""Unpack packages of Debian into the cache: by name, and without being root."""

from __future__ import annotations

import platform
import shutil
import tempfile
from pathlib import Path

from tests.e2e.stores.install import PrerequisiteMissing, _cache, _once, _run


def unpacked(package: str) -> Path:
    """Return the directory that a package is unpacked in, without those it depends on. Raise PrerequisiteMissing.

    apt keeps its lists in a directory of this run's own: those of the system are root's, and may be missing or old.
    """
    release = platform.freedesktop_os_release()
    home = _cache() / "debian" / f"{package}-{release['ID']}-{release.get('VERSION_ID', 'rolling')}"
    with _once(home) as missing:
        if missing:
            if shutil.which("apt-get") is None:
                raise PrerequisiteMissing(f"{package} is a package of Debian, and there is no apt-get: install it")
            with tempfile.TemporaryDirectory(dir=home.parent) as name:
                _fetch(package, Path(name))
                (archive,) = Path(name).glob("*.deb")
                _run(package, ("dpkg-deb", "--extract", str(archive), f"{name}/root"))
                Path(name, "root").rename(home)
    return home


def _fetch(package: str, directory: Path) -> None:
    """Put the archive of a package into a directory."""
    for partial in ("state/lists/partial", "cache/archives/partial"):
        (directory / partial).mkdir(parents=True)
    settings = {
        "Dir::State": f"{directory}/state",
        "Dir::Cache": f"{directory}/cache",
        # Nothing else uses these directories, and root need not become a user who may not write there.
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    _run(f"{package}: lists", ("apt-get", *options, "--quiet", "update"))
    _run(package, ("env", f"--chdir={directory}", "apt-get", *options, "--quiet", "download", package))
