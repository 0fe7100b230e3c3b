"""Prove who holds which place, while places come and go."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.policy.places import PlaceTree


@dataclass(frozen=True)
class Owner:
    """Equal owners are told apart: two tables may be equal in every field."""

    name: str = "same"


A, B, C = Owner(), Owner(), Owner()


def _tree(*held: tuple[str, Owner]) -> PlaceTree[Owner]:
    tree: PlaceTree[Owner] = PlaceTree()
    for prefix, owner in held:
        tree.add("lake", prefix, owner)
    return tree


def _ids(owners: object) -> list[int]:
    return [id(owner) for owner in owners]  # type: ignore[attr-defined]  # any iterable of owners


@pytest.mark.parametrize(
    ("key", "owners"),
    (
        ("wh/a/f", (A,)),
        ("wh/a/", (A,)),
        ("wh/a/x/y/z", (A,)),
        ("wh/a/deep/f", (A, B)),
        ("wh/a/deep/", (A, B)),
        ("wh/a/deep", (A,)),
        ("wh/a", ()),
        ("wh/", ()),
        ("wh/ab/f", ()),
        ("wh/A/f", ()),
        ("f", ()),
        ("", ()),
    ),
)
def test_a_key_lies_in_every_place_that_is_one_of_its_folders(key: str, owners: tuple[Owner, ...]) -> None:
    """Whole segments count, and the object's own name is none of them."""
    tree = _tree(("wh/a/", A), ("wh/a/deep/", B))
    assert _ids(tree.over("lake", key)) == _ids(owners)
    assert tree.over("cold", key) == ()


@pytest.mark.parametrize(
    ("prefix", "owners"),
    (
        ("wh/", (A, B, C)),
        ("", (A, B, C)),
        ("wh/a/", (A, B)),
        ("wh/a", (A, B, C)),
        ("wh/ab", (C,)),
        ("wh/a/deep/", (B,)),
        ("wh/a/d", (B,)),
        ("wh/a/x/", ()),
        ("wh/a/x/y/", ()),
        ("wh/A/", ()),
        ("wh/a/deep/x", ()),
    ),
)
def test_what_begins_with_a_prefix_is_found_whether_or_not_it_ends_a_folder(
    prefix: str, owners: tuple[Owner, ...]
) -> None:
    """A list shows whatever begins with its prefix; a claim meets whatever lies inside it."""
    tree = _tree(("wh/a/", A), ("wh/a/deep/", B), ("wh/ab/", C))
    assert sorted(_ids(tree.below("lake", prefix))) == sorted(_ids(owners))
    assert list(tree.below("cold", prefix)) == []


def test_one_place_may_have_several_owners_and_one_owner_several_places() -> None:
    """Locations may be shared where a catalog says so, and the consent of each owner is asked once."""
    tree = _tree(("wh/a/", A), ("wh/a/", B), ("wh/a/", A), ("wh/a/deep/", A))
    assert _ids(tree.over("lake", "wh/a/deep/f")) == _ids((A, B))
    tree.remove("lake", "wh/a/", A)
    assert _ids(tree.over("lake", "wh/a/deep/f")) == _ids((B, A))
    tree.remove("lake", "wh/a/", B)
    assert _ids(tree.over("lake", "wh/a/deep/f")) == _ids((A,))


def test_nothing_stays_of_places_that_were_given_up() -> None:
    """Tables come and go for years; their folders must not."""
    tree = _tree(("wh/a/b/c/", A), ("wh/a/x/", B))
    assert tree
    tree.remove("lake", "wh/a/b/c/", A)
    assert _ids(tree.below("lake", "")) == _ids((B,))
    assert list(tree._buckets["lake"].children["wh"].children["a"].children) == ["x"]
    tree.remove("lake", "wh/a/x/", B)
    assert not tree


def test_a_place_stays_when_one_inside_it_is_given_up() -> None:
    """The outer table would lose its directory by the end of the inner one."""
    tree = _tree(("wh/a/", A), ("wh/a/deep/x/", B))
    tree.remove("lake", "wh/a/deep/x/", B)
    assert _ids(tree.over("lake", "wh/a/f")) == _ids((A,))


_places = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(
    lambda parts: "".join(f"{part}/" for part in parts)
)


_cased = st.lists(st.sampled_from("aAbB"), min_size=1, max_size=3).map(
    lambda parts: "".join(f"{part}/" for part in parts)
)


@given(st.lists(st.tuples(st.booleans(), _places, st.sampled_from((A, B, C))), max_size=30), _places)
def test_it_answers_as_a_list_of_places_would(changes: list[tuple[bool, str, Owner]], asked: str) -> None:
    """A tree that loses a place gives it away; one that keeps it refuses it to every caller."""
    tree: PlaceTree[Owner] = PlaceTree()
    held: list[tuple[str, Owner]] = []
    for adds, prefix, owner in changes:
        known = any(prefix == other and owner is holder for other, holder in held)
        if adds:
            tree.add("lake", prefix, owner)
            if not known:
                held.append((prefix, owner))
        elif known:
            tree.remove("lake", prefix, owner)
            held = [(other, holder) for other, holder in held if (other, id(holder)) != (prefix, id(owner))]
    over = {id(owner) for prefix, owner in held if f"{asked}f".startswith(prefix)}
    below = sorted(id(owner) for prefix, owner in held if prefix.startswith(asked))
    assert set(_ids(tree.over("lake", f"{asked}f"))) == over
    assert len(tree.over("lake", f"{asked}f")) == len(over)
    assert sorted(_ids(tree.below("lake", asked))) == below
    assert bool(tree) is bool(held)


@given(st.lists(st.tuples(_cased, st.sampled_from((A, B, C))), max_size=12), _cased)
def test_places_that_fold_to_one_are_found_as_in_a_list_of_folded_ones(
    places: list[tuple[str, Owner]], asked: str
) -> None:
    """A store without letter case would open the one that is missed to the keys of the other."""
    tree: PlaceTree[Owner] = PlaceTree()
    for prefix, owner in places:
        tree.add("lake", prefix, owner)
    wanted = asked.lower()
    meeting = {
        id(owner) for each, owner in places if each.lower().startswith(wanted) or wanted.startswith(each.lower())
    }
    assert set(_ids(tree.alike("lake", asked, str.lower))) == meeting
    assert list(tree.alike("cold", asked, str.lower)) == []
