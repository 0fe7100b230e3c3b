"""Prove the lattice of privileges, bit by bit."""

from __future__ import annotations

import sys

import pytest

from signproxy.policy.privileges import PRIVILEGES, Privilege, PrivilegeUnknown, mask_of, names_of

# Read from SUPER_PRIVILEGES in Polaris' authorizer, which lists it the other way round.
_NAMESPACE = {
    "NAMESPACE_CREATE": {"NAMESPACE_CREATE", "NAMESPACE_LIST"},
    "NAMESPACE_DROP": {"NAMESPACE_DROP"},
    "NAMESPACE_LIST": {"NAMESPACE_LIST"},
    "NAMESPACE_READ_PROPERTIES": {"NAMESPACE_READ_PROPERTIES", "NAMESPACE_LIST"},
    "NAMESPACE_WRITE_PROPERTIES": {"NAMESPACE_WRITE_PROPERTIES", "NAMESPACE_READ_PROPERTIES", "NAMESPACE_LIST"},
    "NAMESPACE_FULL_METADATA": {
        "NAMESPACE_FULL_METADATA",
        "NAMESPACE_CREATE",
        "NAMESPACE_DROP",
        "NAMESPACE_LIST",
        "NAMESPACE_READ_PROPERTIES",
        "NAMESPACE_WRITE_PROPERTIES",
    },
}
_VIEW = {
    "VIEW_CREATE": {"VIEW_CREATE", "VIEW_LIST"},
    "VIEW_DROP": {"VIEW_DROP"},
    "VIEW_LIST": {"VIEW_LIST"},
    "VIEW_READ_PROPERTIES": {"VIEW_READ_PROPERTIES", "VIEW_LIST"},
    "VIEW_WRITE_PROPERTIES": {"VIEW_WRITE_PROPERTIES", "VIEW_READ_PROPERTIES", "VIEW_LIST"},
    "VIEW_FULL_METADATA": {
        "VIEW_FULL_METADATA",
        "VIEW_CREATE",
        "VIEW_DROP",
        "VIEW_LIST",
        "VIEW_READ_PROPERTIES",
        "VIEW_WRITE_PROPERTIES",
    },
}
_TABLE_METADATA = {
    "TABLE_FULL_METADATA",
    "TABLE_READ_PROPERTIES",
    "TABLE_WRITE_PROPERTIES",
    "TABLE_CREATE",
    "TABLE_DROP",
    "TABLE_LIST",
}

IMPLIES: dict[str, set[str]] = {
    "TABLE_REMOTE_SIGN": {"TABLE_REMOTE_SIGN"},
    "TABLE_READ_DATA": {"TABLE_READ_DATA", "TABLE_READ_PROPERTIES", "TABLE_LIST"},
    "TABLE_WRITE_DATA": {
        "TABLE_WRITE_DATA",
        "TABLE_READ_DATA",
        "TABLE_READ_PROPERTIES",
        "TABLE_WRITE_PROPERTIES",
        "TABLE_LIST",
    },
    # No signing and no data: the trap of design A, where both came along.
    "TABLE_FULL_METADATA": _TABLE_METADATA,
    "TABLE_READ_PROPERTIES": {"TABLE_READ_PROPERTIES", "TABLE_LIST"},
    "TABLE_WRITE_PROPERTIES": {"TABLE_WRITE_PROPERTIES", "TABLE_READ_PROPERTIES", "TABLE_LIST"},
    "TABLE_CREATE": {"TABLE_CREATE", "TABLE_LIST"},
    "TABLE_DROP": {"TABLE_DROP"},
    "TABLE_LIST": {"TABLE_LIST"},
    **_NAMESPACE,
    **_VIEW,
    # Signing, but not a byte of data.
    "CATALOG_MANAGE_METADATA": {
        "CATALOG_MANAGE_METADATA",
        "TABLE_REMOTE_SIGN",
        *_TABLE_METADATA,
        *_NAMESPACE["NAMESPACE_FULL_METADATA"],
        *_VIEW["VIEW_FULL_METADATA"],
    },
    # Of our own: each of a volume's gives the ones before it, and nothing of a table.
    "VOLUME_READ_DATA": {"VOLUME_READ_DATA"},
    "VOLUME_WRITE_DATA": {"VOLUME_WRITE_DATA", "VOLUME_READ_DATA"},
    "VOLUME_MANAGE": {"VOLUME_MANAGE", "VOLUME_WRITE_DATA", "VOLUME_READ_DATA"},
    "CATALOG_MANAGE_CONTENT": {str(privilege.name) for privilege in Privilege},
}


def test_each_privilege_has_a_row() -> None:
    """A privilege without a row could imply anything unnoticed."""
    assert set(IMPLIES) == set(PRIVILEGES) == {privilege.name for privilege in Privilege}


@pytest.mark.parametrize("name", IMPLIES)
def test_a_grant_implies_exactly_what_polaris_says(name: str) -> None:
    """One bit too many hands out data that was not granted; one too few breaks a job that worked on Polaris."""
    assert PRIVILEGES[name] == sum(int(Privilege[implied]) for implied in IMPLIES[name])


def test_masks_are_plain_numbers() -> None:
    """Flags in the hot path would cost a decision several microseconds."""
    assert {type(mask) for mask in PRIVILEGES.values()} == {int}


def test_masks_fit_one_digit_of_the_interpreter() -> None:
    """With a wider mask, every decision on every table would compute with two digits instead of one."""
    assert max(PRIVILEGES.values()).bit_length() <= sys.int_info.bits_per_digit


def test_several_privileges_add_up() -> None:
    """A grant of two privileges must give both."""
    assert mask_of(["TABLE_REMOTE_SIGN", "TABLE_READ_DATA"]) == 1 | 2 | 16 | 1024
    assert mask_of([]) == 0


def test_an_unknown_privilege_names_the_nearest() -> None:
    """A typing error in a grant must not become a grant of nothing."""
    with pytest.raises(PrivilegeUnknown, match=r"'TABLE_REED_DATA' \(did you mean 'TABLE_READ_DATA'\?\)"):
        mask_of(["TABLE_REMOTE_SIGN", "TABLE_REED_DATA"])


@pytest.mark.parametrize(
    ("mask", "names"),
    (
        (0, ()),
        (1, ("TABLE_REMOTE_SIGN",)),
        (3, ("TABLE_REMOTE_SIGN", "TABLE_READ_DATA")),
        (PRIVILEGES["TABLE_WRITE_DATA"], ("TABLE_WRITE_DATA",)),
        (PRIVILEGES["CATALOG_MANAGE_CONTENT"], ("CATALOG_MANAGE_CONTENT",)),
        (PRIVILEGES["CATALOG_MANAGE_METADATA"] | 2, ("TABLE_READ_DATA", "CATALOG_MANAGE_METADATA")),
    ),
)
def test_a_mask_is_named_by_its_strongest_privileges(mask: int, names: tuple[str, ...]) -> None:
    """What an operator is told to grant must be the shortest list that works."""
    assert names_of(mask) == names
