"""A caller who may create tables somewhere reaches for tables that this process has not seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from signproxy.errors import Reason
from tests.catalog.lax import WAREHOUSE, LaxCatalog
from tests.catalog.scripted import Asked, Line
from tests.facade.front import POLICY, SIGN, Answer, Front, front
from tests.waiting import never

VICTIM = f"{WAREHOUSE}/finance/salaries"
KEY = "wh/finance/salaries/data/f.parquet"
SIMPLE = {"type": "struct", "fields": []}

THIEVES = POLICY.replace(
    'roots: ["s3://lakehouse"]',
    'roots: ["s3://lakehouse"]\n    caller_locations: ["s3://lakehouse/sandbox"]',
    1,
).replace(
    "  - {role: writer, catalog: lake, privileges: [CATALOG_MANAGE_CONTENT]}",
    "  - {role: writer, catalog: lake, namespace: ns, privileges: [CATALOG_MANAGE_CONTENT]}\n"
    "  - {role: writer, catalog: lake, privileges: [NAMESPACE_CREATE]}\n"
    "  - {role: reader, catalog: lake, privileges: [TABLE_READ_PROPERTIES]}",
)
"""The writer may do everything in `ns`, and nothing elsewhere."""


@asynccontextmanager
async def lax_front(**changes: Any) -> AsyncIterator[tuple[Front, LaxCatalog]]:
    """Serve in front of a catalog that holds a table which this process has never seen."""
    catalog = LaxCatalog()
    catalog.namespace("ns")
    catalog.put("finance", "salaries")
    async with front(policy=THIEVES, **changes) as product:
        product.upstream.script = catalog
        yield product, catalog


async def create(product: Front, name: str = "mine", *, staged: bool = False, **body: object) -> Answer:
    content = {"name": name, "schema": SIMPLE, "stage-create": staged, **body}
    return await product.ask("POST", "/v1/lake/namespaces/ns/tables", body=content, headers=SIGN)


async def commit(product: Front, name: str, *updates: dict[str, Any], creates: bool = False) -> Answer:
    requirements = [{"type": "assert-create"}] if creates else []
    body = {"requirements": requirements, "updates": list(updates)}
    return await product.ask("POST", f"/v1/lake/namespaces/ns/tables/{name}", body=body, headers=SIGN)


async def reaches(product: Front, name: str = "mine", key: str = KEY) -> bool:
    """Return whether the thief gets a signature for the victim's file, by whichever route."""
    routes = (f"/v1/lake/namespaces/ns/tables/{name}/sign", "/v1/aws/s3/sign")
    return 200 in {
        await product.signs(key, name=name, method=method, path=path) for path in routes for method in ("GET", "PUT")
    }


async def rename(product: Front, source: str, target: str) -> Answer:
    names = {"source": source, "destination": target}
    body = {end: {"namespace": ["ns"], "name": name} for end, name in names.items()}
    return await product.ask("POST", "/v1/lake/tables/rename", body=body)


def planted(catalog: LaxCatalog, **more: Any) -> dict[str, Any]:
    """Put a metadata file into the thief's own place that names the victim's; return what registers it."""
    file = f"{WAREHOUSE}/ns/mine/metadata/1.metadata.json"
    catalog.files[file] = {"format-version": 2, "table-uuid": "u-1", "location": VICTIM, "properties": {}, **more}
    return {"name": "mine", "metadata-location": file}


def refused(found: Answer) -> bool:
    return found.status == 403 and found.error["type"] == "LocationNotAllowed"


# Every spelling that the catalog, or a store, may take for the victim's place or for one around or inside it.
SPELLINGS = (
    VICTIM,
    f"{VICTIM}/",
    f"{VICTIM}//",
    VICTIM.replace("s3://", "s3a://"),
    VICTIM.replace("s3://", "s3n://"),
    VICTIM.replace("s3://", "S3://"),
    f" {VICTIM}",
    f"{VICTIM}/data",
    f"{WAREHOUSE}/finance",
    f"{WAREHOUSE}/finance/",
    f"{WAREHOUSE}/ns/../finance/salaries",
    f"{WAREHOUSE}/ns/%2e%2e/finance/salaries",
    f"{WAREHOUSE}/finance%2Fsalaries",
    "finance/salaries",
    "/wh/finance/salaries",
)


