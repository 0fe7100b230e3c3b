"""What is kept of tables on disk: whole or not at all, for a process that has the secret, and never endless."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from signproxy.errors import SettingsInvalid
from signproxy.inventory.learned.claims import Unvouched
from signproxy.inventory.learned.registry import Change, Holding, LocationRegistry, Registration, Removal, Stocktaking
from signproxy.model import TableId
from signproxy.sealing import Purpose, Sealer, SealingSecret
from signproxy.server.process.sightings_file import SightingsFile
from tests.inventory.learned_rig import facts

OLD, NEW = SealingSecret(b"o" * 32), SealingSecret(b"n" * 32)
MOST = 4 << 20


def table(name: str = "t", catalog: str = "lake") -> TableId:
    return TableId(catalog, "sales\x1fdeep", name)


def kept(name: str = "t", since: int = 1) -> Registration:
    own = table(name)
    return Registration(
        own, f"uuid-{name}", (Holding(own, "lake", f"wh/{name}/", since), Holding(own, "cold", "x/", 9)), 7
    )


def file_in(directory: Path, *secrets: SealingSecret, most: int = MOST) -> SightingsFile:
    return SightingsFile(directory / "sightings", Sealer(secrets or (OLD,), Purpose.SIGHTINGS), most)


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    """After a restart any caller could claim any table."""
    taken = Stocktaking("lake", "digest", 12.5)
    assert file_in(tmp_path).load() == ()
    assert file_in(tmp_path).append([kept("a"), kept("b"), taken])
    assert file_in(tmp_path).append([Removal(table("a")), kept("c")])
    assert file_in(tmp_path).load() == (kept("b"), kept("c"), taken)
    assert stat.S_IMODE((tmp_path / "sightings").stat().st_mode) == 0o600


def test_nothing_can_be_read_from_it(tmp_path: Path) -> None:
    """Names and places of all tenants would lie on a volume that others mount."""
    file_in(tmp_path).append([kept("salaries")])
    content = (tmp_path / "sightings").read_bytes()
    assert b"salaries" not in content
    assert b"lake" not in content


@pytest.mark.parametrize(
    ("damage", "problem"),
    (
        (lambda whole: b"not ours\n" + whole, "line 1: not of the form of a sealed text"),
        (lambda whole: whole[:40] + b"AAAA" + whole[44:], "line 1: altered, or never sealed"),
        (lambda whole: whole + b"\n", "line 2: not of the form of a sealed text"),
        (lambda whole: whole + b"torn, and not by us", "ends with something that signproxy did not write"),
        (lambda whole: b"\xff\xfe" + whole, "line 1: not of the form of a sealed text"),
    ),
)
def test_a_file_that_is_not_ours_or_was_changed_is_a_fault(tmp_path: Path, damage: object, problem: str) -> None:
    """A process that may write there would say whose each place is, or make everything unknown in silence."""
    file_in(tmp_path).append([kept()])
    whole = (tmp_path / "sightings").read_bytes()
    (tmp_path / "sightings").write_bytes(damage(whole))  # type: ignore[operator]  # one of the above
    with pytest.raises(SettingsInvalid) as invalid:
        file_in(tmp_path).load()
    (finding,) = invalid.value.findings
    assert finding.path == "sightings.file"
    assert finding.problem.endswith(problem)


def test_another_secret_opens_nothing(tmp_path: Path) -> None:
    """A file from another installation would be believed."""
    file_in(tmp_path).append([kept()])
    with pytest.raises(SettingsInvalid, match="sealed with a secret that is not known here"):
        file_in(tmp_path, NEW).load()
    other = Sealer((OLD,), Purpose.CONTEXT)
    (tmp_path / "sightings").write_text(other.seal(b"x") + "\n")
    with pytest.raises(SettingsInvalid, match="not of the form"):
        file_in(tmp_path).load()


def test_a_secret_can_be_exchanged(tmp_path: Path) -> None:
    """The file would be lost with the first rotation."""
    file_in(tmp_path, OLD).append([kept()])
    assert file_in(tmp_path, NEW, OLD).load() == (kept(),)
    assert file_in(tmp_path, NEW).load() == (kept(),)


@pytest.mark.parametrize("left", (1, 4, 12, 13, 14, 60, -2, -1))
def test_a_line_that_a_crash_cut_short_is_no_fault_and_harms_no_other(tmp_path: Path, left: int) -> None:
    """A machine that lost power would not start again."""
    file = file_in(tmp_path)
    file.append([kept("a")])
    before = (tmp_path / "sightings").read_bytes()
    file.append([kept("b")])
    line = (tmp_path / "sightings").read_bytes()[len(before) :]
    (tmp_path / "sightings").write_bytes(before + line[:left])
    assert file.load() == (kept("a"),)
    assert file.append([kept("c")])
    assert file.load() == (kept("a"), kept("c"))


def test_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    """Tables that come and go would fill the volume."""
    file = file_in(tmp_path)
    for number in range(400):
        file.append([kept("a", number), kept("b"), Removal(table("b"))])
    size = (tmp_path / "sightings").stat().st_size
    assert file.load() == (kept("a", 399),)
    assert (tmp_path / "sightings").stat().st_size < size / 50
    assert file.load() == (kept("a", 399),)


def test_a_full_file_takes_nothing_more_and_stays_what_it_was(tmp_path: Path) -> None:
    """A write that fails half would cost what was there."""
    file = file_in(tmp_path, most=600)
    assert file.append([kept("a")])
    many = [kept(f"t{number}") for number in range(50)]
    assert not file.append(many)
    assert not file.take_over(Stocktaking("lake", "d", 1.0), many)
    assert file.load() == (kept("a"),)
    (tmp_path / "sightings").write_bytes(b"x" * 1201)
    with pytest.raises(SettingsInvalid, match="1,201 bytes, over 1,200"):
        file.load()


def test_many_processes_write_to_one_file(tmp_path: Path) -> None:
    """Lines of two workers would run into each other, or be lost while the file is written anew."""
    file_in(tmp_path).append([kept("first")])

    def work(worker: int) -> None:
        for number in range(40):
            file_in(tmp_path).append([kept(f"w{worker}-{number}")])
            if number % 10 == 0:
                file_in(tmp_path).load()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = {change.table.name for change in file_in(tmp_path).load() if isinstance(change, Registration)}
    assert names == {"first", *(f"w{worker}-{number}" for worker in range(4) for number in range(40))}


def test_a_large_inventory_is_written_and_read_whole(tmp_path: Path) -> None:
    """Beyond what one sealed line holds, tables would be missing."""
    many = [kept(f"t{number}") for number in range(3_000)]
    file, taken = file_in(tmp_path), Stocktaking("lake", "d", 1.0)
    assert file.take_over(taken, many)
    assert file.load() == (*many, taken)
    assert not (tmp_path / "sightings.new").exists()


def test_an_unreadable_file_is_put_aside_and_never_lost(tmp_path: Path) -> None:
    """Beginning anew would destroy what an operator could still look at."""
    (tmp_path / "sightings").write_text("theirs\n")
    file = file_in(tmp_path)
    aside = file.begin_anew()
    assert aside.read_text() == "theirs\n"
    assert file.load() == ()


def test_one_process_at_a_time_takes_the_inventory(tmp_path: Path) -> None:
    """Each worker would list a million tables by itself."""
    file = file_in(tmp_path)
    claimed = file.claim()
    assert claimed is not None
    assert file.claim() is None
    claimed.close()
    again = file.claim()
    assert again is not None
    again.close()


def test_a_registry_is_the_same_after_it_was_kept(tmp_path: Path) -> None:
    """The older owner of a place would be another one after a restart."""
    file, registry = file_in(tmp_path), LocationRegistry()
    told: list[Change] = []
    registry.on_change = told.append

    for name in ("a", "b", "c"):
        registry.register(TableId("lake", "sales", name), facts(name), facts(name).location, 5.0)
    registry.rename(TableId("lake", "sales", "a"), TableId("lake", "sales", "d"), 6.0)
    registry.remove(TableId("lake", "sales", "b"), 7.0)
    assert file.append(told)
    again = LocationRegistry()
    again.replay(file.load())
    assert sorted(map(str, again.of("lake"))) == sorted(map(str, registry.of("lake")))
    assert len(again) == 2


def test_a_place_that_nothing_vouches_for_stays_one_after_a_restart(tmp_path: Path) -> None:
    """A caller registers a file that names its neighbour's place, waits for a restart, and loads the table."""
    file, registry = file_in(tmp_path), LocationRegistry()
    told: list[Change] = []
    registry.on_change = told.append
    chosen = Unvouched(table("mine"), "s3://lake/wh/neighbours")
    renamed = Unvouched(table("renamed"), chosen.location)

    registry.unvouched.add(chosen)
    registry.unvouched.add(chosen)
    registry.rename(chosen.table, renamed.table, 6.0)
    assert [change for change in told if isinstance(change, Unvouched)] == [chosen, renamed]
    assert file.append(told)
    # Neither does an inventory make it credible, nor is it kept twice.
    assert file.append(told)
    assert file.take_over(Stocktaking("lake", "d", 5.0), [])
    assert file.load() == (Stocktaking("lake", "d", 5.0), chosen, renamed)

    again = LocationRegistry()
    again.on_change = told.append
    told.clear()
    again.replay(file.load())
    assert renamed in again.unvouched
    assert Unvouched(renamed.table, "s3://lake/wh/else") not in again.unvouched
    assert told == []


def test_an_inventory_replaces_its_own_catalog_but_for_what_is_newer(tmp_path: Path) -> None:
    """Another catalog, or a table that a worker made meanwhile, would be unknown after a restart."""
    file = file_in(tmp_path)
    other = Registration(table("o", "other"), "u", (), 1)
    old, new = kept("old"), Registration(table("new"), "u", kept("new").holdings, 5_000)
    file.append([other, old, new, Stocktaking("lake", "d", 0.0)])
    taken = Stocktaking("lake", "d", 5.0)
    assert file.take_over(taken, [kept("found")])
    assert set(file.load()) == {other, new, kept("found"), taken}
