"""Prove the lattice of privileges, bit by bit."""

from __future__ import annotations

import pytest

from signproxy.policy.privileges import PRIVILEGES, Privilege, PrivilegeUnknown, mask_of, names_of

IMPLIES: dict[str, set[str]] = {
    "TABLE_REMOTE_SIGN": {"TABLE_REMOTE_SIGN"},
    "TABLE_READ_DATA": {"TABLE_READ_DATA", "TABLE_READ_PROPERTIES"},
    "TABLE_WRITE_DATA": {
        "TABLE_WRITE_DATA",
        "TABLE_READ_DATA",
        "TABLE_READ_PROPERTIES",
        "TABLE_WRITE_PROPERTIES",
    },
    # No signing and no data: the trap of design A, where both came along.
    "TABLE_FULL_METADATA": {
        "TABLE_FULL_METADATA",
        "TABLE_READ_PROPERTIES",
        "TABLE_WRITE_PROPERTIES",
        "TABLE_CREATE",
    },
    "TABLE_READ_PROPERTIES": {"TABLE_READ_PROPERTIES"},
    "TABLE_WRITE_PROPERTIES": {"TABLE_WRITE_PROPERTIES", "TABLE_READ_PROPERTIES"},
    "TABLE_CREATE": {"TABLE_CREATE"},
    # Signing, but not a byte of data.
    "CATALOG_MANAGE_METADATA": {
        "CATALOG_MANAGE_METADATA",
        "TABLE_REMOTE_SIGN",
        "TABLE_FULL_METADATA",
        "TABLE_READ_PROPERTIES",
        "TABLE_WRITE_PROPERTIES",
        "TABLE_CREATE",
    },
    "CATALOG_MANAGE_CONTENT": {str(privilege.name) for privilege in Privilege},
}


def test_each_privilege_has_a_row() -> None:
    """A privilege without a row could imply anything unnoticed."""
    assert set(IMPLIES) == set(PRIVILEGES) == {privilege.name for privilege in Privilege}


@pytest.mark.parametrize("name", IMPLIES)
def test_a_grant_implies_exactly_what_polaris_says(name: str) -> None:
    """One bit too many hands out data that nobody granted; one too few breaks a job that worked on Polaris."""
    assert PRIVILEGES[name] == sum(int(Privilege[implied]) for implied in IMPLIES[name])


def test_masks_are_plain_numbers() -> None:
    """Flags in the hot path would cost a decision several microseconds."""
    assert {type(mask) for mask in PRIVILEGES.values()} == {int}


def test_several_privileges_add_up() -> None:
    """A grant of two privileges must give both."""
    assert mask_of(["TABLE_REMOTE_SIGN", "TABLE_READ_DATA"]) == 1 | 2 | 16
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