class TestCreate:
    """The caller names the place of a table that is to be."""

    @pytest.mark.parametrize("location", SPELLINGS)
    @pytest.mark.parametrize("staged", (False, True))
    async def test_no_caller_gets_an_unseen_table_by_naming_its_place(self, location: str, staged: bool) -> None:
        """After each restart every table could be read and written by any caller that may create tables anywhere."""
        async with lax_front() as (product, catalog):
            found = await create(product, location=location, staged=staged)
            assert refused(found)
            assert (("ns",), "mine") not in catalog.tables
            assert not await reaches(product)
            assert (await product.ask("GET", "/v1/lake/namespaces/finance/tables/salaries", who="reader")).status == 200
            assert await product.signs(KEY, name="salaries", who="reader", path="/v1/aws/s3/sign") == 200

    async def test_the_refusal_names_the_way_out_and_no_other_table(self) -> None:
        """A caller that is refused would not know what to do, or would learn whose the place is."""
        async with lax_front() as (product, _):
            found = await create(product, location=VICTIM)
            assert "let the catalog choose" in found.error["message"]
            assert "salaries" not in found.error["message"]
            (event,) = product.events()
            assert event.reason == Reason.LOCATION_UNVOUCHED.code
            assert product.learned.alarms.counts

    @pytest.mark.parametrize(
        "name", ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
    )
    async def test_no_property_leads_to_an_unseen_table(self, name: str) -> None:
        """The place of the data would be judged less strictly than the place of the table."""
        async with lax_front() as (product, _):
            assert refused(await create(product, properties={name: f"{VICTIM}/data"}))
            assert (await create(product)).status == 200
            assert refused(await commit(product, "mine", {"action": "set-properties", "updates": {name: VICTIM}}))
            assert not await reaches(product)

    async def test_the_upstreams_own_choice_is_believed(self) -> None:
        """No table could be made at all."""
        async with lax_front() as (product, _):
            assert (await create(product)).status == 200
            assert await product.signs("wh/ns/mine/data/f", method="PUT", name="mine") == 200

    @pytest.mark.parametrize(
        "folder",
        (
            "mine",
            "mine/",
            "mine/inner",
            "mine-0123456789abcdef0123456789abcdef",
            "mine_6f1a3c5e-0000-4000-8000-000000000001",
        ),
    )
    async def test_the_layout_of_the_namespace_may_be_spelled_out(self, folder: str) -> None:
        """Trino names the place of every table that it creates."""
        async with lax_front() as (product, _):
            assert (await create(product, location=f"{WAREHOUSE}/ns/{folder}")).status == 200
            assert await product.signs(f"wh/ns/{folder.rstrip('/')}/data/f", method="PUT", name="mine") == 200

    @pytest.mark.parametrize(
        "folder",
        ("other", "mine2", "mine-2", "Mine", "mine-0123456789abcdef0123456789abcde", "mine%2e", "minemine", ""),
    )
    async def test_another_folder_of_the_namespace_may_be_another_tables(self, folder: str) -> None:
        """Inside a namespace each table could take the next one's place."""
        async with lax_front() as (product, catalog):
            catalog.put("ns", "other")
            catalog.put("ns", "mine-2")
            assert refused(await create(product, location=f"{WAREHOUSE}/ns/{folder}"))

    async def test_places_that_the_operator_lists_are_the_callers_to_choose(self) -> None:
        """A team with a folder of its own would need the operator for each table."""
        async with lax_front() as (product, _):
            assert (await create(product, location="s3a://lakehouse/sandbox/x")).status == 200
            assert await product.signs("sandbox/x/data/f", method="PUT", name="mine") == 200
            assert refused(await create(product, "own", location="s3://lakehouse/sandbox"))
            assert refused(await create(product, "own", location="s3://lakehouse/sandbox2/x"))

    async def test_a_place_in_a_bucket_of_no_storage_is_refused_as_one_that_cannot_be_served(self) -> None:
        """Nothing would be signed there. The refusal says so, and does not speak of another table."""
        async with lax_front() as (product, _):
            found = await create(product, location="s3://elsewhere/wh/x")
            assert (found.status, found.error["type"]) == (409, "LocationConflictException")

    @pytest.mark.parametrize("location", ("file:/tmp/x", "hdfs://n/x"))
    async def test_a_place_that_is_not_in_s3_is_left_to_the_catalog(self, location: str) -> None:
        """Nothing of such a table is ever signed: the catalog alone decides what it keeps there."""
        async with lax_front() as (product, catalog):
            assert (await create(product, location=location)).status == 200
            assert (("ns",), "mine") in catalog.tables
            assert await product.signs("x", method="PUT", name="mine") == 403

    async def test_an_upstream_that_does_not_tell_its_layout_vouches_for_nothing(self) -> None:
        """A catalog without such a property would have every place believed."""
        async with lax_front() as (product, catalog):
            catalog.namespaces["ns",] = {}
            assert refused(await create(product, location=f"{WAREHOUSE}/ns/mine"))

    async def test_an_upstream_that_reads_the_place_otherwise_is_found_out(self) -> None:
        """A layout that is vouched for would become a place that is not, on its way into the metadata."""
        async with lax_front() as (product, catalog):

            async def elsewhere(asked: Any, line: Any) -> bytes:
                found = await catalog(asked, line)
                return found.replace(b"wh/ns/mine", b"wh/finance") if asked.method == "POST" else found

            product.upstream.script = elsewhere
            found = await create(product, location=f"{WAREHOUSE}/ns/mine")
            assert found.status == Reason.TABLE_NOT_SERVED.status
            assert not await reaches(product)


