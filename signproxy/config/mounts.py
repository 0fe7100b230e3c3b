"""Tell which files are mounted so that their replacement is never seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
"""https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html"""

_ESCAPED = re.compile(r"\\([0-7]{3})")


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
