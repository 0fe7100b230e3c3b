"""The facade from the first load to the last deletion: what is learned, and what may be signed because of it."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import pytest

from signproxy.catalog.signer_grant import Offer
from tests.catalog.scripted import Asked, Line, answer, error
from tests.facade.front import HOST, POLICY, SIGN, T1, UUID, by_path, front, loaded, metadata, only, table
from tests.waiting import until

OTHER = "6f1a3c5e-0000-4000-8000-000000000002"


class TestFromLoadToSign:
    """The way of every job."""

    async def test_a_table_that_was_loaded_is_signed_for(self) -> None:
        """A user would have to list 10,000 tables in a policy."""
        async with front() as product:
            product.upstream.says(loaded())
            assert (await product.load()).status == 200
            asked = len(product.upstream.asked)
            assert await product.signs(method="PUT") == 200
            assert await product.signs("t2/data/f.parquet") == 403
            assert len(product.upstream.asked) == asked

    async def test_the_answer_leads_to_the_signer_and_holds_no_keys(self) -> None:
        """A client with the upstream's keys needs no signature; one that is not led to the signer gets none."""
        async with front() as product:
            product.upstream.says(loaded())
            found = await product.load(headers={"X-Signproxy-Query": "q-1"})
        assert b"AKIAUPSTREAM" not in found.content
        assert b"geheim" not in found.content
        told = found.body
        assert told["metadata"] == metadata()
        assert told["metadata-location"] == "s3://lakehouse/t1/metadata/00001.metadata.json"
        assert "storage-credentials" not in told
        assert told["config"]["s3.remote-signing-enabled"] == "true"
        assert told["config"]["s3.signer.uri"] == "https://sign.example/base/catalogs/lake/"
        assert told["config"]["s3.endpoint"] == HOST
        assert "io-impl" not in told["config"]
        assert told["remote-signing-config"]["properties"] == {"signproxy-query": "q-1"}
        assert "Idempotency-Key" in told["remote-signing-config"]["headers"]

    async def test_who_does_not_ask_is_not_told(self) -> None:
        """iceberg-go refuses a table that offers signing."""
        async with front() as product:
            product.upstream.says(loaded())
            found = await product.ask("GET", T1)
        assert "s3.signer.uri" not in found.body["config"]
        assert "remote-signing-config" not in found.body

    async def test_a_client_that_signs_by_itself_is_led_to_the_s3_listener(self) -> None:
        """DuckDB and PyArrow would send the key that signproxy issued to the store, which is none of its business."""
        async with front(listener="http://127.0.0.1:8182") as product:
            product.upstream.script = by_path(
                t1=loaded(), tables=loaded("a", uuid=OTHER), register=loaded("b", uuid=f"{OTHER}0")
            )
            for asked in ({}, {"X-Iceberg-Access-Delegation": "vended-credentials"}):
                told = await product.ask("GET", T1, headers=asked)
                assert told.body["config"] == {
                    "client.region": "us-east-1",
                    "s3.region": "us-east-1",
                    "s3.endpoint": "http://127.0.0.1:8182",
                    "s3.path-style-access": "true",
                }
                assert HOST.encode() not in told.content
            for path in ("/v1/lake/namespaces/ns/tables", "/v1/lake/namespaces/ns/register"):
                told = await product.ask("POST", path, body={"name": "a" if path.endswith("tables") else "b"})
                assert (told.status, told.body["config"]["s3.endpoint"]) == (200, "http://127.0.0.1:8182")
            # A client whose requests are signed sends them to the store.
            assert (await product.load()).body["config"]["s3.endpoint"] == HOST

    @pytest.mark.parametrize("offer", Offer)
    async def test_the_configuration_leads_there_as_well(self, offer: Offer) -> None:
        """Some clients go by the catalog's configuration alone, and others by the table's over it."""
        async with front(listener="https://s3.sign.example", offer=offer) as product:
            product.upstream.says(answer(200, {"defaults": {"s3.endpoint": "http://evil"}, "overrides": {}}))
            signing = (await product.ask("GET", "/v1/config", headers=SIGN)).body
            own = (await product.ask("GET", "/v1/config")).body
            assert signing["defaults"]["s3.endpoint"] == HOST
            leads = HOST if offer is Offer.ALWAYS else "https://s3.sign.example"
            assert own["defaults"]["s3.endpoint"] == leads
            assert own["defaults"]["s3.path-style-access"] == "true"
            # A catalog of the policy alone knows no offer.
            product.configure_by(listener="")
            own = (await product.ask("GET", "//catalogs/declared/v1/config", who="reader")).body
            assert own["defaults"]["s3.endpoint"] == HOST
            product.configure_by(listener="https://s3.sign.example")
            own = (await product.ask("GET", "//catalogs/declared/v1/config", who="reader")).body
            assert own["defaults"]["s3.endpoint"] == "https://s3.sign.example"
            signing = (await product.ask("GET", "//catalogs/declared/v1/config", who="reader", headers=SIGN)).body
            assert signing["defaults"]["s3.endpoint"] == HOST

    async def test_a_catalog_that_signs_nothing_leads_to_its_store(self) -> None:
        """Its callers have keys of the store's own, which would be sent to signproxy and be refused there."""
        off = POLICY.replace("    remote_signing: true\n", "", 1)
        async with front(policy=off, listener="http://127.0.0.1:8182") as product:
            product.upstream.says(loaded())
            assert (await product.load()).body["config"]["s3.endpoint"] == HOST
            assert await product.signs() == 403
            product.upstream.says(answer(200, {"defaults": {}, "overrides": {}}))
            assert (await product.ask("GET", "/v1/config")).body["defaults"]["s3.endpoint"] == HOST

    async def test_an_answer_of_before_the_listener_is_not_kept(self) -> None:
        """A client that keeps tables would go on sending its key to the store."""
        async with front() as before, front(listener="http://127.0.0.1:8182") as after:
            for product in (before, after):
                product.upstream.says(loaded(headers={"ETag": '"v1"'}))
            kept = (await before.ask("GET", T1)).headers["ETag"]
            await after.ask("GET", T1, headers={"If-None-Match": kept})
            assert "if-none-match" not in after.upstream.last.headers

    async def test_every_endpoint_that_is_told_signs(self) -> None:
        """Each generation of clients goes by another one of them."""
        async with front() as product:
            product.upstream.says(loaded())
            told = (await product.load()).body["config"]
            endpoint = urlsplit(told["s3.signer.uri"] + told["s3.signer.endpoint"]).path.removeprefix(
                "/base/catalogs/lake"
            )
            for path in (
                endpoint,
                "/v1/lake/namespaces/ns/tables/t1/sign",
                "/v1/opaque/namespaces/ns/tables/t1/sign",
                "/v1/namespaces/ns/tables/t1/sign",
                "/s3-sign/v1/lake/namespaces/ns/tables/t1",
                "/v1/aws/s3/sign",
            ):
                assert await product.signs(path=path) == 200, path

    async def test_the_clients_own_words_stand_in_the_event(self) -> None:
        """The trail could not tell which query read a file."""
        async with front() as product:
            product.upstream.says(loaded())
            words = {"X-Signproxy-Application": "etl", "X-Signproxy-Query": "q-1"}
            told = (await product.load(headers=words)).body
            await product.signs(path=f"/{told['config']['s3.signer.endpoint']}")
            await product.signs(properties=told["remote-signing-config"]["properties"])
            events = product.events()
        assert [(event.kind.value, event.application, event.query_id) for event in events] == [
            ("catalog", "etl", "q-1"),
            ("sign", "etl", "q-1"),
            ("sign", "etl", "q-1"),
        ]

    async def test_a_table_that_is_not_known_is_asked_for(self) -> None:
        """After a restart of the sidecar every job that runs would be refused."""
        async with front() as product:
            product.upstream.says(loaded())
            assert await product.signs(method="PUT") == 200
            assert await product.signs(method="PUT") == 200
            (asked,) = product.upstream.asked
        assert asked.target == "/v1/up/namespaces/ns/tables/t1?snapshots=refs"
        assert asked.headers["authorization"].startswith("Bearer writer-")

    async def test_many_who_need_a_table_ask_once(self) -> None:
        """A job of a hundred tasks would load its table a hundred times."""
        async with front() as product:
            told = asyncio.Event()

            async def slowly(asked: Asked, line: Line) -> bytes:
                await told.wait()
                return loaded()

            product.upstream.script = slowly
            signing = [asyncio.ensure_future(product.signs()) for _ in range(20)]
            await until(lambda: product.handler.in_flight == 20)
            told.set()
            assert set(await asyncio.gather(*signing)) == {200}
            assert len(product.upstream.asked) == 1

    async def test_a_table_that_does_not_exist_is_refused_like_a_foreign_one(self) -> None:
        """A caller could find out which tables there are."""
        async with front() as product:
            product.upstream.says(error(404, "NoSuchTableException"))
            found = await product.ask("POST", "/v1/lake/namespaces/ns/tables/t9/sign", body=_message("t9/f"))
            assert found.status == 403
            assert found.error["message"] == "Insufficient privileges"

    @pytest.mark.parametrize(
        ("said", "status"),
        (
            (error(401, "NotAuthorizedException"), 401),
            (error(419, "AuthenticationTimeoutException"), 401),
            (error(403, "ForbiddenException"), 403),
            (error(500, "InternalServerError"), 503),
            (error(503, "ServiceUnavailableException"), 503),
            (answer(200, b"<html>"), 503),
            (answer(302, b"", {"Location": "http://127.0.0.1:1/"}), 503),
            (answer(200, {"metadata": {"location": "s3://lakehouse/t1"}}), 503),
        ),
    )
    async def test_a_sign_request_is_told_what_helps(self, said: bytes, status: int) -> None:
        """Iceberg Java repeats a sign request on 503 with `Retry-After` alone, and refreshes its token on 401."""
        async with front() as product:
            product.upstream.says(said)
            found = await product.ask("POST", f"{T1}/sign", body=_message("t1/f"))
            assert found.status == status
            assert ("Retry-After" in found.headers) is (status == 503)

    async def test_what_is_known_goes_on_being_signed_while_the_upstream_is_down(self) -> None:
        """An hour of maintenance of the catalog would stop every job."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.says(error(503, "ServiceUnavailableException"))
            assert await product.signs(method="PUT") == 200
            assert await product.signs("t2/f", name="t2") == 503


class TestWhoMayCall:
    """`authorizer`: whose word decides."""

    @pytest.mark.parametrize("who", ("nobody", "stranger", "sign-only"))
    async def test_a_refused_load_asks_no_upstream_and_tells_nothing(self, who: str) -> None:
        """A caller that is refused would learn the schema, or that the table exists."""
        async with front() as product:
            product.upstream.says(loaded())
            found = await product.load(who=who)
            assert found.status == 403
            assert found.error["message"] == "Insufficient privileges"
            assert b"lakehouse" not in found.content
            event = only(product.events())
        assert not product.upstream.asked
        assert (event.kind.value, event.call, event.decision.value) == ("catalog", "load_table", "deny")

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        (
            ("POST", T1, {"requirements": [], "updates": []}),
            ("POST", "/v1/lake/namespaces/ns/tables", {"name": "t9"}),
            ("POST", "/v1/lake/namespaces/ns/register", {"name": "t9", "metadata-location": "s3://lakehouse/x"}),
            ("DELETE", T1, None),
            ("DELETE", f"{T1}?purgeRequested=true", None),
            (
                "POST",
                "/v1/lake/tables/rename",
                {"source": {"namespace": ["ns"], "name": "t1"}, "destination": {"namespace": ["ns"], "name": "t2"}},
            ),
            (
                "POST",
                "/v1/lake/transactions/commit",
                {
                    "table-changes": [
                        {"identifier": {"namespace": ["ns"], "name": "t1"}, "requirements": [], "updates": []}
                    ]
                },
            ),
            ("POST", "/v1/lake/namespaces", {"namespace": ["new"]}),
            ("DELETE", "/v1/lake/namespaces/ns", None),
            ("POST", "/v1/lake/namespaces/ns/views", {"name": "v"}),
        ),
    )
    async def test_a_reader_changes_nothing(self, method: str, path: str, body: object) -> None:
        """The upstream would do what the policy does not grant, for it trusts signproxy's callers."""
        async with front() as product:
            product.upstream.says(answer(200, {}))
            found = await product.ask(method, path, who="reader", body=body)
            assert found.status == 403
        assert not product.upstream.asked

    async def test_lists_show_what_may_be_seen(self) -> None:
        """Names of other teams' tables would stand in every listing."""
        both = [{"namespace": ["ns"], "name": "t1"}, {"namespace": ["ns"], "name": "t2"}]
        async with front() as product:
            product.upstream.says(answer(200, {"identifiers": both, "next-page-token": "p"}))
            assert (await product.ask("GET", "/v1/lake/namespaces/ns/tables", who="reader")).body["identifiers"] == both
            found = (await product.ask("GET", "/v1/lake/namespaces/ns/tables", who="half")).body
        assert found == {"identifiers": both[:1], "next-page-token": "p"}

    async def test_the_upstream_s_answer_to_the_caller_lets_it_read(self) -> None:
        """`authorizer: catalog`: every grant of the upstream would have to be written down a second time."""
        async with front(authorizer="catalog") as product:
            product.upstream.says(loaded())
            # Unknown to the policy, and known to the upstream.
            assert (await product.load(who="stranger")).status == 200
            assert await product.signs(who="stranger") == 200
            asked = len(product.upstream.asked)
            assert await product.signs(method="PUT", who="stranger") == 403
            # What was answered to one says nothing of another.
            product.upstream.says(error(403, "ForbiddenException"))
            assert await product.signs(who="nobody") == 403
            assert len(product.upstream.asked) == asked + 1

    async def test_a_later_no_of_the_upstream_ends_it(self) -> None:
        """A revoke at the upstream would not bite although signproxy saw it."""
        async with front(authorizer="catalog") as product:
            product.upstream.says(loaded())
            await product.load(who="stranger")
            product.upstream.says(error(403, "ForbiddenException"))
            assert (await product.load(who="stranger")).status == 403
            assert await product.signs(who="stranger") == 403

    async def test_both_have_to_agree(self) -> None:
        """`authorizer: both`: either side alone could open a table that the other closed."""
        async with front(authorizer="both") as product:
            product.upstream.says(loaded())
            assert (await product.load(who="stranger")).status == 403
            assert not product.upstream.asked
            assert await product.signs(who="reader") == 200
            product.upstream.says(error(403, "ForbiddenException"))
            assert await product.signs(who="writer") == 403