class TestNamespace:
    """The caller names the place below which the upstream puts what has no chosen place."""

    @pytest.mark.parametrize(
        "location", (f"{WAREHOUSE}/finance", "s3://lakehouse", "s3://lakehouse/", "s3a://lakehouse/wh//")
    )
    async def test_a_namespace_is_not_put_around_unseen_tables(self, location: str) -> None:
        """The upstream's own choice would be the caller's, one call later."""
        async with lax_front() as (product, catalog):
            body = {"namespace": ["theirs"], "properties": {"location": location}}
            assert refused(await product.ask("POST", "/v1/lake/namespaces", body=body))
            assert ("theirs",) not in catalog.namespaces
            body = {"updates": {"location": location}}
            assert refused(await product.ask("POST", "/v1/lake/namespaces/ns/properties", body=body))
            assert (await create(product, "salaries")).status == 200
            assert not await reaches(product, "salaries")

    async def test_a_namespace_keeps_its_place_or_gets_the_one_of_its_parent(self) -> None:
        """Clients that repeat what they were told would be refused."""
        async with lax_front() as (product, _):
            for path, body, status in (
                ("ns/properties", {"updates": {"location": f"{WAREHOUSE}/ns/"}}, 200),
                ("ns/properties", {"updates": {"owner": "x"}}, 200),
                ("", {"namespace": ["ns", "low"], "properties": {"location": f"{WAREHOUSE}/ns/low"}}, 200),
                ("", {"namespace": ["ns", "bad"], "properties": {"LOCATION": f"{WAREHOUSE}/ns/low"}}, 403),
                ("", {"namespace": ["free"], "properties": {"location": "s3://lakehouse/sandbox/free"}}, 200),
            ):
                route = "/v1/lake/namespaces" + (f"/{path}" if path else "")
                assert (await product.ask("POST", route, body=body)).status == status, body


