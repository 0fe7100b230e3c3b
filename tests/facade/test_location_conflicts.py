"""Tables that nothing would be signed for: who makes one is told so, and how it is done instead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from signproxy.policy.table import table_key
from tests.catalog.scripted import Asked, Line, answer, error
from tests.facade.front import POLICY, SIGN, T1, Answer, Front, by_path, front, loaded, only

OTHER = "6f1a3c5e-0000-4000-8000-000000000002"
TABLES = "/v1/lake/namespaces/ns/tables"
RENAMED = {"source": {"namespace": ["ns"], "name": "t1"}, "destination": {"namespace": ["ns"], "name": "t9"}}


async def _renamed(product: Front) -> None:
    """Let `t1` be known, and renamed to `t9`."""
    product.upstream.says(loaded())
    await product.load()
    product.upstream.says(answer(204))
    assert (await product.ask("POST", "/v1/lake/tables/rename", body=RENAMED)).status == 204


async def _create(product: Front, *, staged: bool = False) -> Answer:
    return await product.ask("POST", TABLES, body={"name": "t1", "stage-create": staged}, headers=SIGN)


async def _stands_in_the_way(product: Front, who: str = "writer") -> None:
    """Let another table be known where the upstream is about to make one, and not have been seen just now."""
    product.upstream.says(loaded("old", location="s3://lakehouse/t1"))
    assert (await product.load("old", who=who)).status == 200
    product.learned.ground.of("lake").by_name[table_key("ns", "old")].hard -= 60.0


class TestCreates:
    """What an upstream makes where a table is already."""

    async def test_a_table_that_takes_the_place_of_a_renamed_one_is_not_said_to_be_made(self) -> None:
        """CREATE TABLE would succeed, and every INSERT after it be refused without a word on why."""
        async with front() as product:
            await _renamed(product)
            product.upstream.script = by_path(tables=loaded(uuid=OTHER), t9=loaded("t9", location="s3://lakehouse/t1"))
            found = await _create(product)
            assert (found.status, found.error["type"]) == (409, "LocationConflictException")
            assert "Drop it" in found.error["message"]
            assert "t9" not in found.content.decode()
            event = product.events()[-1]
            assert (event.call, event.http_status, event.decision.value) == ("create_table", 409, "deny")
            assert (event.reason, event.table) == ("table_not_served", "t1")
            assert "t9" in event.detail
            # The renamed one is served as before, and the new one can be dropped.
            assert await product.signs("t1/f", name="t9", method="PUT") == 200
            assert await product.signs("t1/f", method="PUT") == 403
            product.upstream.script = by_path(t1=answer(204))
            assert (await product.ask("DELETE", T1)).status == 204
            assert await product.signs("t1/f", name="t9", method="PUT") == 200

    async def test_a_location_of_its_own_is_the_way_out(self) -> None:
        """The page on the facade says so."""
        async with front() as product:
            await _renamed(product)
            product.upstream.script = by_path(tables=loaded(uuid=OTHER, location="s3://lakehouse/t1-2"), t9=loaded())
            assert (await _create(product)).status == 200
            assert await product.signs("t1-2/f", method="PUT") == 200
            assert await product.signs("t1/f", name="t9", method="PUT") == 200

    async def test_a_staged_table_is_refused_before_anything_is_written(self) -> None:
        """CREATE TABLE AS SELECT would compute for an hour, and then write its first file."""
        async with front() as product:
            await _renamed(product)
            product.upstream.script = by_path(tables=loaded(uuid=OTHER), t9=loaded("t9", location="s3://lakehouse/t1"))
            found = await _create(product, staged=True)
            assert (found.status, found.error["type"]) == (409, "LocationConflictException")
            assert "nothing was made" in found.error["message"]
            assert product.events()[-1].reason == "location_conflict"

    async def test_a_table_outside_of_the_roots_is_told_as_well(self) -> None:
        """A warehouse that the operator forgot would look like a lack of rights."""
        async with front() as product:
            product.upstream.script = by_path(
                tables=loaded(location="s3://elsewhere/t1"), register=loaded(location="s3://elsewhere/t1")
            )
            assert (await _create(product)).status == 409
            body = {"name": "t1", "metadata-location": "s3://elsewhere/t1/metadata/1.metadata.json"}
            assert (await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)).status == 409

    async def test_a_table_in_another_kind_of_store_is_passed_on(self) -> None:
        """A catalog may have tables in several clouds, of which signproxy serves one."""
        async with front() as product:
            product.upstream.script = by_path(tables=loaded(location="gs://elsewhere/t1"))
            assert (await _create(product)).status == 200
            assert (await _create(product, staged=True)).status == 200

    async def test_a_table_that_is_gone_by_now_does_not_stand_in_the_way(self) -> None:
        """What an engine without signproxy dropped would block its place until the server is restarted."""
        async with front() as product:
            await _stands_in_the_way(product)
            product.upstream.script = by_path(tables=loaded(uuid=OTHER))
            assert (await _create(product)).status == 200
            assert [asked.path.rpartition("/")[2] for asked in product.upstream.asked[-2:]] == ["tables", "old"]
            assert await product.signs(method="PUT") == 200

    async def test_a_table_that_the_caller_may_not_write_stays_where_it_is(self) -> None:
        """A caller whom an upstream denies a table could take its place by a create."""
        narrow = POLICY.replace(
            "- {role: writer, catalog: lake, privileges: [CATALOG_MANAGE_CONTENT]}",
            "- {role: writer, catalog: lake, namespace: ns, table: t1, privileges: [CATALOG_MANAGE_CONTENT]}\n"
            "  - {role: writer, catalog: lake, privileges: [TABLE_CREATE, TABLE_READ_DATA, TABLE_REMOTE_SIGN]}",
        )
        async with front(policy=narrow) as product:
            await _stands_in_the_way(product, "reader")
            product.upstream.script = by_path(tables=loaded(uuid=OTHER))
            assert (await _create(product)).status == 409

    async def test_an_upstream_that_cannot_be_asked_lets_nothing_go(self) -> None:
        """An outage must give no table to another."""
        async with front() as product:
            await _stands_in_the_way(product)
            product.upstream.script = by_path(tables=loaded(uuid=OTHER), old=error(503, "ServiceUnavailableException"))
            assert (await _create(product)).status == 409

    @pytest.mark.parametrize("switch", ("remote_signing: true\n    tables", "remote_signing: true\ndefault_catalog"))
    async def test_where_nothing_is_signed_nothing_is_refused(self, switch: str) -> None:
        """A facade that only passes catalog calls on has no business with places."""
        off = POLICY.replace(switch, switch.replace("true", "false"))
        async with front(policy=off) as product:
            product.upstream.script = by_path(tables=loaded(location="s3://elsewhere/t1"))
            assert (await _create(product)).status == 200


# An operator who lists the root has nothing vouched for, so that conflicts alone are left.
CHOOSING = POLICY.replace("authorizer: A", 'caller_locations: ["s3://lakehouse"]\n    authorizer: A')
DECLARED = POLICY.replace(
    "tables:\n", 'tables:\n  - {name: t8, namespace: ns, location: "s3://lakehouse/t8", catalog: lake}\n'
)


def _change(location: str) -> dict[str, object]:
    return {"requirements": [], "updates": [{"action": "set-location", "location": location}]}


class TestChosenPlaces:
    """What can be known before the upstream is asked."""

    @pytest.mark.parametrize(
        ("path", "body"),
        (
            (TABLES, {"name": "t9", "location": "s3://lakehouse/t1/"}),
            (TABLES, {"name": "t9", "location": "s3://lakehouse/t1/t9"}),
            (TABLES, {"name": "t9", "properties": {"write.data.path": "s3a://lakehouse/t1/data"}}),
            (TABLES, {"name": "t9", "location": "s3://elsewhere/t9"}),
            (TABLES, {"name": "t9", "location": "s3://lakehouse/t1", "stage-create": True}),
            (
                "/v1/lake/namespaces/ns/register",
                {"name": "t9", "metadata-location": "s3://lakehouse/t1/metadata/1.metadata.json"},
            ),
            ("/v1/lake/namespaces/ns/tables/t2", _change("s3://lakehouse/t1")),
            (
                "/v1/lake/transactions/commit",
                {
                    "table-changes": [
                        {"identifier": {"namespace": ["ns"], "name": "t2"}, **_change("s3://lakehouse/t1")}
                    ]
                },
            ),
        ),
    )
    async def test_a_place_that_is_anothers_is_refused_before_anything_is_made(self, path: str, body: object) -> None:
        """A table that nothing is signed for would be left in the catalog, or a commit that cannot be read."""
        async with front(policy=CHOOSING) as product:
            product.upstream.script = by_path(t1=loaded(), t2=loaded("t2", uuid=OTHER))
            await product.load()
            await product.load("t2")
            asked = len(product.upstream.asked)
            found = await product.ask("POST", path, body=body)
            assert (found.status, found.error["type"]) == (409, "LocationConflictException")
            assert "t1" not in found.content.decode()
            assert len(product.upstream.asked) == asked
            event = product.events()[-1]
            assert (event.reason, event.decision.value) == ("location_conflict", "deny")

    @pytest.mark.parametrize(
        ("path", "body"),
        (
            (TABLES, {"name": "t9", "location": "s3://lakehouse/t9"}),
            # What is in no store of S3 is none of signproxy's.
            (TABLES, {"name": "t9", "location": "file:/tmp/t9"}),
            ("/v1/lake/namespaces/ns/tables/t1", _change("s3://lakehouse/t1/deeper")),
            ("/v1/lake/namespaces/ns/tables/t1", _change("s3://lakehouse/t1")),
        ),
    )
    async def test_a_place_that_is_free_is_passed_on(self, path: str, body: object) -> None:
        """A table's own place would be in its own way."""
        async with front(policy=CHOOSING) as product:
            product.upstream.script = by_path(t1=loaded(), tables=loaded("t9", uuid=OTHER))
            await product.load()
            assert (await product.ask("POST", path, body=body)).status == 200

    async def test_a_place_whose_table_is_gone_is_free(self) -> None:
        """What an engine without signproxy dropped would block its place until the server is restarted."""
        async with front(policy=CHOOSING) as product:
            await _stands_in_the_way(product)
            product.upstream.script = by_path(tables=loaded(uuid=OTHER))
            body = {"name": "t1", "location": "s3://lakehouse/t1"}
            assert (await product.ask("POST", TABLES, body=body)).status == 200
            assert [asked.path.rpartition("/")[2] for asked in product.upstream.asked[-2:]] == ["old", "tables"]

    async def test_a_table_that_the_policy_declares_is_where_the_policy_says(self) -> None:
        """Its owner may register it again at the place that the operator gave it."""
        async with front(policy=DECLARED) as product:
            product.upstream.script = by_path(register=loaded("t8"))
            body = {"name": "t8", "metadata-location": "s3://lakehouse/t8/metadata/1.metadata.json"}
            assert (await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)).status == 200


