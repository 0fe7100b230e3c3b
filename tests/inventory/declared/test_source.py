"""Prove that a policy is loaded whole, from one moment, wherever it is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from signproxy.documents.files import ATTEMPTS
from signproxy.errors import PolicyInvalid
from signproxy.inventory.declared import snapshot as snapshot_module
from signproxy.inventory.declared.snapshot import FileSnapshot, files_of, read_consistently
from signproxy.inventory.declared.source import FilePolicySource
from tests.inventory.policy_text import BASE, TABLE
from tests.policies import MemoryPolicySource, MemorySnapshot

LINE = b'{"kind":"table","namespace":"a","name":"t","location":"s3://lake/wh/t"}\n'
FILES = {
    "a.yaml": BASE.encode(),
    "b.yml": f"tables:\n{TABLE}inventories: [big.ndjson]\n".encode(),
    "big.ndjson": LINE,
    "notes.txt": b"not a policy",
}

MakeSource = Callable[[dict[str, bytes]], FilePolicySource | MemoryPolicySource]


def _in_directory(path: Path) -> MakeSource:
    def make(files: dict[str, bytes]) -> FilePolicySource | MemoryPolicySource:
        for name, content in files.items():
            (path / name).write_bytes(content)
        return FilePolicySource(path)

    return make


def _in_mounted_volume(path: Path) -> MakeSource:
    """As Kubernetes mounts a ConfigMap: links through `..data` into a directory that is replaced as a whole."""

    def make(files: dict[str, bytes]) -> FilePolicySource | MemoryPolicySource:
        generation = path / "..2026_1"
        generation.mkdir()
        for name, content in files.items():
            (generation / name).write_bytes(content)
            (path / name).symlink_to(Path("..data", name))
        (path / "..data").symlink_to(generation.name)
        return FilePolicySource(path)

    return make


@pytest.fixture(params=("memory", "directory", "volume"))
def make_source(request: pytest.FixtureRequest, tmp_path: Path) -> MakeSource:
    kinds: dict[str, MakeSource] = {
        "memory": MemoryPolicySource,
        "directory": _in_directory(tmp_path),
        "volume": _in_mounted_volume(tmp_path),
    }
    return kinds[request.param]


def test_every_source_loads_all_files_into_one_state(make_source: MakeSource) -> None:
    """A policy means the same wherever it is kept."""
    state = make_source(FILES).load(7)
    assert state.epoch == 7
    assert state.rev == MemoryPolicySource(FILES).load(1).rev
    assert {str(table.id) for table in state.catalogs["lake"].tables()} == {"lake.sales.orders", "lake.a.t"}


def test_every_source_refuses_a_faulty_policy_whole(make_source: MakeSource) -> None:
    """Half a policy is another policy."""
    with pytest.raises(PolicyInvalid, match="no/such"):
        make_source({**FILES, "c.yaml": b"inventories: [no/such]"}).load(1)


def test_every_source_refuses_an_empty_policy(make_source: MakeSource) -> None:
    """A volume that was mounted empty must not turn everything off silently."""
    with pytest.raises(PolicyInvalid, match="no policy file"):
        make_source({}).load(1)


def test_every_source_loads_again(make_source: MakeSource) -> None:
    """Nothing of an earlier load may remain in a later one."""
    source = make_source(FILES)
    first, second = source.load(1), source.load(2)
    assert first is not second
    assert (first.rev, first.epoch, second.epoch) == (second.rev, 1, 2)
    assert first.catalogs["lake"] is not second.catalogs["lake"]


def test_a_memory_source_can_be_replaced() -> None:
    """Tests of a reload need a policy that changes."""
    source = MemoryPolicySource(BASE)
    first = source.load(1)
    source.replace(BASE + f"tables:\n{TABLE}")
    assert source.load(2).rev != first.rev


def test_a_single_file_brings_only_its_inventories(tmp_path: Path) -> None:
    """Other files beside it belong to another party."""
    _in_directory(tmp_path)({**FILES, "c.yaml": b"nonsense: 1"})
    (tmp_path / "one.yaml").write_bytes(FILES["a.yaml"] + b"inventories: [big.ndjson]\n")
    state = FilePolicySource(tmp_path / "one.yaml").load(1)
    assert len(state.catalogs["lake"].tables()) == 1


def test_hidden_files_are_no_policy(tmp_path: Path) -> None:
    """Editors leave their swap files beside the policy."""
    _in_directory(tmp_path)({**FILES, ".a.yaml": b"nonsense: 1", "a.yaml~": b"nonsense: 1"})
    assert [name for name, _ in FileSnapshot(tmp_path).documents()] == ["a.yaml", "b.yml"]


def test_a_missing_policy_says_where_it_was_sought(tmp_path: Path) -> None:
    """A wrong path is the most common fault of all."""
    with pytest.raises(PolicyInvalid, match=r"gone\.yaml: cannot be read: No such file or directory"):
        FilePolicySource(tmp_path / "gone.yaml").load(1)


@pytest.mark.parametrize(("size", "fits"), ((100, True), (101, False)))
def test_an_enormous_document_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, fits: bool
) -> None:
    """YAML of that size would hold the loader for minutes; inventories are for that."""
    monkeypatch.setattr(snapshot_module, "MAX_DOCUMENT_BYTES", 100)
    (tmp_path / "a.yaml").write_bytes(b"#" * size)
    if fits:
        assert FileSnapshot(tmp_path).documents() == [("a.yaml", b"#" * size)]
    else:
        with pytest.raises(PolicyInvalid, match="move tables and grants to an inventory"):
            FileSnapshot(tmp_path).documents()


def _content(snapshot: FileSnapshot) -> list[bytes]:
    contents = [content for _, content in snapshot.documents()]
    if snapshot.has("big.ndjson"):
        with snapshot.inventory("big.ndjson") as file:
            contents.append(file.read())
    return contents


def test_snapshots_agree(tmp_path: Path) -> None:
    """What is tested in memory must hold for files."""
    _in_directory(tmp_path)(FILES)
    assert _content(FileSnapshot(tmp_path)) == _content(MemorySnapshot(FILES))
    assert not FileSnapshot(tmp_path).has("gone")
    assert not MemorySnapshot(FILES).has("gone")


def _replace(path: Path, content: bytes) -> None:
    """Replace a file as careful programs do: at once, under another inode."""
    new = path.with_name(".new")
    new.write_bytes(content)
    new.rename(path)


@pytest.mark.parametrize("change", ("document", "inventory", "another", "fewer", "volume"))
def test_files_that_change_meanwhile_are_read_again(tmp_path: Path, change: str) -> None:
    """The grants of the new policy on the tables of the old one were never reviewed."""
    (_in_mounted_volume if change == "volume" else _in_directory)(tmp_path)(FILES)
    readings: list[list[bytes]] = []

    def read(snapshot: FileSnapshot) -> list[bytes]:
        readings.append(_content(snapshot))
        if len(readings) == 1:
            if change == "document":
                _replace(tmp_path / "a.yaml", b"new")
            elif change == "inventory":
                _replace(tmp_path / "big.ndjson", b"new")
            elif change == "another":
                (tmp_path / "c.yaml").write_bytes(b"new")
            elif change == "fewer":
                (tmp_path / "a.yaml").unlink()
            else:
                (tmp_path / "..2026_2").mkdir()
                (tmp_path / "..2026_2" / "a.yaml").write_bytes(b"new")
                (tmp_path / ".new").symlink_to("..2026_2")
                (tmp_path / ".new").rename(tmp_path / "..data")
            # An inventory that is read twice must not pass for unchanged because of its second reading.
            _content(snapshot) if change == "inventory" else None
        return readings[-1]

    found = read_consistently(tmp_path, read)
    assert len(readings) == 2
    assert found != readings[0]
    assert found == _content(FileSnapshot(tmp_path))


def test_a_fault_between_two_states_is_read_again(tmp_path: Path) -> None:
    """Half of each of two policies may contradict each other although both are sound."""
    _in_directory(tmp_path)(FILES)
    tries: list[int] = []

    def read(snapshot: FileSnapshot) -> str:
        snapshot.documents()
        tries.append(1)
        if len(tries) == 1:
            _replace(tmp_path / "a.yaml", b"new")
            raise PolicyInvalid([])
        return "sound"

    assert read_consistently(tmp_path, read) == "sound"
    assert len(tries) == 2


def test_a_fault_at_rest_is_told_at_once(tmp_path: Path) -> None:
    """Reading a faulty policy three times would not mend it."""
    _in_directory(tmp_path)(FILES)
    tries: list[int] = []

    def read(snapshot: FileSnapshot) -> str:
        tries.append(1)
        raise PolicyInvalid([])

    with pytest.raises(PolicyInvalid):
        read_consistently(tmp_path, read)
    assert len(tries) == 1


def test_a_file_that_vanishes_is_sought_again(tmp_path: Path) -> None:
    """While a volume is replaced, a path may lead nowhere for a moment."""
    _in_directory(tmp_path)(FILES)
    tries: list[int] = []

    def read(snapshot: FileSnapshot) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise FileNotFoundError(2, os.strerror(2), "a.yaml")
        return "there"

    assert read_consistently(tmp_path, read) == "there"


def test_files_that_never_rest_are_given_up(tmp_path: Path) -> None:
    """A reload must end, and say why it did not take place."""
    _in_directory(tmp_path)(FILES)
    tries: list[int] = []

    def read(snapshot: FileSnapshot) -> str:
        snapshot.documents()
        tries.append(1)
        _replace(tmp_path / "a.yaml", b"x" * len(tries))
        return "torn"

    with pytest.raises(PolicyInvalid, match=f"changed during each of {ATTEMPTS} readings"):
        read_consistently(tmp_path, read)
    assert len(tries) == ATTEMPTS


@pytest.mark.parametrize("name", ("a.yaml", "big.ndjson"))
def test_only_files_are_read(tmp_path: Path, name: str) -> None:
    """A pipe in the directory of the policy would hold up the start, and every reload, for ever."""
    _in_directory(tmp_path)(FILES)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(PolicyInvalid, match=r"it is no regular file|there is no file"):
        FilePolicySource(tmp_path).load(1)


# -- what to watch


@pytest.mark.parametrize(
    ("policy", "names"),
    (
        (b"tables: []\n", ()),
        (b"inventories: [big.ndjson]\n", ("big.ndjson",)),
        (b"inventories: [ 'a.ndjson' ,\n  \"b\",c ]\ntables: [x]\n", ("a.ndjson", "b", "c")),
        (b'{"tables": [], "inventories": ["a.ndjson"]}', ("a.ndjson",)),
        (b"inventories:\n- a.ndjson\n- 'b'\ntables:\n- x\n", ("a.ndjson", "b")),
        (b"inventories:\n  - a.ndjson # large\n\n  - b", ("a.ndjson", "large", "b")),
        (b"inventories: []\n", ()),
        (b"inventories:\n", ()),
        # As when it is loaded: nothing but names.
        (b"inventories: [../a, /etc/passwd, .hidden]\n", ()),
        (b"inventories: [a", ("a",)),
        (b"inventories: [a\0b]", ("a", "b")),
        (b"\xff inventories: [\xff]", (os.fsdecode(b"\xff"),)),
    ),
)
def test_a_policy_file_is_watched_with_its_inventories(tmp_path: Path, policy: bytes, names: tuple[str, ...]) -> None:
    """A grant that was taken out of an inventory would stay in force until the file beside it is touched."""
    file = tmp_path / "policy.yaml"
    file.write_bytes(policy)
    assert files_of(file) == (file, *(tmp_path / name for name in names))


@pytest.mark.parametrize("item", (b"inventories: [", b"inventories:\n- ", b"inventories: [a] "))
def test_a_hostile_policy_is_looked_through_in_bounded_time(tmp_path: Path, item: bytes) -> None:
    """An author of the policy could keep the watch busy, and so every later policy out."""
    file = tmp_path / "policy.yaml"
    file.write_bytes(item * 1_000_000)
    assert len(files_of(file)) < 10


def test_a_directory_is_watched_whole(tmp_path: Path) -> None:
    """A file that is added to it is a policy as well."""
    _in_directory(tmp_path)(FILES)
    assert files_of(tmp_path) == (tmp_path,)


def test_a_policy_that_is_not_there_is_watched(tmp_path: Path) -> None:
    """It may come."""
    assert files_of(tmp_path / "gone.yaml") == (tmp_path / "gone.yaml",)
    os.mkfifo(tmp_path / "pipe")
    assert files_of(tmp_path / "pipe") == (tmp_path / "pipe",)
