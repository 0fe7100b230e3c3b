"""What the pipeline knows of privileges and calls is what the server decides by."""

from __future__ import annotations

from signproxy.catalog.call import CallKind
from signproxy.catalog.needs import PURGE, REPLACES_TABLE, TABLE_ARRIVES, VIEW_ARRIVES
from signproxy.pipeline.lattice import BREADTH, CALLS, COPIES, SATISFIED_BY, WRITING_LISTS
from signproxy.policy.privileges import PRIVILEGES, Privilege, implied
from signproxy.s3.operation import Access, Operation


def test_the_same_privileges_satisfy_the_same() -> None:
    """A grant that requests stand on would be proposed for withdrawal."""
    assert set(SATISFIED_BY) == set(PRIVILEGES)
    for needed, others in SATISFIED_BY.items():
        by = {privilege.name for privilege in Privilege if implied(privilege) & Privilege[needed]}
        assert {needed, *others} == by, needed
    assert {name: mask.bit_count() for name, mask in PRIVILEGES.items()} == BREADTH


def test_every_call_that_needs_something_is_known() -> None:
    """A principal that only talks to the catalog would lose the right to it."""
    nothing = {"config", "tokens"}
    assert set(CALLS) == {kind.name.lower() for kind in CallKind} - nothing
    extra = {
        "register_table": REPLACES_TABLE,
        "update_table": CallKind.CREATE_TABLE.privileges,
        "commit_transaction": CallKind.CREATE_TABLE.privileges,
        "drop_table": PURGE,
        "rename_table": TABLE_ARRIVES,
        "rename_view": VIEW_ARRIVES,
    }
    for kind in CallKind:
        call = kind.name.lower()
        if call not in nothing:
            mask = 0
            for name in CALLS[call]:
                mask |= int(Privilege[name])
            assert mask == kind.privileges | extra.get(call, 0), call


def test_lists_of_writers_and_copies_are_the_servers() -> None:
    """A list of parts would count as reading, and writing as unused."""
    lists = {each.s3_name for each in Operation if each.access is Access.LIST and each.needs_write}
    assert set(WRITING_LISTS) == lists
    assert set(COPIES) == {each.s3_name for each in Operation if "Copy" in each.s3_name}
