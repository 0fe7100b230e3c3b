"""The keys of a bulk delete: each is judged, those of one folder together, and others have their turn meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from signproxy.errors import Reason
from signproxy.gate import turns
from signproxy.gate.bulk_delete import AT_ONCE
from signproxy.gate.forwarded import Passed
from signproxy.gate.request import AskedFor
from signproxy.model import ByLocation, KeyScope, NamedTable, Subject, VolumeId
from signproxy.policy.catalog import Catalog
from signproxy.policy.resolver import PolicyResolver
from signproxy.policy.table import Table
from signproxy.s3.request import S3Request
from tests.gate.cases import judged
from tests.gate.forward_cases import POLICY, Site, caller, delete
from tests.policies import MemoryPolicySource


async def test_a_key_with_white_space_around_it_is_judged_like_any_other() -> None:
    """A clean-up of everything that lies below a prefix would fail as a whole for one odd name."""
    keys = ("wh/t1/a ", "wh/t1/metadata/v1.metadata.json ", " wh/t1/b", "wh/t1/c", "folders/ ", " stage/a")
    passed = await Site().passed(delete(*keys), "writer")
    assert passed.forwardable.request.delete_keys == ("wh/t1/a ", "wh/t1/c", "folders/ ")
    assert {refused.key: refused.reason for refused in passed.refused} == {
        # To a parser that trims, this is the metadata file.
        "wh/t1/metadata/v1.metadata.json ": Reason.METADATA_PROTECTED,
        " wh/t1/b": Reason.LOCATION_UNOWNED,
        " stage/a": Reason.LOCATION_UNOWNED,
    }


LONG = "wh/t1/" + "é" * 600


async def test_a_key_that_is_too_long_keeps_no_other_from_being_deleted() -> None:
    """A clean-up of a prefix would fail as a whole for one name, where S3 tells of that name alone."""
    keys = ("wh/t1/a", LONG, "wh/t1/b", "elsewhere/" + "a" * 1111, "wh/t1/" + "a" * 1018)
    passed = await Site().passed(delete(*keys), "writer")
    assert passed.forwardable.request.delete_keys == ("wh/t1/a", "wh/t1/b", keys[4])
    # Of a key that cannot be, nothing is told but that: not whether its place is another tenant's.
    assert [tuple(each) for each in passed.refused] == [(key, Reason.KEY_TOO_LONG) for key in (LONG, keys[3])]
    assert await Site().reason(delete(LONG), "writer") is Reason.KEY_TOO_LONG


async def test_keys_that_are_too_long_do_not_break_up_their_folder() -> None:
    """One of them in each folder would have each of a thousand keys judged for itself."""
    resolver = _Counted()
    site = Site(resolver=resolver)
    keys = [f"{LONG}{number}" if number % 10 == 0 else f"wh/t1/{number}" for number in range(1000)]
    passed = await site.passed(delete(*keys), "writer")
    assert (len(passed.refused), len(passed.forwardable.request.delete_keys)) == (100, 900)
    assert len(resolver.asked) <= 16


async def test_a_key_that_is_too_long_is_told_of_an_observed_caller_too() -> None:
    """What no store takes is nothing that a policy would change."""
    policy = POLICY.replace("roles: [readers], mode: observe", "roles: [readers, writers], mode: observe")
    site = Site(policy)
    passed = await site.passed(delete(LONG, "wh/t1/a"), "watched")
    assert (passed.observed, passed.forwardable.request.delete_keys) == (None, ("wh/t1/a",))
    assert [each.key for each in passed.refused] == [LONG]
    # Beside what the policy refuses it is a fault of the whole request, as other keys that may not be addressed.
    assert await site.reason(delete(LONG, "wh/t1/a", "wh/hidden/a"), "watched") is Reason.KEY_TOO_LONG


@pytest.mark.parametrize("turned", (False, True))
async def test_an_observed_callers_key_reaches_no_further_than_its_scope(turned: bool) -> None:
    """Beside a key that is only observed, a key for one table would delete the files of every other one."""
    site = Site(POLICY.replace("roles: [readers], mode: observe", "roles: [readers, writers], mode: observe"))
    subject = Subject.of(caller("watched", key=KeyScope("lake", "ns", "t1")))
    within, beyond = "wh/t1/metadata/v1.metadata.json", "wh/t2/data/x"
    keys = (beyond, within) if turned else (within, beyond)
    judged = await site.judge(delete(*keys), subject)
    assert judged.refused is not None
    # What may be deleted is deleted, and no more of it.
    judged = await site.judge(delete("wh/t1/data/x", *keys), subject)
    assert isinstance(judged.passed, Passed)
    assert judged.passed.forwardable.request.delete_keys == ("wh/t1/data/x",)
    assert {each.key for each in judged.passed.refused} == {within, beyond}
    # Within its scope it is observed as before.
    judged = await site.judge(delete("wh/t1/data/x", within), subject)
    assert isinstance(judged.passed, Passed)
    assert judged.passed.observed is not None
    assert judged.passed.refused == ()


class _Counted(PolicyResolver):
    """Takes down for what tables are looked for: the beginning of the first key."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked: list[str] = []

    def resolve(self, catalog: Catalog, target: NamedTable | ByLocation, request: S3Request) -> tuple[Table, ...]:
        self.asked.append(request.delete_keys[0][:7])
        return super().resolve(catalog, target, request)


