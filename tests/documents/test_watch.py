"""Prove that no change of a file goes unseen, however it is made, and that nothing else counts as one."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

import pytest

from signproxy.documents import watch as module
from signproxy.documents.files import open_regular
from signproxy.documents.watch import RESTLESS_LOOKS, FileWatch
from tests.documents.volume import Volume, rename_over


@pytest.fixture(autouse=True)
def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what was just written for settled, so that each look of a test stands for itself."""
    monkeypatch.setattr(module, "YOUNG_NS", 0)


class PatientWatch(FileWatch):
    """A watch between whose looks the clock of the file system moves on: some tick only every 10 ms."""

    def changed(self) -> tuple[Path, ...]:
        found = super().changed()
        with tempfile.TemporaryFile() as probe:
            begun = os.fstat(probe.fileno()).st_ctime_ns
            while os.fstat(probe.fileno()).st_ctime_ns == begun:
                os.truncate(probe.fileno(), 1)
        return found


def watching(*paths: Path) -> FileWatch:
    watch = PatientWatch(lambda: paths)
    assert watch.changed() == ()
    return watch


def settled(watch: FileWatch) -> tuple[Path, ...]:
    """Return what the second look after a change shows; the first one waits for it to rest."""
    assert watch.changed() == ()
    changed = watch.changed()
    assert watch.changed() == ()
    return changed


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_files_at_rest_are_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy of a million tables would be read every two seconds."""
    file, directory = write(tmp_path / "a", b"1"), write(tmp_path / "policy" / "b.yaml", b"1").parent
    watch = watching(file, directory, tmp_path / "missing")
    opened: list[Path] = []
    monkeypatch.setattr(module, "open_regular", opened.append)
    for _ in range(3):
        assert watch.changed() == ()
    assert opened == []


# -- how files are replaced


@pytest.mark.parametrize("watched", ("directory", "files"))
def test_every_swap_of_a_mounted_volume_is_seen_at_once(tmp_path: Path, watched: str) -> None:
    """A watch that goes deaf after the first swap leaves a revoked grant in force until the next start."""
    volume = Volume(tmp_path, {"a.yaml": b"0", "b.yaml": b"same"})
    a, b = tmp_path / "a.yaml", tmp_path / "b.yaml"
    watch = watching(*((tmp_path,) if watched == "directory" else (a, b)))
    for number in (b"1", b"2", b"3"):
        volume.swap({"a.yaml": number, "b.yaml": b"same"})
        assert watch.changed() == (a,)
        assert watch.changed() == ()


def test_a_swap_that_changes_nothing_is_no_change(tmp_path: Path) -> None:
    """An operator who only labels a ConfigMap would make every sidecar load its policy."""
    volume = Volume(tmp_path, {"a.yaml": b"0"})
    watch = watching(tmp_path, tmp_path / "a.yaml")
    volume.swap({"a.yaml": b"0"})
    assert watch.changed() == ()


def test_files_that_come_and_go_with_a_swap_are_seen(tmp_path: Path) -> None:
    """A grant in a file of its own would stay out, or stay in force."""
    volume = Volume(tmp_path, {"a.yaml": b"0", "b.yaml": b"0"})
    watch = watching(tmp_path)
    volume.swap({"b.yaml": b"0", "c.yaml": b"0"})
    assert watch.changed() == (tmp_path / "a.yaml", tmp_path / "c.yaml")
    assert watch.changed() == ()


def test_a_swap_between_two_steps_of_kubelet_is_seen_once(tmp_path: Path) -> None:
    """The names of new files appear after the swap itself; a second reload for them would be one too many."""
    volume = Volume(tmp_path, {"a.yaml": b"0"})
    watch = watching(tmp_path)
    version = tmp_path / "..2026_later"
    write(version / "a.yaml", b"1")
    write(version / "new.yaml", b"1")
    (tmp_path / "..data_tmp").symlink_to(version.name)
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert watch.changed() == (tmp_path / "a.yaml", tmp_path / "new.yaml")
    (tmp_path / "new.yaml").symlink_to("..data/new.yaml")
    assert watch.changed() == ()
    volume.swap({"a.yaml": b"2", "new.yaml": b"1"})
    assert watch.changed() == (tmp_path / "a.yaml",)


def test_a_volume_that_is_swapped_during_a_look_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file would seem gone for a moment, and a policy without files is refused."""
    volume = Volume(tmp_path, {"a.yaml": b"0"})
    watch = watching(tmp_path)
    real = os.listdir
    calls: list[str] = []

    def listdir(path: str) -> list[str]:
        calls.append(path)
        if len(calls) == 1:
            volume.swap({"a.yaml": b"1"})
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    assert watch.changed() == (tmp_path / "a.yaml",)
    assert calls[0] != calls[-1]