class TestRegister:
    """The caller names a file, and the file names the place."""

    async def test_a_file_in_ones_own_place_that_names_anothers_is_not_believed(self) -> None:
        """A caller that may write a metadata file would choose any place by it, also for the next load."""
        async with lax_front() as (product, catalog):
            file = f"{WAREHOUSE}/ns/mine/metadata/1.metadata.json"
            catalog.files[file] = {"format-version": 2, "table-uuid": "u-1", "location": VICTIM, "properties": {}}
            body = {"name": "mine", "metadata-location": file}
            found = await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)
            assert found.status == Reason.TABLE_NOT_SERVED.status
            assert not await reaches(product)
            assert (await product.load("mine")).status == 200
            assert not await reaches(product)
            # Another name makes it no more credible.
            assert (await rename(product, "mine", "now")).status == 204
            assert (await product.load("now")).status == 200
            assert not await reaches(product, "now")
            # A commit would have the upstream write into the place, and is refused.
            assert refused(await commit(product, "now", {"action": "set-properties", "updates": {"a": "b"}}))
            assert catalog.current[("ns",), "now"] == file
            assert not await reaches(product, "now")

    @pytest.mark.parametrize("late", ("register", "rename"))
    @pytest.mark.parametrize("leaves", (True, False))
    async def test_an_answer_that_is_lost_vouches_for_nothing(self, late: str, leaves: bool) -> None:
        """A client that hangs up after it asked would have its choice believed with the next load."""
        async with lax_front() as (product, catalog):
            body, arrived = planted(catalog), asyncio.Event()

            async def slowly(asked: Asked, line: Line) -> bytes:
                found = await catalog(asked, line)
                if asked.path.endswith(late):
                    arrived.set()
                    await never()
                return found

            product.upstream.script = slowly
            calls = [product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)]
            if late == "rename":
                await calls.pop()
                calls.append(rename(product, "mine", "now"))
            call = asyncio.ensure_future(calls[0])
            await arrived.wait()
            if leaves:
                call.cancel()
            await asyncio.wait((call,))
            product.upstream.script = catalog
            for name in ("mine", "now"):
                await product.load(name)
                assert not await reaches(product, name)
                moved = await commit(
                    product, name, {"action": "assign-uuid", "uuid": "6f1a3c5e-0000-4000-8000-00000000000a"}
                )
                assert moved.status >= 400
                assert not await reaches(product, name)

    @pytest.mark.parametrize(
        "more",
        (
            {},
            # Longer than what is kept of a table, so that nothing would be remembered of it.
            {"properties": {"write.data.path": "s3://lakehouse/" + "x" * 9_000}},
            # Longer than any UUID: the upstream's answer is none.
            {"table-uuid": "u" * 65},
            {"properties": {"write.metadata.path": f"{WAREHOUSE}/ns/mine/metadata"}},
        ),
    )
    @pytest.mark.parametrize("in_transaction", (True, False))
    async def test_no_commit_moves_the_metadata_into_the_place(
        self, more: dict[str, Any], in_transaction: bool
    ) -> None:
        """The upstream writes its next metadata file there, and the table looks as if the place were its own."""
        async with lax_front() as (product, catalog):
            body = planted(catalog, **more)
            assert (await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)).status >= 400
            for update in (
                {"action": "remove-properties", "removals": ["write.data.path", "write.metadata.path"]},
                {"action": "assign-uuid", "uuid": "6f1a3c5e-0000-4000-8000-00000000000a"},
            ):
                if in_transaction:
                    change = {"identifier": {"namespace": ["ns"], "name": "mine"}, "updates": [update]}
                    body = {"table-changes": [change]}
                    found = await product.ask("POST", "/v1/lake/transactions/commit", body=body)
                else:
                    found = await commit(product, "mine", update)
                assert found.status >= 400
            assert catalog.current[("ns",), "mine"] == f"{WAREHOUSE}/ns/mine/metadata/1.metadata.json"
            await product.load("mine")
            assert not await reaches(product)

    @pytest.mark.parametrize("answered", (True, False))
    async def test_a_table_that_is_registered_anew_is_not_moved_by_a_commit(self, answered: bool) -> None:
        """With the UUID of the caller's own table, the known table would seem to have got another place."""
        async with lax_front() as (product, catalog):
            uuid = (await create(product)).body["metadata"]["table-uuid"]
            body = {**planted(catalog, **{"table-uuid": uuid}), "overwrite": True}
            if answered:
                await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)
            else:
                # Another replica passed it on, and this one knows the table as it was.
                catalog.tables[("ns",), "mine"] = catalog.files[body["metadata-location"]]
                catalog.current[("ns",), "mine"] = body["metadata-location"]
            await commit(product, "mine", {"action": "assign-uuid", "uuid": "6f1a3c5e-0000-4000-8000-00000000000a"})
            await product.load("mine")
            assert not await reaches(product)

    async def test_another_replica_believes_it_no_more(self) -> None:
        """Sidecars know nothing of each other: a caller would register by one and sign by another."""
        async with lax_front() as (product, catalog), lax_front() as (other, theirs):
            theirs.__dict__ |= {name: catalog.__dict__[name] for name in ("files", "tables", "current", "namespaces")}
            assert (await product.ask("POST", "/v1/lake/namespaces/ns/register", body=planted(catalog))).status == 409
            assert (await other.load("mine")).status == 200
            assert not await reaches(other)
            assert refused(await commit(other, "mine", {"action": "set-properties", "updates": {"a": "b"}}))
            assert not await reaches(other)
            assert (await rename(other, "mine", "now")).status == 204
            await product.load("now")
            assert not await reaches(product, "now")

    async def test_a_file_beside_the_table_may_be_registered_where_the_layout_puts_the_table(self) -> None:
        """Teams that keep metadata apart could register no table; a load tells that the place is the name's."""
        async with lax_front() as (product, catalog), lax_front() as (other, theirs):
            file = "s3://lakehouse/sandbox/files/1.metadata.json"
            place = f"{WAREHOUSE}/ns/mine"
            catalog.files[file] = {"format-version": 2, "table-uuid": "u-1", "location": place, "properties": {}}
            theirs.__dict__ |= {name: catalog.__dict__[name] for name in ("files", "tables", "current", "namespaces")}
            body = {"name": "mine", "metadata-location": file}
            assert (await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)).status == 200
            assert await product.signs("wh/ns/mine/data/f", method="PUT", name="mine") == 200
            assert (await other.load("mine")).status == 200
            assert await other.signs("wh/ns/mine/data/f", method="PUT", name="mine") == 200
            assert (await commit(other, "mine", {"action": "set-properties", "updates": {"a": "b"}})).status == 200

    async def test_the_victims_own_file_is_not_registered(self) -> None:
        """The names of metadata files stand in every load of a table."""
        async with lax_front() as (product, catalog):
            body = {"name": "mine", "metadata-location": f"{VICTIM}/metadata/00001.metadata.json"}
            assert refused(await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body))
            assert (("ns",), "mine") not in catalog.tables

    async def test_what_the_caller_dropped_may_be_registered_again(self) -> None:
        """Tables are moved between catalogs and names so."""
        async with lax_front() as (product, catalog):
            catalog.put("ns", "odd", f"{WAREHOUSE}/ns/elsewhere")
            file = (await product.load("odd")).body["metadata-location"]
            assert (await product.ask("DELETE", "/v1/lake/namespaces/ns/tables/odd")).status == 204
            body = {"name": "again", "metadata-location": file}
            assert (await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)).status == 200