@pytest.mark.parametrize(
    ("keys", "who", "most"),
    (
        # Nothing lies there, and nothing may be written there: said once for all that lies beside.
        ([f"elsewhere/{number}" for number in range(1000)], "writer", 1),
        ([f"wh/t1/{number}" for number in range(1000)], "reader", 1),
        # One table, a folder for each file: some at a time.
        ([f"wh/t1/{number}/f" for number in range(1000)], "writer", 16),
        # Each of them is a question of its own.
        ([f"wh/t1/v{number}.metadata.json" for number in range(1000)], "writer", 1016),
    ),
)
async def test_keys_of_one_folder_are_refused_together(keys: list[str], who: str, most: int) -> None:
    """A thousand refused keys cost as much as eighty reads, and one caller could stop a worker with them."""
    resolver = _Counted()
    site = Site(resolver=resolver)
    await site.reason(delete(*keys), who)
    assert 0 < len(resolver.asked) <= most


async def _turns_beside(work: Awaitable[object]) -> int:
    """Return how often another task had its turn while work was done."""
    had = 0

    async def others() -> None:
        nonlocal had
        while True:
            had += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await work
    beside.cancel()
    return had


async def test_a_long_bulk_delete_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes of the pod would time out beside a caller that sends some, and every other caller wait."""
    monkeypatch.setattr(turns, "LONGEST", 0.0)
    keys = [f"wh/t1/v{number}.metadata.json" for number in range(1000)]
    # Each of them is refused for itself.
    assert await _turns_beside(Site().reason(delete(*keys), "writer")) >= len(keys)


async def test_short_work_is_not_held_up_between_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bulk delete of a few keys would wait for a turn of the loop after each of them."""
    monkeypatch.setattr(turns, "LONGEST", 60.0)
    keys = [f"wh/t1/v{number}.metadata.json" for number in range(1000)]
    assert await _turns_beside(Site().reason(delete(*keys), "writer")) <= 2


async def test_bulk_deletes_are_judged_one_after_the_other() -> None:
    """A turn of the loop would be as long as there are connections that send one."""
    resolver = _Counted()
    gate = Site(resolver=resolver).gate

    async def one(prefix: str) -> None:
        asked = AskedFor(forward=delete(*[f"{prefix}/{number}" for number in range(500)]))
        assert (await judged(gate, Subject.of(caller("writer")), asked)).refused is None

    await asyncio.gather(one("wh/t1/a"), one("wh/t1/b"), one("wh/t1/c"))
    assert resolver.asked == sorted(resolver.asked)
    assert len(resolver.asked) >= 3 * 500 // AT_ONCE


async def test_what_is_revoked_while_keys_are_judged_is_not_deleted() -> None:
    """A revoke is acknowledged once no worker serves by the grant, and a thousand keys take a while."""
    site = Site()
    revoked = MemoryPolicySource(
        POLICY.replace("writers: {lake: [writer]}", "writers: {lake: [copier]}"), single_issuer=True
    )

    async def revoke() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        site.state = revoked.load(2)

    beside = asyncio.create_task(revoke())
    keys = [f"wh/t2/{number}" for number in range(1000)]
    assert await site.reason(delete(*keys), "writer") is Reason.NO_REMOTE_SIGN
    await beside


async def test_a_folder_below_which_another_table_lies_is_not_refused_with_its_neighbours() -> None:
    """Where tables may nest, the name of an object may be the folder of another table: each is asked for itself."""
    policy = POLICY.replace('"s3://my-other/wh"], remote', '"s3://my-other/wh"], overlap: allowed, remote').replace(
        'name: hidden, namespace: hr, location: "s3://my-bucket/wh/hidden"',
        'name: hidden, namespace: hr, location: "s3://my-bucket/wh/t1/x/hidden"',
    )
    passed = await Site(policy).passed(delete("wh/t1/x/a", "wh/t1/x/hidden", "wh/t1/x/hidden/f", "wh/t1/x/b"), "writer")
    assert passed.forwardable.request.delete_keys == ("wh/t1/x/a", "wh/t1/x/b")
    assert {refused.key: refused.reason for refused in passed.refused} == {
        "wh/t1/x/hidden": Reason.NO_REMOTE_SIGN,
        "wh/t1/x/hidden/f": Reason.NO_REMOTE_SIGN,
    }


async def test_the_folder_of_a_volume_is_not_refused_with_its_neighbours() -> None:
    """The marker of a volume's folder lies beside objects that lie nowhere."""
    passed = await Site().passed(delete("a", "folders", "b", "folders/f"), "writer")
    assert passed.forwardable.request.delete_keys == ("folders/f",)
    assert {refused.key: refused.reason for refused in passed.refused} == {
        "a": Reason.LOCATION_UNOWNED,
        "folders": Reason.OUTSIDE_TABLE,
        "b": Reason.LOCATION_UNOWNED,
    }


async def test_the_order_of_the_request_is_kept() -> None:
    """The event's digest of the keys could not be computed again from what was asked."""
    keys = [f"{place}/{number}" for number in range(100) for place in ("wh/t1", "elsewhere", "stage")]
    passed = await Site().passed(delete(*keys), "writer")
    assert passed.forwardable.request.delete_keys == tuple(key for key in keys if not key.startswith("else"))
    assert [refused.key for refused in passed.refused] == [key for key in keys if key.startswith("else")]


async def test_what_is_observed_holds_to_the_grammar_of_keys() -> None:
    """A key that a store may read as another one is served to no caller."""
    site = Site()
    assert await site.reason(delete("a", "b/../c", bucket="vault"), "watched") is Reason.KEY_DOT_SEGMENT
    # Where it lies is told all the same, and what the policy says of it.
    assert site.judgement.deny is not None
    assert (site.judgement.deny.reason, site.judgement.deny.volume) == (
        Reason.NO_WRITE_DATA,
        VolumeId("lake", "vault"),
    )
