"""Make sightings of a small catalog."""

from __future__ import annotations

from signproxy.inventory.learned.sighting import Changed, Dropped, Gone, Live, Renamed, Staged, TableFacts


def facts(name: str = "t", uuid: str = "1", **changes: str) -> TableFacts:
    return TableFacts("n", name, uuid, changes.pop("location", f"s3://lake/{name}"), changes)


def live(name: str = "t", uuid: str = "1", **changes: str) -> Live:
    return Live("lake", facts(name, uuid, **changes))


def dropped(name: str = "t") -> Dropped:
    return Dropped("lake", "n", name, "corp/alice", 0.0)


def changed(name: str = "t") -> Changed:
    return Changed("lake", "n", name)


def gone(name: str = "t") -> Gone:
    return Gone("lake", "n", name)


def renamed(name: str = "t", to: str = "u") -> Renamed:
    return Renamed("lake", "n", name, "n", to)


def staged(principal: str = "corp/alice") -> Staged:
    return Staged("lake", facts(), principal, 60.0)
