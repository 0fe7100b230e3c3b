"""Keep who holds which place, where places come and go while requests are served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class _Node(msgspec.Struct, Generic[T], gc=False):
    """A folder: who holds it, and the folders below. Nothing points upwards, so nothing needs the collector."""

    owners: tuple[T, ...] = ()
    children: dict[str, _Node[T]] = {}


class PlaceTree(Generic[T]):
    """Places by bucket and folder; owners are told apart by identity.

    A `LocationIndex` answers faster and is smaller, but can neither forget a place nor tell what lies below one.
    """

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: dict[str, _Node[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def add(self, bucket: str, prefix: str, owner: T) -> None:
        """Let an owner hold a place as well; `prefix` ends with a slash."""
        node = self._buckets.get(bucket)
        if node is None:
            node = self._buckets[bucket] = _Node()
        for segment in prefix[:-1].split("/"):
            child = node.children.get(segment)
            if child is None:
                child = node.children[segment] = _Node()
            node = child
        if not any(known is owner for known in node.owners):
            node.owners = (*node.owners, owner)

    def remove(self, bucket: str, prefix: str, owner: T) -> None:
        """Take a place from an owner who holds it, and drop the folders that are no longer needed."""
        way: list[tuple[dict[str, _Node[T]], str]] = [(self._buckets, bucket)]
        node = self._buckets[bucket]
        for segment in prefix[:-1].split("/"):
            way.append((node.children, segment))
            node = node.children[segment]
        node.owners = tuple(known for known in node.owners if known is not owner)
        for folders, name in reversed(way):
            if folders[name].owners or folders[name].children:
                break
            del folders[name]

    def over(self, bucket: str, key: str) -> tuple[T, ...]:
        """Return the owners of places that the key lies below, or that the list prefix reaches past."""
        node = self._buckets.get(bucket)
        if node is None:
            return ()
        found: tuple[T, ...] = ()
        # What follows the last slash is the object's own name: no place has it.
        for segment in key.split("/")[:-1]:
            node = node.children.get(segment)
            if node is None:
                break
            if node.owners:
                found = node.owners if not found else _joined(found, node.owners)
        return found

    def below(self, bucket: str, prefix: str) -> Iterator[T]:
        """Yield the owners of places that begin with `prefix`; one may come several times."""
        node = self._buckets.get(bucket)
        *folders, begun = prefix.split("/")
        for segment in folders:
            if node is None:
                return
            node = node.children.get(segment)
        if node is None:
            return
        if not begun:
            yield from node.owners
        waiting = [child for name, child in node.children.items() if name.startswith(begun)]
        while waiting:
            node = waiting.pop()
            yield from node.owners
            waiting.extend(node.children.values())

    def alike(self, bucket: str, prefix: str, fold: Callable[[str], str]) -> Iterator[T]:
        """Yield what `meeting` would if folders were one whose names `fold` makes equal. Only siblings are read."""
        top = self._buckets.get(bucket)
        nodes = [] if top is None else [top]
        for segment in prefix[:-1].split("/"):
            wanted = fold(segment)
            nodes = [child for node in nodes for name, child in node.children.items() if fold(name) == wanted]
            for node in nodes:
                yield from node.owners
        waiting = [child for node in nodes for child in node.children.values()]
        while waiting:
            node = waiting.pop()
            yield from node.owners
            waiting.extend(node.children.values())

    def meeting(self, bucket: str, prefix: str) -> Iterator[T]:
        """Yield the owners of places that contain this one, equal it or nest in it; one may come several times."""
        yield from self.over(bucket, prefix)
        yield from self.below(bucket, prefix)


def folded(text: str) -> str:
    """Return a text as one in which case has no meaning, by whichever rule a store goes."""
    # What a dotted capital I leaves behind where it is taken apart.
    return text.casefold().replace("\u0307", "")


def _joined(first: tuple[T, ...], second: tuple[T, ...]) -> tuple[T, ...]:
    return first + tuple(owner for owner in second if not any(known is owner for known in first))
