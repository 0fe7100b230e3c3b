"""Catalog calls by a token for one table: good for that table, and for nothing else that has its name."""

from __future__ import annotations

import pytest

from tests.catalog.scripted import answer, error
from tests.facade.front import POLICY, T1, front, loaded

OTHER_FOR_WRITERS = ("writers: {lake: [writer]}", "writers: {lake: [writer], other: [reader]}")


@pytest.mark.parametrize("path", ("//catalogs/other/v1/config", "//v1/config?warehouse=other"))
async def test_a_tables_token_opens_no_other_catalog(path: str) -> None:
    """Its holder would be told how another catalog is set up, with the owner's own token."""
    async with front(table_tokens=True, bound=("lake", "other"), policy=POLICY.replace(*OTHER_FOR_WRITERS)) as product:
        product.upstream.says(loaded())
        token = (await product.load()).body["config"]["token"]
        product.upstream.says(answer(200, {"defaults": {}, "overrides": {}}))
        assert (await product.ask("GET", path)).status == 200
        asked = len(product.upstream.asked)
        assert (await product.ask("GET", path, who="", token=token)).status == 403
        assert len(product.upstream.asked) == asked
        assert product.events()[-1].reason == "not_in_scope"


@pytest.mark.parametrize(
    ("method", "path"),
    (
        ("GET", "/v1/lake/namespaces/ns/views/t1"),
        ("HEAD", "/v1/lake/namespaces/ns/views/t1"),
        ("POST", "/v1/lake/namespaces/ns/views/t1"),
        ("DELETE", "/v1/lake/namespaces/ns/views/t1"),
    ),
)
async def test_a_tables_token_opens_no_view_of_its_name(method: str, path: str) -> None:
    """Once the table is gone a view may have its name, and read what the owner may read."""
    async with front(table_tokens=True) as product:
        product.upstream.says(loaded())
        token = (await product.load()).body["config"]["token"]
        asked = len(product.upstream.asked)
        assert (await product.ask(method, path, who="", token=token, body={})).status == 403
        assert len(product.upstream.asked) == asked


async def test_a_tables_token_opens_no_later_table_of_its_name() -> None:
    """A client that had a token for a table could read, commit to and drop the one that took its name."""
    async with front(table_tokens=True) as product:
        product.upstream.says(loaded())
        token = (await product.load()).body["config"]["token"]
        product.upstream.says(loaded(uuid="6f1a3c5e-0000-4000-8000-00000000000a"))
        # signproxy was not told so far: only the answer does.
        found = await product.load(who="", token=token)
        assert (found.status, product.events()[-1].reason) == (403, "not_in_scope")
        assert (await product.load()).status == 200
        asked = len(product.upstream.asked)
        for method, body in (("GET", None), ("DELETE", None), ("POST", {"requirements": [], "updates": []})):
            assert (await product.ask(method, T1, who="", token=token, body=body)).status == 403
        assert [each.method for each in product.upstream.asked[asked:]] == ["GET"] * 3


@pytest.mark.parametrize("knows", (True, False))
async def test_a_tables_token_changes_nothing_that_was_made_past_signproxy(knows: bool) -> None:
    """What this process knew of the name would have a successor dropped, planned and committed to."""
    async with front(table_tokens=True) as product:
        product.upstream.says(loaded())
        token = (await product.load()).body["config"]["token"]
        if not knows:
            product.learned.forget("lake")
        later = loaded(uuid="6f1a3c5e-0000-4000-8000-00000000000a")
        for said, status in ((later, 403), (error(503, "ServiceUnavailableException"), 503)):
            product.upstream.says(said)
            asked = len(product.upstream.asked)
            for method, path, body in (
                ("DELETE", T1, None),
                ("POST", T1, {"requirements": [], "updates": []}),
                ("POST", f"{T1}/plan", {}),
                (
                    "POST",
                    "/v1/lake/transactions/commit",
                    {"table-changes": [{"identifier": {"namespace": ["ns"], "name": "t1"}, "updates": []}]},
                ),
            ):
                assert (await product.ask(method, path, who="", token=token, body=body)).status == status, path
            assert {each.method for each in product.upstream.asked[asked:]} == {"GET"}
