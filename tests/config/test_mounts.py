"""Mounts through which the replacement of a file is never seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from signproxy.config import advice
from signproxy.config.advice import frozen_mounts

CONFIG_MAP = "/var/lib/kubelet/pods/1/volumes/kubernetes.io~configmap/settings"
VERSION = "..2026_01_01_00_00_00.123456789"


def mountinfo(*points: tuple[str, Path | str]) -> str:
    """Return what the kernel says of mounts: where they come from, and where they are."""
    lines = ["22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw"]
    lines += [f"30 22 0:3 {root} {_escaped(point)} ro shared:2 - tmpfs tmpfs rw" for root, point in points]
    return "\n".join(lines) + "\n"


def _escaped(point: Path | str) -> str:
    return str(point).replace("\\", r"\134").replace(" ", r"\040")


@pytest.mark.parametrize(
    ("root", "point", "frozen"),
    (
        # The volume as a whole: its files are replaced by a link that is seen.
        (CONFIG_MAP, "volume", []),
        ("/", "volume", []),
        # subPath of a file, and of a directory below the volume.
        (f"{CONFIG_MAP}/{VERSION}/settings.yaml", "volume/settings.yaml", ["settings.yaml"]),
        (f"/{VERSION}/secret", "volume/secret", ["secret"]),
        (f"{CONFIG_MAP}/{VERSION}/policies", "volume/policies", ["policies", "policies/p.yaml"]),
        # `docker run -v /etc/settings.yaml:/volume/settings.yaml`, and a directory in the same way.
        ("/etc/settings.yaml", "volume/settings.yaml", ["settings.yaml"]),
        ("/etc/policies", "volume/policies", []),
        # One file of a policy directory.
        (f"/{VERSION}/p.yaml", "volume/policies/p.yaml", ["policies", "policies/p.yaml"]),
        # Somewhere else.
        (f"/{VERSION}/other", "elsewhere", []),
        ("/etc/hosts", "hosts", []),
    ),
)
def test_what_is_mounted_by_itself_is_found(root: str, point: str, frozen: list[str], tmp_path: Path) -> None:
    """A revoked grant would stay in force until the next restart, without a reason in sight."""
    volume = tmp_path / "volume"
    (volume / "policies").mkdir(parents=True)
    paths = [volume / name for name in ("settings.yaml", "secret", "policies", "policies/p.yaml")]
    for path in paths:
        if not path.exists():
            path.touch()
    found = frozen_mounts(paths, mountinfo((root, tmp_path / point)))
    assert [str(path.relative_to(volume)) for path in found] == frozen


def test_links_are_followed(tmp_path: Path) -> None:
    """A link to a mounted file changes as little as the file."""
    (tmp_path / "with space").mkdir()
    file = tmp_path / "with space" / "f"
    file.touch()
    link = tmp_path / "link"
    link.symlink_to(file)
    assert [*frozen_mounts([link], mountinfo(("/etc/f", file)))] == [link]


def test_the_root_is_no_such_mount(tmp_path: Path) -> None:
    """In a container, whose root may lie anywhere, every file would be warned about."""
    text = mountinfo().replace(" / / ", " /..layers/1 / ")
    assert [*frozen_mounts([tmp_path], text)] == []


def test_a_system_without_the_list_is_none_to_warn_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start on macOS would fail for a warning."""
    monkeypatch.setattr(advice, "MOUNTS", tmp_path / "none")
    assert [*frozen_mounts([tmp_path])] == []


def test_the_kernel_s_own_list_is_read(tmp_path: Path) -> None:
    """The form that the test thinks of may not be the kernel's."""
    assert [*frozen_mounts([tmp_path])] == []
    assert dict(advice._mounts(advice.MOUNTS.read_text()))["/"]
    assert os.sep == "/"