def _in_place(path: Path) -> None:
    path.write_bytes(b"2")


def _renamed(path: Path) -> None:
    rename_over(path, b"2")


def _same_size_and_time(path: Path) -> None:
    """As `rsync --times` and `cp -p` do, which set the time back."""
    before = path.stat()
    path.write_bytes(b"2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _removed_and_made(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"2")


def _gone(path: Path) -> None:
    path.unlink()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


CHANGES = (_in_place, _renamed, _same_size_and_time, _removed_and_made, _gone, _pipe)


@pytest.mark.parametrize("change", (*CHANGES, _link_to_nothing))
def test_every_way_to_change_a_file_of_a_directory_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """A policy would take effect or not, depending on the editor."""
    file = write(tmp_path / "a.yaml", b"1")
    write(tmp_path / "b.yaml", b"1")
    watch = watching(tmp_path)
    change(file)
    assert settled(watch) == (file,)


@pytest.mark.parametrize("change", CHANGES)
def test_every_way_to_change_a_named_file_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """A rotated key would be used or not, depending on who rotates it."""
    file = write(tmp_path / "key", b"1")
    watch = watching(file, write(tmp_path / "other", b"1"))
    change(file)
    assert settled(watch) == (file,)


@pytest.mark.parametrize("change", (_in_place, _renamed, _removed_and_made, _gone))
def test_a_change_behind_a_link_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """Links are how configurations of several hosts are kept."""
    target = write(tmp_path / "elsewhere" / "v1", b"1")
    link = tmp_path / "link"
    link.symlink_to(target)
    watch = watching(link)
    change(target)
    assert settled(watch) == (link,)


@pytest.mark.parametrize("what", ("file", "directory"))
def test_a_link_to_another_target_is_seen_at_once(tmp_path: Path, what: str) -> None:
    """What a link is set to was made ready by another process: a deployment by links need not wait."""
    for version in ("v1", "v2"):
        write(tmp_path / version / "a", version.encode())
    link = tmp_path / "current"
    link.symlink_to("v1/a" if what == "file" else "v1")
    watch = watching(link)
    (tmp_path / "next").symlink_to("v2/a" if what == "file" else "v2")
    (tmp_path / "next").rename(link)
    assert watch.changed() == (link if what == "file" else link / "a",)
    assert watch.changed() == ()


def test_a_file_that_comes_back_is_seen(tmp_path: Path) -> None:
    """A volume that was mounted late would stay unread."""
    file, directory = tmp_path / "key", tmp_path / "policy"
    watch = watching(file, directory)
    write(file, b"1")
    assert settled(watch) == (file,)
    write(directory / "a.yaml", b"1")
    assert settled(watch) == (directory, directory / "a.yaml")
    file.unlink()
    assert settled(watch) == (file,)
    shutil.rmtree(directory)
    assert settled(watch) == (directory, directory / "a.yaml")


def test_a_file_that_was_touched_is_no_change(tmp_path: Path) -> None:
    """Backups and image layers touch files; each would cost a reload."""
    file = write(tmp_path / "a", b"1")
    watch = watching(file, tmp_path)
    file.touch()
    assert settled(watch) == ()
    rename_over(file, b"1")
    assert settled(watch) == ()
    file.chmod(0o600)
    assert settled(watch) == ()


def test_an_unreadable_file_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key whose permissions were taken away has been withdrawn."""
    file = write(tmp_path / "a", b"1")
    watch = watching(file)

    def denied(path: Path) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(module, "open_regular", denied)
        file.chmod(0o000)
        assert settled(watch) == (file,)
    file.chmod(0o600)
    assert settled(watch) == (file,)


def test_hidden_files_and_subdirectories_are_no_policy(tmp_path: Path) -> None:
    """Editors leave their swap files beside the policy, and some tools a `.git`."""
    watch = watching(tmp_path)
    write(tmp_path / ".a.yaml.swp", b"1")
    write(tmp_path / "below" / "a.yaml", b"1")
    assert settled(watch) == ()


def test_a_file_that_is_mounted_by_itself_never_changes(tmp_path: Path) -> None:
    """With `subPath` the pod sees the file of the first version for ever: that must not read as a change either."""
    volume = Volume(tmp_path / "volume", {"a.yaml": b"1"})
    mounted = tmp_path / "a.yaml"
    # A bind mount names the file itself, not its path; so does a second name of the same file.
    os.link((tmp_path / "volume" / "a.yaml").resolve(), mounted)
    watch = watching(mounted)
    volume.swap({"a.yaml": b"2"})
    assert settled(watch) == ()
    assert mounted.read_bytes() == b"1"


# -- files that are still being written


def test_a_file_that_grows_is_seen_once_it_rests(tmp_path: Path) -> None:
    """Half a policy may be sound, and lack the grants of the other half."""
    file = write(tmp_path / "a", b"")
    watch = watching(file)
    for number in range(RESTLESS_LOOKS):
        file.write_bytes(b"x" * (number + 1))
        assert watch.changed() == ()
    assert watch.changed() == (file,)
    assert watch.changed() == ()


def test_other_changes_wait_for_a_file_that_grows(tmp_path: Path) -> None:
    """A deployment that copies file by file would be loaded in halves."""
    first, second = write(tmp_path / "a", b""), write(tmp_path / "b", b"")
    watch = watching(first, second)
    first.write_bytes(b"1")
    assert watch.changed() == ()
    second.write_bytes(b"1")
    assert watch.changed() == ()
    assert watch.changed() == (first, second)


def test_a_file_that_never_rests_holds_up_nothing_for_long(tmp_path: Path) -> None:
    """A log in the directory of the policy would keep every revoked grant in force."""
    log, policy = write(tmp_path / "log", b""), write(tmp_path / "a.yaml", b"1")
    watch = watching(tmp_path)
    policy.write_bytes(b"2")
    seen: list[tuple[Path, ...]] = []
    for number in range(RESTLESS_LOOKS + 1):
        log.write_bytes(b"x" * (number + 1))
        seen.append(watch.changed())
    assert seen == [()] * RESTLESS_LOOKS + [(policy, log)]
    log.write_bytes(b"")
    assert watch.changed() == ()
    assert watch.changed() == (log,)


def test_a_file_that_is_gone_for_a_moment_is_no_change(tmp_path: Path) -> None:
    """Some editors remove a file before they write it; the old policy would be reported as lost."""
    file = write(tmp_path / "a", b"1")
    watch = watching(file, tmp_path)
    file.unlink()
    assert watch.changed() == ()
    file.write_bytes(b"1")
    assert settled(watch) == ()


def test_two_writes_within_one_tick_of_the_clock_are_both_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file written twice in a moment looks the same after the second time on file systems with coarse clocks."""
    file = write(tmp_path / "a", b"0")
    watch = watching(file)
    written = file.stat().st_ctime_ns
    monkeypatch.setattr(module, "YOUNG_NS", 60_000_000_000)
    monkeypatch.setattr(module, "state_of", lambda found: (found.st_ino, found.st_size, 1, 1, written))
    file.write_bytes(b"1")
    monkeypatch.setattr(module, "state_of", lambda found: (found.st_ino, found.st_size, 1, 2, written))
    assert watch.changed() == ()
    assert watch.changed() == (file,)
    file.write_bytes(b"2")
    assert watch.changed() == (file,)
    # Once it is old enough, looks alone will do.
    monkeypatch.setattr(module, "YOUNG_NS", 0)
    assert watch.changed() == ()
    file.write_bytes(b"3")
    assert watch.changed() == ()


# -- which files


def test_files_that_are_named_later_are_watched(tmp_path: Path) -> None:
    """A reload that brings another key file must not be the last one that is noticed."""
    old, new = write(tmp_path / "old", b"1"), write(tmp_path / "new", b"1")
    named = [old]
    watch = PatientWatch(lambda: named)
    watch.changed()
    named[:] = [new, tmp_path / "missing"]
    assert watch.changed() == ()
    old.write_bytes(b"2")
    assert settled(watch) == ()
    new.write_bytes(b"2")
    assert settled(watch) == (new,)
    write(tmp_path / "missing", b"1")
    assert settled(watch) == (tmp_path / "missing",)


@pytest.mark.parametrize("change", (_in_place, _renamed, Path.touch))
def test_a_file_that_changed_between_its_first_reading_and_its_first_look_counts(
    tmp_path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reload that first read it saw the old content, and no later one would look again."""
    old, new = write(tmp_path / "old", b"1"), write(tmp_path / "new", b"1")
    named = [old]
    watch = PatientWatch(lambda: named)
    watch.changed()
    monkeypatch.setattr(module, "YOUNG_NS", 2_000_000_000)
    change(new)
    named.append(new)
    assert watch.changed() == ()
    assert new in watch.changed()


def test_a_file_set_aside_counts_as_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reload that names another file would be followed by a second one."""
    old, new = write(tmp_path / "old", b"1"), write(tmp_path / "new", b"1")
    named = [old]
    watch = PatientWatch(lambda: named)
    later = time.time_ns() + 60_000_000_000
    monkeypatch.setattr("signproxy.documents.watch.time.time_ns", lambda: later)
    watch.changed()
    monkeypatch.setattr(module, "YOUNG_NS", 2_000_000_000)
    named.append(new)
    for _ in range(3):
        assert watch.changed() == ()


def test_a_file_that_is_named_twice_is_one(tmp_path: Path) -> None:
    """A certificate and its key may be one file, and lie in the directory of the policy."""
    file = write(tmp_path / "a", b"1")
    watch = watching(file, file, tmp_path)
    file.write_bytes(b"2")
    assert settled(watch) == (file,)


def test_what_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong path that names a disk would be read from end to end before an operator is told."""
    large, small = write(tmp_path / "a", b"x" * 11), write(tmp_path / "b", b"x" * 10)
    monkeypatch.setattr(module, "MAX_DIGESTED", 10)
    opened: list[Path] = []

    def opening(path: Path) -> BufferedReader:
        opened.append(path)
        return open_regular(path)

    monkeypatch.setattr(module, "open_regular", opening)
    watch = watching(large, small)
    assert opened == [small]
    for path in (small, large):
        path.touch()
    assert settled(watch) == (large,)


@pytest.mark.parametrize("path", ("/dev/zero", "/dev/stdin", "a\0b", "\ud800", "x" * 300))
def test_odd_names_and_devices_are_looked_at_but_not_read(path: str) -> None:
    """The look would never end."""
    assert settled(watching(Path(path))) == ()


def _content(root: Path) -> dict[str, bytes]:
    """Return what a reload would read."""
    return {path.name: path.read_bytes() for path in root.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_the_last_state_is_the_one_that_was_last_told(tmp_path: Path, seed: int) -> None:
    """What single ways to change a file do not show: one change hides another."""
    drawn = random.Random(seed)
    volume = Volume(tmp_path / "volume", {"v": b"0"})
    plain = write(tmp_path / "plain" / "p0", b"0").parent
    watch = watching(volume.path, plain)
    told = (_content(volume.path), _content(plain))
    reports = 0
    for _ in range(60):
        path = plain / f"p{drawn.randrange(4)}"
        content = b"%d" % drawn.randrange(3)
        match drawn.randrange(6):
            case 0 | 1:
                path.write_bytes(content)
            case 2:
                rename_over(path, content)
            case 3:
                path.unlink(missing_ok=True)
            case 4:
                volume.swap({f"v{drawn.randrange(2)}": content, "v": b"%d" % drawn.randrange(2)})
            case _:
                if path.exists():
                    path.touch()
        for _ in range(drawn.choice((0, 1, 1, 2, RESTLESS_LOOKS + 2))):
            if watch.changed():
                told = (_content(volume.path), _content(plain))
                reports += 1
    while watch.changed() or watch.changed():
        told = (_content(volume.path), _content(plain))
    assert told == (_content(volume.path), _content(plain))
    assert reports > 5