class TestCommit:
    """The caller moves a table that is its own."""

    @pytest.mark.parametrize("location", SPELLINGS)
    @pytest.mark.parametrize("seen", (True, False))
    async def test_no_caller_moves_a_table_onto_an_unseen_one(self, location: str, seen: bool) -> None:
        """A process that knows neither table would take the newer place for the first one."""
        async with lax_front() as (product, catalog):
            catalog.put("ns", "mine")
            if seen:
                assert (await product.load("mine")).status == 200
            move = {"action": "Set-Location", "location": location}
            assert refused(await commit(product, "mine", move))
            body = {"table-changes": [{"identifier": {"namespace": ["ns"], "name": "mine"}, "updates": [move]}]}
            assert refused(await product.ask("POST", "/v1/lake/transactions/commit", body=body))
            assert not await reaches(product)
            assert await product.signs("wh/ns/mine/data/f", method="PUT", name="mine") == 200

    @pytest.mark.parametrize("elsewhere", (False, True))
    async def test_a_staged_table_is_committed_where_it_was_staged(self, elsewhere: bool) -> None:
        """Iceberg Java repeats the staged place in its commit, which another sidecar may get."""
        async with lax_front() as (product, catalog), lax_front() as (other, theirs):
            found = await create(product, staged=True)
            place = found.body["metadata"]["location"]
            theirs.files = catalog.files
            move = {"action": "set-location", "location": place}
            committed = await commit(other if elsewhere else product, "mine", move, creates=True)
            assert committed.status == 200
            assert await (other if elsewhere else product).signs("wh/ns/mine/data/f", method="PUT", name="mine") == 200

    async def test_a_staged_table_is_not_committed_somewhere_else(self) -> None:
        """What was refused when it was staged would be granted by the commit."""
        async with lax_front() as (product, _):
            assert (await create(product, staged=True)).status == 200
            assert refused(await commit(product, "mine", {"action": "set-location", "location": VICTIM}, creates=True))

    async def test_a_transaction_does_not_ask_the_upstream_without_end(self) -> None:
        """One call of ten thousand tables would become twenty thousand."""
        async with lax_front() as (product, _):
            changes = [
                {
                    "identifier": {"namespace": ["ns"], "name": f"t{number}"},
                    "requirements": [],
                    "updates": [{"action": "set-location", "location": f"{WAREHOUSE}/ns/t{number}"}],
                }
                for number in range(200)
            ]
            before = len(product.upstream.asked)
            assert refused(await product.ask("POST", "/v1/lake/transactions/commit", body={"table-changes": changes}))
            assert len(product.upstream.asked) - before <= 60