class TestChanges:
    """What passes by changes what is known."""

    async def test_a_staged_create_signs_before_there_is_a_table(self) -> None:
        """CREATE TABLE AS SELECT writes its files before the table is committed."""
        async with front() as product:
            product.upstream.script = by_path(tables=loaded("new", uuid=OTHER), new=error(404, "NoSuchTableException"))
            created = await product.ask(
                "POST", "/v1/lake/namespaces/ns/tables", body={"name": "new", "stage-create": True}, headers=SIGN
            )
            assert created.status == 200
            assert await product.signs("new/data/f.parquet", method="PUT", name="new") == 200
            # No other caller, and nowhere else.
            assert await product.signs("new/data/f.parquet", name="new", who="reader") == 403
            assert await product.signs("t1/data/f.parquet", method="PUT", name="new") == 403
            product.upstream.script = by_path(new=loaded("new", uuid=OTHER))
            committed = await product.ask(
                "POST",
                "/v1/lake/namespaces/ns/tables/new",
                body={"requirements": [{"type": "assert-create"}], "updates": []},
            )
            assert committed.status == 200
            assert set(committed.body) == {"metadata", "metadata-location"}
            assert await product.signs("new/data/f.parquet", name="new", who="reader") == 200

    async def test_what_was_staged_elsewhere_is_carried(self) -> None:
        """A second replica would refuse the files of a table that the first one staged."""
        async with front() as first, front() as second:
            for product in (first, second):
                product.upstream.script = by_path(
                    tables=loaded("new", uuid=OTHER), new=error(404, "NoSuchTableException")
                )
            created = await first.ask(
                "POST", "/v1/lake/namespaces/ns/tables", body={"name": "new", "stage-create": True}, headers=SIGN
            )
            carried = created.body["remote-signing-config"]["properties"]
            endpoint = created.body["config"]["s3.signer.endpoint"]
            assert set(parse_qs(urlsplit(endpoint).query)) == {"signproxy-context"}
            assert await second.signs("new/f", method="PUT", name="new") == 403
            assert await second.signs("new/f", method="PUT", name="new", properties=carried) == 200
        async with front() as third:
            third.upstream.script = by_path(new=error(404, "NoSuchTableException"))
            assert await third.signs("new/f", method="PUT", path=f"/{endpoint}") == 200
            assert await third.signs("new/f", method="PUT", name="new", who="reader", properties=carried) == 403

    async def test_what_was_carried_is_opened_only_where_it_is_needed(self) -> None:
        """A broken context would keep a job from its table, which is there by now and needs none."""
        broken = {"signproxy-context": "spc1.a.b"}
        async with front() as product:
            product.upstream.script = by_path(t1=loaded(), new=error(404, "NoSuchTableException"))
            assert (await product.load()).status == 200
            assert await product.signs(method="PUT", properties=broken) == 200
            assert await product.signs("new/f", method="PUT", name="new", properties=broken) == 403
            assert product.events()[-1].reason == "context_invalid"

    async def test_a_create_and_a_registration_are_known_at_once(self) -> None:
        """The first write to a new table would cost a load, or fail where the upstream is slow to show it.

        What the upstream keeps from whom, a registration does not tell: a table that was there is asked for once.
        """
        async with front() as product:
            product.upstream.script = by_path(
                b=loaded("b", uuid=OTHER, location="s3://lakehouse/ns/b"),
                tables=loaded("a", uuid=UUID),
                ns=answer(200, {"namespace": ["ns"], "properties": {"location": "s3://lakehouse/ns"}}),
                register=loaded("b", uuid=OTHER, location="s3://lakehouse/ns/b"),
            )
            body = {"name": "a", "schema": {"type": "struct", "fields": []}}
            assert (await product.ask("POST", "/v1/lake/namespaces/ns/tables", body=body)).status == 200
            body = {"name": "b", "metadata-location": "s3://lakehouse/ns/b/metadata/1.metadata.json"}
            assert (await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)).status == 200
            asked = len(product.upstream.asked)
            assert await product.signs("a/f", method="PUT", name="a") == 200
            assert len(product.upstream.asked) == asked
            assert await product.signs("ns/b/f", method="PUT", name="b") == 200
            assert len(product.upstream.asked) == asked + 1

    async def test_a_dropped_table_is_for_its_dropper_to_clear_away(self) -> None:
        """DROP … PURGE deletes the files after the table is gone; and a successor's files may not be deleted by it."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.says(answer(204))
            assert (await product.ask("DELETE", f"{T1}?purgeRequested=false")).status == 204
            product.upstream.says(error(404, "NoSuchTableException"))
            assert await product.signs(method="DELETE") == 200
            assert await product.signs("t1/metadata/00001.metadata.json", method="DELETE") == 200
            assert await product.signs(method="PUT") == 403
            assert await product.signs(who="reader") == 403
            # A table that takes the place ends it.
            product.upstream.says(loaded("t2", uuid=OTHER, location="s3://lakehouse/t1"))
            await product.load("t2", who="reader")
            assert await product.signs(method="DELETE") == 403

    async def test_a_table_that_is_dropped_and_registered_again_is_written_at_once(self) -> None:
        """A migration drops a table and registers its metadata elsewhere or again; its next write would fail."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.says(answer(204))
            assert (await product.ask("DELETE", T1)).status == 204
            product.upstream.says(loaded())
            body = {"name": "t1", "metadata-location": "s3://lakehouse/t1/metadata/00001.metadata.json"}
            assert (await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)).status == 200
            assert await product.signs(method="PUT") == 200
            assert await product.signs(who="reader") == 200

    async def test_a_table_that_was_never_seen_is_looked_at_before_it_is_dropped(self) -> None:
        """DROP … PURGE would leave all files behind where the sidecar was restarted in between."""
        async with front() as product:

            async def script(asked: Asked, line: Line) -> bytes:
                return loaded() if asked.method == "GET" else answer(204)

            product.upstream.script = script
            assert (await product.ask("DELETE", T1)).status == 204
            assert [asked.method for asked in product.upstream.asked] == ["GET", "DELETE"]
            product.upstream.says(error(404, "NoSuchTableException"))
            assert await product.signs(method="DELETE") == 200

    async def test_a_renamed_table_keeps_its_place(self) -> None:
        """After ALTER TABLE … RENAME every file would belong to no table."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.says(answer(204))
            names = {"source": {"namespace": ["ns"], "name": "t1"}, "destination": {"namespace": ["ns"], "name": "t9"}}
            assert (await product.ask("POST", "/v1/lake/tables/rename", body=names)).status == 204
            product.upstream.script = by_path(t9=loaded("t1"))
            asked = len(product.upstream.asked)
            assert await product.signs("t1/f", name="t9") == 200
            assert await product.signs("t1/f", name="t9") == 200
            # Under its new name it is asked for once: what a caller may read of it, the upstream says by name.
            assert len(product.upstream.asked) == asked + 1

    async def test_a_table_that_is_gone_is_asked_for_again(self) -> None:
        """What was dropped beside the facade would be signed for as long as a process remembers it."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.says(error(404, "NoSuchTableException"))
            assert (await product.load(who="reader")).status == 404
            assert await product.signs() == 403

    async def test_a_page_of_a_proxy_says_nothing_of_a_table(self) -> None:
        """A gateway with a wrong route would make every table unknown."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.says(answer(404, b"<html>no such page</html>", {"Content-Type": "text/html"}))
            found = await product.load()
            assert found.status == 404
            assert b"html" not in found.content
            asked = len(product.upstream.asked)
            assert await product.signs() == 200
            assert len(product.upstream.asked) == asked

    async def test_a_commit_that_moves_a_table_is_believed_within_reason(self) -> None:
        """A writer could point a table's data path at a neighbour's directory, and have that signed."""
        async with front() as product:
            product.upstream.script = by_path(t1=loaded("t1"), t2=loaded("t2", uuid=OTHER))
            await product.load("t1")
            await product.load("t2")
            moved = table("t2", uuid=OTHER, properties={"write.data.path": "s3://lakehouse/t1/data"})
            product.upstream.says(answer(200, {"metadata-location": "s3://lakehouse/x", "metadata": moved["metadata"]}))
            body: dict[str, object] = {"requirements": [], "updates": []}
            found = await product.ask("POST", "/v1/lake/namespaces/ns/tables/t2", body=body)
            assert found.status == 200
            assert await product.signs("t1/data/f", method="PUT", name="t2") == 403
            assert await product.signs("t2/data/f", method="PUT", name="t2") == 200
            event = next(event for event in product.events() if event.call == "update_table")
        assert "location_disputed" in event.detail
        assert sum(product.learned.alarms.counts.values()) >= 1

    async def test_nothing_is_learned_but_from_a_200(self) -> None:
        """An upstream's error page could hold a location."""
        async with front() as product:
            product.upstream.says(answer(201, table("t1")))
            assert (await product.load()).status == 201
            product.upstream.says(error(404, "NoSuchTableException"))
            assert await product.signs() == 403

    async def test_a_transaction_makes_its_tables_doubtful(self) -> None:
        """Its answer tells nothing, and it may have moved a table."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.says(answer(204))
            change = {"identifier": {"namespace": ["ns"], "name": "t1"}, "requirements": [], "updates": []}
            found = await product.ask("POST", "/v1/lake/transactions/commit", body={"table-changes": [change]})
            assert found.status == 204
            asked = len(product.upstream.asked)
            product.upstream.says(loaded())
            assert await product.signs() == 200
            assert len(product.upstream.asked) == asked + 1


class TestEtag:
    """Clients that keep a table ask whether it changed."""

    async def test_an_unchanged_table_is_not_sent_again(self) -> None:
        """Each refresh of a large table would cost a megabyte."""
        async with front() as product:
            product.upstream.says(loaded(headers={"ETag": '"v1"'}))
            first = await product.load()
            assert first.headers["ETag"] != '"v1"'
            product.upstream.says(answer(304, None, {"ETag": '"v1"'}))
            second = await product.load(headers={"If-None-Match": first.headers["ETag"]})
            assert second.status == 304
            assert second.content == b""
            assert second.headers["ETag"] == first.headers["ETag"]
            assert product.upstream.last.headers["if-none-match"] == '"v1"'
            event = product.events()[-1]
        assert (event.http_status, event.decision.value) == (304, "allow")

    async def test_an_answer_made_for_another_is_not_for_this_caller(self) -> None:
        """A client would go on using a signer that the settings or the policy do not name any more."""
        async with front() as product:
            product.upstream.says(loaded(headers={"ETag": '"v1"'}))
            with_signer = (await product.load()).headers["ETag"]
            await product.ask("GET", T1, headers={"If-None-Match": with_signer})
            assert "if-none-match" not in product.upstream.last.headers
            await product.ask("GET", T1, headers={"If-None-Match": '"v1"'})
            assert "if-none-match" not in product.upstream.last.headers

    async def test_only_a_load_has_one(self) -> None:
        """A client would go on with what was meant for a staged create, or for no client."""
        async with front() as product:
            product.upstream.says(loaded(headers={"ETag": '"v1"'}))
            for path, body in (
                ("/v1/lake/namespaces/ns/tables", {"name": "t1"}),
                (T1, {"requirements": [], "updates": []}),
            ):
                found = await product.ask("POST", path, body=body, headers={**SIGN, "If-None-Match": '"v1"'})
                assert found.status == 200
                assert "ETag" not in found.headers
                assert "if-none-match" not in product.upstream.last.headers


class TestTableTokens:
    """Tokens that are good for one table."""

    async def test_the_upstream_is_shown_the_callers_own(self) -> None:
        """Iceberg Java uses the table's token for the catalog as well, and no upstream knows it."""
        async with front(table_tokens=True) as product:
            product.upstream.says(loaded())
            token = (await product.load()).body["config"]["token"]
            assert token.startswith("spt1.")
            found = await product.load(who="", token=token)
            assert found.status == 200
            assert product.upstream.last.headers["authorization"].startswith("Bearer writer-")
            assert await product.signs(method="PUT", token=token) == 200
            asked = len(product.upstream.asked)
            assert (await product.load("t2", who="", token=token)).status == 403
            assert len(product.upstream.asked) == asked

    async def test_it_is_asked_with_when_a_table_is_not_known(self) -> None:
        """After a restart no job with a table's token could go on."""
        async with front(table_tokens=True) as first, front(table_tokens=True) as second:
            for product in (first, second):
                product.upstream.says(loaded())
            token = (await first.load()).body["config"]["token"]
            assert await second.signs(token=token) == 200
            assert second.upstream.last.headers["authorization"].startswith("Bearer writer-")


def _message(key: str) -> dict[str, object]:
    return {"region": "us-east-1", "method": "GET", "uri": f"{HOST}/lakehouse/{key}", "headers": {}}
