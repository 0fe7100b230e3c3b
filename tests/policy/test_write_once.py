"""Prove `overwrite: forbid`: whatever makes an object appear is guarded or refused."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.model import Allow, Deny
from signproxy.policy.catalog import Overlap
from signproxy.policy.table import Overwrite
from signproxy.s3.operation import Access, Operation
from signproxy.s3.request import S3Request
from tests.policy.world import World, request

KEY = "wh/orders/data/f"
WRITES = tuple(operation for operation in Operation if operation.access is Access.WRITE)
OTHERS = tuple(operation for operation in Operation if operation.access is not Access.WRITE)


def _write(operation: Operation, *, conditional: bool = False) -> S3Request:
    source = KEY if operation in {Operation.COPY_OBJECT, Operation.UPLOAD_PART_COPY} else None
    return request(operation, KEY, prefix="wh/orders/data/", delete_keys=(KEY,), source=source, conditional=conditional)


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("conditional", (False, True))
def test_without_the_rule_nothing_is_guarded(operation: Operation, conditional: bool) -> None:
    """A guard that was not asked for would break engines that overwrite."""
    world = World()
    decision = world.decide(_write(operation, conditional=conditional), world.table())
    assert isinstance(decision, Allow)
    assert not decision.write_once


@pytest.mark.parametrize("operation", Operation)
def test_what_makes_an_object_appear_is_guarded(operation: Operation) -> None:
    """A single unguarded way to write is a way to overwrite."""
    world = World()
    decision = world.decide(_write(operation), world.table(overwrite=Overwrite.FORBID))
    if operation is Operation.COPY_OBJECT:
        assert isinstance(decision, Deny)
        assert decision.reason is Reason.WRITE_ONCE
        assert decision.detail == "CopyObject, conditional: False"
    else:
        assert isinstance(decision, Allow)
        guarded = operation in {Operation.PUT_OBJECT, Operation.COMPLETE_MULTIPART_UPLOAD}
        assert decision.write_once is guarded


@pytest.mark.parametrize("operation", WRITES)
def test_a_foreign_condition_contradicts_the_guard(operation: Operation) -> None:
    """`If-Match` asks for exactly the overwriting that is forbidden."""
    world = World()
    decision = world.decide(_write(operation, conditional=True), world.table(overwrite=Overwrite.FORBID))
    assert isinstance(decision, Deny)
    assert decision.reason is Reason.WRITE_ONCE


@pytest.mark.parametrize("operation", OTHERS)
def test_conditional_reads_and_deletes_are_untouched(operation: Operation) -> None:
    """Caches read with If-None-Match all day."""
    world = World()
    decision = world.decide(_write(operation, conditional=True), world.table(overwrite=Overwrite.FORBID))
    assert isinstance(decision, Allow)
    assert not decision.write_once


def test_one_owner_that_forbids_is_enough() -> None:
    """Where a location is shared, the stricter table decides."""
    world = World(overlap=Overlap.ALLOWED)
    loose = world.table()
    strict = world.table("strict", "wh/orders/", overwrite=Overwrite.FORBID)
    for owners in ((loose, strict), (strict, loose)):
        decision = world.decide(_write(Operation.PUT_OBJECT), *owners)
        assert isinstance(decision, Allow)
        assert decision.write_once
        denial = world.decide(_write(Operation.COPY_OBJECT), *owners)
        assert isinstance(denial, Deny)
        assert denial.table == strict.id


def test_the_guard_is_judged_last() -> None:
    """Who may not write learns nothing of the table's rules."""
    world = World()
    table = world.table(overwrite=Overwrite.FORBID)
    write = request(Operation.PUT_OBJECT, "wh/orders/v1.metadata.json", conditional=True)
    assert world.reason(write, table) is Reason.METADATA_PROTECTED