class TestCommits:
    """A commit that was made is never said not to be."""

    async def test_it_stays_made(self) -> None:
        """Iceberg deletes the files of a commit that is answered with 409, and the table would refer to them."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()

            async def script(asked: Asked, line: Line) -> bytes:
                await asyncio.sleep(0)
                return loaded(location="s3://elsewhere/t1")

            product.upstream.script = script
            body: dict[str, object] = {"requirements": [], "updates": []}
            assert (await product.ask("POST", T1, body=body)).status == 200
            event = only([event for event in product.events() if event.call == "update_table"])
        assert "location_outside_roots" in event.detail


class TestDeclared:
    """What the policy says of a name that the upstream gives to a table."""

    @pytest.mark.parametrize(
        ("declared", "made"),
        (
            (f"uuid: {OTHER}, ", {}),
            ("", {"location": "s3://lakehouse/elsewhere"}),
        ),
    )
    async def test_a_table_that_the_policy_means_otherwise_is_not_said_to_be_made(
        self, declared: str, made: dict[str, Any]
    ) -> None:
        """CREATE TABLE would succeed, and no file of it ever be signed for."""
        row = f'tables:\n  - {{name: t8, namespace: ns, {declared}location: "s3://lakehouse/t8", catalog: lake}}\n'
        async with front(policy=POLICY.replace("tables:\n", row)) as product:
            said = loaded("t8", **made)
            product.upstream.script = by_path(tables=said, t8=said)
            found = await product.ask("POST", TABLES, body={"name": "t8"}, headers=SIGN)
            assert (found.status, product.events()[-1].reason) == (409, "table_not_served")
            place = str(made.get("location", "s3://lakehouse/t8")).removeprefix("s3://lakehouse/")
            assert await product.signs(f"{place}/f", name="t8", method="PUT") == 403
