"""Prove that files are read from one moment, and that nothing but a file is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from signproxy.documents import files as module
from signproxy.documents.files import ATTEMPTS, directory_behind, open_regular, read_together
from tests.documents.volume import Volume, rename_over

LIMIT = 100


def _pair(path: Path) -> tuple[Path, Path]:
    return path / "tls.crt", path / "tls.key"


def test_files_are_returned_in_the_order_that_was_asked_for(tmp_path: Path) -> None:
    """A certificate would be taken for its key."""
    certificate, key = _pair(tmp_path)
    certificate.write_bytes(b"certificate")
    key.write_bytes(b"key")
    assert read_together((key, certificate), limit=LIMIT) == [b"key", b"certificate"]
    assert read_together((key,), limit=LIMIT) == [b"key"]
    assert read_together((), limit=LIMIT) == []


def test_a_mounted_volume_is_read(tmp_path: Path) -> None:
    """A Secret could not be used as Kubernetes mounts it."""
    volume = Volume(tmp_path, {"tls.crt": b"1", "tls.key": b"1"})
    assert read_together(_pair(tmp_path), limit=LIMIT) == [b"1", b"1"]
    volume.swap({"tls.crt": b"2", "tls.key": b"2"})
    assert read_together(_pair(tmp_path), limit=LIMIT) == [b"2", b"2"]
    assert directory_behind(tmp_path).name.startswith("..2026")
    assert directory_behind(tmp_path / "elsewhere") == tmp_path / "elsewhere"


def _swap(volume: Volume) -> None:
    volume.swap({"tls.crt": b"new", "tls.key": b"new"})


def _rename_both(volume: Volume) -> None:
    for each in _pair(volume.path):
        rename_over(each, b"new")


def _write_both(volume: Volume) -> None:
    for each in _pair(volume.path):
        each.write_bytes(b"new")


@pytest.mark.parametrize("change", (_swap, _rename_both, _write_both))
@pytest.mark.parametrize("after", (1, 2))
def test_files_that_change_between_two_reads_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Volume], None], after: int
) -> None:
    """The new certificate with the old key breaks every handshake that follows."""
    volume = Volume(tmp_path, {"tls.crt": b"old", "tls.key": b"old"})
    real = module._content
    reads: list[Path] = []

    def read(path: Path, file: BinaryIO, limit: int) -> bytes:
        content = real(path, file, limit)
        reads.append(path)
        if len(reads) == after:
            change(volume)
        return content

    monkeypatch.setattr(module, "_content", read)
    assert read_together(_pair(tmp_path), limit=LIMIT) == [b"new", b"new"]
    assert len(reads) == 4


def test_a_volume_that_is_swapped_all_the_time_never_gives_a_mixture(tmp_path: Path) -> None:
    """What no hook of a test can reach: the moment between two system calls."""
    volume = Volume(tmp_path, {"tls.crt": b"0", "tls.key": b"0"})
    ended = threading.Event()

    def swap() -> None:
        for number in range(300):
            content = b"%d" % number
            volume.swap({"tls.crt": content, "tls.key": content})
        ended.set()

    writer = threading.Thread(target=swap)
    writer.start()
    read = 0
    while not ended.is_set():
        try:
            certificate, key = read_together(_pair(tmp_path), limit=LIMIT)
        except OSError:
            continue  # never at rest
        assert certificate == key
        read += 1
    writer.join()
    assert read > 0
    assert read_together(_pair(tmp_path), limit=LIMIT) == [b"299", b"299"]


def test_files_that_never_rest_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload must end, and say why it did not take place."""
    file = tmp_path / "a"
    file.write_bytes(b"")
    real = module._content
    reads: list[bytes] = []

    def read(path: Path, opened: BinaryIO, limit: int) -> bytes:
        reads.append(real(path, opened, limit))
        rename_over(file, b"x" * len(reads))
        return reads[-1]

    monkeypatch.setattr(module, "_content", read)
    with pytest.raises(OSError, match=f"it changed during each of {ATTEMPTS} readings: '{file}'"):
        read_together((file,), limit=LIMIT)
    assert len(reads) == ATTEMPTS


def test_a_file_that_vanishes_for_a_moment_is_sought_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a directory is replaced, a path may lead nowhere."""
    file = tmp_path / "a"
    real = module._read_once

    def read(paths: tuple[Path, ...], limit: int) -> list[bytes] | None:
        try:
            return real(paths, limit)
        finally:
            file.write_bytes(b"there")

    monkeypatch.setattr(module, "_read_once", read)
    assert read_together((file,), limit=LIMIT) == [b"there"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """Of several files the operator has to know which one."""
    (tmp_path / "tls.crt").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"tls\.key"):
        read_together(_pair(tmp_path), limit=LIMIT)


@pytest.mark.parametrize(("size", "fits"), ((LIMIT, True), (LIMIT + 1, False), (1 << 40, False)))
def test_an_enormous_file_is_not_read_into_memory(tmp_path: Path, size: int, fits: bool) -> None:
    """A wrong path that names a disk image would take the sidecar's memory, and with it the pod."""
    file = tmp_path / "disk.img"
    with file.open("wb") as stream:
        stream.truncate(size)
    if fits:
        assert read_together((file,), limit=LIMIT) == [bytes(LIMIT)]
    else:
        with pytest.raises(OSError, match=f"it is larger than {LIMIT} bytes: '{file}'"):
            read_together((file,), limit=LIMIT)


def _pipe(path: Path) -> Path:
    os.mkfifo(path / "pipe")
    return path / "pipe"


def _link_to_pipe(path: Path) -> Path:
    (path / "link").symlink_to(_pipe(path))
    return path / "link"


@pytest.mark.parametrize(
    ("make", "problem"),
    (
        (_pipe, "it is no regular file"),  # would block for ever
        (_link_to_pipe, "it is no regular file"),
        (lambda _: Path("/dev/zero"), "it is no regular file"),  # would never end
        (lambda path: path, "Is a directory"),
        (lambda path: path / "a\0b", "no file can have such a name"),
        (lambda path: path / "\ud800", "no file can have such a name"),
    ),
)
def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], Path], problem: str) -> None:
    """One odd name in a directory would hold up the start, or every reload after it."""
    path = make(tmp_path)
    with pytest.raises(OSError, match=problem):
        read_together((path,), limit=LIMIT)


def test_a_pipe_that_takes_a_files_name_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a look and the opening there is time to exchange a file for a pipe."""
    file, pipe = tmp_path / "a", _pipe(tmp_path)
    file.write_bytes(b"")
    real = module._check_regular
    looks: list[Path] = []

    def check(path: Path, found: os.stat_result) -> None:
        real(path, found)
        looks.append(path)
        pipe.rename(file)

    monkeypatch.setattr(module, "_check_regular", check)
    with pytest.raises(OSError, match="it is no regular file"):
        open_regular(file)
    assert looks == [file]


def _next_descriptor() -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """A reload every hour would end with no descriptor left for clients."""
    certificate, _ = _pair(tmp_path)
    certificate.write_bytes(b"x" * (LIMIT + 1))
    before = _next_descriptor()
    for paths in (_pair(tmp_path), (certificate,), (certificate, tmp_path)):
        with pytest.raises(OSError, match=r"No such file|larger|directory"):
            read_together(paths, limit=LIMIT)
    assert _next_descriptor() == before
