"""Replace files as a mounted volume of Kubernetes does."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path


class Volume:
    """A directory that is written as kubelet writes a ConfigMap: each version whole, then one rename."""

    def __init__(self, path: Path, files: Mapping[str, bytes]) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._numbers = count(1)
        self.swap(files)

    def swap(self, files: Mapping[str, bytes]) -> None:
        """Replace all files at once, in the order of kubelet's own steps."""
        link = self.path / "..data"
        former = link.resolve() if link.is_symlink() else None
        version = self.path / f"..2026_07_01_12_00_{next(self._numbers):02}.123456789"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_bytes(content)
        temporary = self.path / "..data_tmp"
        temporary.symlink_to(version.name)
        temporary.rename(link)
        for name in files:
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(Path("..data", name))
        for entry in list(self.path.iterdir()):
            if not entry.name.startswith("..") and entry.name not in files:
                entry.unlink()
        if former is not None:
            shutil.rmtree(former)


def rename_over(path: Path, content: bytes) -> None:
    """Replace a file as careful programs do: at once, under another inode."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.rename(path)
