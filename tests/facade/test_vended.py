"""Keys in the answers of the facade: to whom they are given, for which table, and never those of the upstream."""

from __future__ import annotations

import time

import pytest

from signproxy.catalog.signer_grant import Offer
from signproxy.errors import Reason, Refused
from signproxy.gate.judgement import Judgement
from signproxy.gate.request import AskedFor
from signproxy.identity.emulated import KeyHolder
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.inventory.learned.sighting import Dropped
from signproxy.model import Ceiling, KeyScope, Subject
from tests.catalog.scripted import answer, error
from tests.facade.front import LISTENER, POLICY, SIGN, T1, UUID, VEND, Answer, Front, by_path, front, loaded, only
from tests.facade.test_read_restrictions import CHOSEN_ANYWHERE, kept
from tests.gate.forward_cases import wire
from tests.product import token_of
from tests.vending.mint import Mint, minting
from tests.vending.rig import key_of

OTHER = "6f1a3c5e-0000-4000-8000-000000000002"
TABLES = "/v1/lake/namespaces/ns/tables"
VENDED, SIGNED = "vended-credentials", "remote-signing"
BOTH = f"{SIGNED}, {VENDED}"
CREATE: dict[str, object] = {"name": "new"}


def asks(*modes: str) -> dict[str, str]:
    return {"X-Iceberg-Access-Delegation": ",".join(modes)}


def key_in(found: Answer) -> dict[str, str]:
    """Return what the one credential of an answer says, which its `config` has to say as well."""
    (credential,) = found.body["storage-credentials"]
    config: dict[str, str] = credential["config"]
    assert config.items() <= found.body["config"].items()
    return config


def holder(product: Front, found: Answer) -> KeyHolder:
    """Return whom the S3 listener takes the holder of the keys for."""
    (credential,) = found.body["storage-credentials"]
    issuing, key = product.house.rooms.api.vending.vending.issuing, key_of(credential["config"])
    assert issuing is not None
    return issuing.keys.open(key.access_key_id, key.session_token, time.time())


async def forwards(product: Front, held: KeyHolder, key: str, method: str = "GET") -> bool:
    """Whether the S3 listener would forward a request with the keys."""
    asked = AskedFor(forward=wire(method, "lakehouse", key), bearer=held.bearer)
    gate = product.house.rooms.api.gate
    for _ in range(4):
        judged = gate.forward.judge(Subject.of(held.principal), asked)
        assert isinstance(judged, tuple | Judgement)
        if isinstance(judged, Judgement):
            return judged.refused is None
        await judged.answer
    raise AssertionError("it is asked again and again")


async def test_a_loaded_table_comes_with_keys_in_both_places() -> None:
    """PyIceberg reads the one, Comet and iceberg-rust the other; without the expiry Iceberg Java reads neither."""
    async with front(vends=BOTH) as product:
        product.upstream.says(loaded())
        found = await product.ask("GET", T1, headers=VEND)
        (credential,) = found.body["storage-credentials"]
        assert credential["prefix"] == "s3://lakehouse/t1/"
        config = key_in(found)
        assert config["s3.endpoint"] == LISTENER
        assert config["client.refresh-credentials-endpoint"] == "v1/lake/namespaces/ns/tables/t1/credentials"
        assert config["credentials.uri"].startswith("https://sign.example/base/catalogs/lake/v1/lake/")
        assert found.body["config"]["s3.remote-signing-enabled"] == "false"
        assert not {"s3.signer.uri", "s3.signer", "py-io-impl"} & found.body["config"].keys()
        assert "remote-signing-config" not in found.body
        assert found.headers["Cache-Control"] == "no-store"
        assert b"AKIAUPSTREAM" not in found.content
        assert b"geheim" not in found.content
        held = holder(product, found)
        assert held.principal.key_scope == KeyScope("lake", "ns", "t1", UUID)
        event = only(product.events())
        assert (event.kind.value, event.call, event.access) == ("catalog", "load_table", "read-write")
        assert event.access_key_id == config["s3.access-key-id"][-4:]
        assert event.expires_at
        # And they open what they are for.
        assert await forwards(product, held, "t1/data/f", "PUT")
        assert not await forwards(product, held, "t10/data/f")


@pytest.mark.parametrize(
    ("offered", "asked", "gets"),
    (
        (SIGNED, (VENDED,), ""),
        (SIGNED, (VENDED, SIGNED), SIGNED),
        (VENDED, (SIGNED, VENDED), VENDED),
        (VENDED, (SIGNED,), ""),
        (BOTH, (SIGNED, VENDED), SIGNED),
        (BOTH, (VENDED, SIGNED), VENDED),
        (BOTH, ("teleport", VENDED, VENDED, ""), VENDED),
        (BOTH, ("VENDED-CREDENTIALS",), ""),
        (BOTH, (f"{VENDED};{SIGNED}",), ""),
        (BOTH, (), ""),
    ),
)
async def test_a_client_gets_the_first_that_it_asks_for_and_is_offered(
    offered: str, asked: tuple[str, ...], gets: str
) -> None:
    """A client that prefers to sign would be given keys, and one that cannot sign nothing at all."""
    async with front(vends=offered) as product:
        product.upstream.says(loaded())
        found = await product.ask("GET", T1, headers=asks(*asked) if asked else {})
        assert found.status == 200
        assert ("storage-credentials" in found.body) is (gets == VENDED)
        assert ("s3.access-key-id" in found.body["config"]) is (gets == VENDED)
        assert ("remote-signing-config" in found.body) is (gets == SIGNED)


async def test_signatures_that_are_offered_unasked_do_not_displace_keys() -> None:
    """An operator who has every client sign could offer no keys to the one that asks for them."""
    async with front(vends=BOTH, offer=Offer.ALWAYS) as product:
        product.upstream.says(loaded())
        assert "storage-credentials" in (await product.ask("GET", T1, headers=VEND)).body
        assert "remote-signing-config" in (await product.ask("GET", T1)).body


@pytest.mark.parametrize(("method", "path", "body"), (("GET", T1, None), ("POST", TABLES, CREATE)))
async def test_a_caller_that_is_offered_nothing_is_told_before_anything_is_made(
    method: str, path: str, body: object
) -> None:
    """It would get a table that it cannot reach, or make one."""
    async with front(vends=BOTH, policy=f"{POLICY}\ndelegation: {{writers: {{lake: []}}}}\n") as product:
        product.upstream.says(loaded())
        for asked in (VEND, SIGN):
            found = await product.ask(method, path, headers=asked, body=body)
            assert (found.status, found.error["type"]) == (403, "ForbiddenException")
        assert product.events()[-1].reason == "delegation_refused"
        assert not product.upstream.asked
        assert (await product.ask("GET", "/v1/lake/namespaces/ns", headers=VEND)).status != 403
        # A client that has its own access asks for none; another role is offered what the catalog offers.
        assert (await product.ask("GET", T1)).status == 200
        assert "storage-credentials" in (await product.ask("GET", T1, headers=VEND, who="reader")).body


@pytest.mark.parametrize("authorizer", ("policy", "catalog", "both"))
async def test_keys_do_what_their_caller_may(authorizer: str) -> None:
    """A reader of the table would write it."""
    async with front(vends=VENDED, authorizer=authorizer) as product:
        product.upstream.says(loaded())
        for who, ceiling in (("writer", Ceiling.NONE), ("reader", Ceiling.READ_ONLY)):
            held = holder(product, await product.ask("GET", T1, headers=VEND, who=who))
            assert held.principal.name == f"static/{who}"
            scope = held.principal.key_scope
            assert scope is not None
            assert scope.ceiling is ceiling
            assert await forwards(product, held, "t1/data/f")
            assert await forwards(product, held, "t1/data/f", "PUT") is (who == "writer")
            refreshed = await product.ask("GET", f"{T1}/credentials", who=who)
            assert refreshed.status == 200


async def test_who_may_see_a_table_and_not_read_it_gets_it_without_keys() -> None:
    """The files of a table would be open to every caller that may see its columns."""
    policy = POLICY.replace(
        "signer, catalog: lake, privileges: [TABLE_REMOTE_SIGN]",
        "signer, catalog: lake, privileges: [TABLE_READ_PROPERTIES]",
    )
    async with front(vends=VENDED, policy=policy) as product:
        product.upstream.says(loaded())
        found = await product.ask("GET", T1, headers=VEND, who="sign-only")
        assert (found.status, "storage-credentials" in found.body) == (200, False)
        assert "no keys: no_remote_sign" in only(product.events()).detail
        assert (await product.ask("GET", f"{T1}/credentials", who="sign-only")).status == 403


@pytest.mark.parametrize(
    ("reason", "status"),
    ((Reason.SCOPE_TOO_LARGE, 200), (Reason.SCOPE_NOT_VENDABLE, 200), (Reason.SESSIONS_REFUSED, 502)),
)
async def test_a_table_of_which_no_keys_can_be_made_is_loaded_without(reason: Reason, status: int) -> None:
    """A writer could give its table so many places that no client could load it any more."""
    async with front(vends=BOTH) as product:
        product.upstream.says(loaded())
        mint = Mint()
        mint.refuses = Refused(reason, "")
        minting(product, mint)
        found = await product.ask("GET", T1, headers=asks(VENDED, SIGNED))
        assert found.status == status
        if status == 200:
            assert "storage-credentials" not in found.body
            # It can be signed for, and the client takes that as well.
            assert found.body["config"]["s3.remote-signing-enabled"] == "true"


@pytest.mark.parametrize("path", (f"{T1}/credentials", T1))
async def test_a_table_that_goes_while_a_session_is_made_gives_none(path: str) -> None:
    """The session would open whatever is made at its place next, for hours."""
    async with front(vends=VENDED) as product:
        product.upstream.says(loaded())
        assert (await product.ask("GET", T1, headers=VEND)).status == 200
        mint = Mint()
        minting(product, mint)
        gone = Dropped("lake", "ns", "t1", "writer", time.time(), UUID)

        def goes() -> None:
            product.catalogs.learned.take(gone, time.time())

        mint.meanwhile = goes
        found = await product.ask("GET", path, headers=VEND)
        assert mint.asked
        assert b"minted-token" not in found.content
        assert product.events()[-1].session_name == ""


@pytest.mark.parametrize("path", (T1, TABLES))
async def test_a_table_that_is_kept_from_its_reader_comes_without_keys(path: str) -> None:
    """The engine was told to leave rows out, and was handed the files that hold them."""
    async with front(vends=VENDED) as product:
        product.upstream.says(kept("t1"))
        body = {"name": "t1"} if path == TABLES else None
        found = await product.ask("GET" if body is None else "POST", path, headers=VEND, body=body)
        assert found.status == 200
        assert b"s3.access-key-id" not in found.content
        refused = await product.ask("GET", f"{T1}/credentials")
        assert (refused.status, product.events()[-1].reason) == (403, "read_restricted")


@pytest.mark.parametrize("staged", (False, True))
async def test_a_table_that_is_made_comes_with_keys_for_its_place(staged: bool) -> None:
    """Spark writes the files of a staged table before there is one, and a created one at once."""
    async with front(vends=VENDED) as product:
        product.upstream.script = by_path(tables=loaded("new"), new=loaded("new"))
        found = await product.ask("POST", TABLES, headers=VEND, body={**CREATE, "stage-create": staged})
        held = holder(product, found)
        assert held.principal.key_scope == KeyScope("lake", "ns", "new", UUID)
        assert await forwards(product, held, "new/data/f", "PUT")
        assert not await forwards(product, held, "t1/data/f")
        assert only(product.events()).access == "read-write"
        # Before it is committed it is its maker's alone.
        asked = len(product.upstream.asked)
        assert (await product.ask("GET", f"{TABLES}/new/credentials")).status == 200
        if staged:
            product.upstream.says(error(404, "NoSuchTableException"))
            assert (await product.ask("GET", f"{TABLES}/new/credentials", who="reader")).status == 403
            assert len(product.upstream.asked) <= asked + 2


@pytest.mark.parametrize(("who", "made"), (("nobody", False), ("writer", True)))
async def test_a_caller_that_may_only_stage_a_table_gets_no_session_for_its_place(who: str, made: bool) -> None:
    """It would read, to the end of the session, what another caller makes there and keeps from it."""
    async with front(vends=VENDED, authorizer="catalog") as product:
        mint = Mint()
        minting(product, mint)
        product.upstream.says(loaded("new"))
        found = await product.ask("POST", TABLES, headers=VEND, body={**CREATE, "stage-create": True}, who=who)
        assert (found.status, "storage-credentials" in found.body, bool(mint.asked)) == (200, made, made)
        assert made or "no keys: scope_not_vendable" in only(product.events()).detail
        assert (await product.ask("GET", f"{TABLES}/new/credentials", who=who)).status == (200 if made else 403)


@pytest.mark.parametrize("staged", (False, True))
@pytest.mark.parametrize(
    "place", ("s3://lakehouse/t1", "s3://lakehouse/t1/inner", "s3://elsewhere/new", "s3://lakehouse")
)
async def test_a_table_that_is_made_at_a_foreign_place_comes_without_keys(place: str, staged: bool) -> None:
    """A caller would be handed the keys of another's files by naming their place (CVE-2026-42809)."""
    async with front(vends=VENDED) as product:
        product.upstream.says(loaded())
        await product.ask("GET", T1, headers=VEND, who="reader")
        product.upstream.says(loaded("new", uuid=OTHER, location=place))
        found = await product.ask("POST", TABLES, headers=VEND, body={**CREATE, "stage-create": staged})
        assert b"s3.access-key-id" not in found.content
        assert product.events()[-1].access_key_id == ""
        assert (await product.ask("GET", f"{TABLES}/new/credentials")).status == 403


@pytest.mark.parametrize("staged", (False, True))
async def test_a_place_that_its_caller_chose_gets_no_keys(staged: bool) -> None:
    """Nothing vouches for it."""
    async with front(vends=VENDED) as product:
        product.upstream.says(answer(200, {"namespace": ["ns"], "properties": {"location": "s3://lakehouse/ns"}}))
        chosen = {**CREATE, "location": "s3://lakehouse/t7", "stage-create": staged}
        found = await product.ask("POST", TABLES, headers=VEND, body=chosen)
        assert (found.status, found.error["type"]) == (403, "LocationNotAllowed")


async def test_a_registered_table_comes_with_keys() -> None:
    """A migration would have to load each table once more."""
    anywhere = POLICY.replace("tables: upstream\n    authorizer", CHOSEN_ANYWHERE)
    async with front(vends=VENDED, policy=anywhere) as product:
        product.upstream.says(loaded("new"))
        body = {"name": "new", "metadata-location": "s3://lakehouse/new/metadata/00001.metadata.json"}
        found = await product.ask("POST", "/v1/lake/namespaces/ns/register", headers=VEND, body=body)
        assert (found.status, "storage-credentials" in found.body) == (200, True)


async def test_a_revoke_between_two_loads_ends_the_keys() -> None:
    """What was handed out once would be handed out for ever."""
    async with front(vends=VENDED) as product:
        product.upstream.says(loaded())
        held = holder(product, await product.ask("GET", T1, headers=VEND, who="reader"))
        text = POLICY.replace("prefixes: [opaque]", f"prefixes: [opaque]\n    delegation: [{VENDED}]")
        product.policy(text.replace("reader: {roles: [readers]}", "reader: {roles: []}"))
        assert not await forwards(product, held, "t1/data/f")
        assert (await product.ask("GET", T1, headers=VEND, who="reader")).status == 403
        assert (await product.ask("GET", f"{T1}/credentials", who="reader")).status == 403


async def test_a_refresh_for_a_table_that_was_dropped_or_renamed_is_refused() -> None:
    """The name may be another's by now."""
    async with front(vends=VENDED) as product:
        product.upstream.says(loaded())
        held = holder(product, await product.ask("GET", T1, headers=VEND))
        product.upstream.says(answer(204))
        body = {"source": {"namespace": ["ns"], "name": "t1"}, "destination": {"namespace": ["ns"], "name": "t3"}}
        assert (await product.ask("POST", "/v1/lake/tables/rename", body=body)).status == 204
        product.upstream.script = by_path(t3=loaded("t3", location="s3://lakehouse/t1"))
        assert (await product.ask("GET", f"{T1}/credentials")).status == 403
        # Under its new name it is another one to keys that were made for the old name.
        assert not await forwards(product, held, "t1/data/f")
        assert (await product.ask("GET", f"{TABLES}/t3/credentials")).status == 200
        product.upstream.says(answer(204))
        assert (await product.ask("DELETE", f"{TABLES}/t3")).status == 204
        product.upstream.says(error(404, "NoSuchTableException"))
        assert (await product.ask("GET", f"{TABLES}/t3/credentials")).status == 403


async def test_keys_of_a_table_do_not_open_the_one_that_takes_its_name() -> None:
    """A holder of keys for a table could read what is made under its name next."""
    async with front(vends=VENDED) as product:
        product.upstream.says(loaded())
        held = holder(product, await product.ask("GET", T1, headers=VEND))
        product.upstream.says(answer(204))
        await product.ask("DELETE", T1)
        product.upstream.says(loaded("t1", uuid=OTHER))
        fresh = holder(product, await product.ask("GET", T1, headers=VEND))
        assert await forwards(product, fresh, "t1/data/f")
        assert not await forwards(product, held, "t1/data/f")


async def test_a_refresh_of_a_table_that_is_not_known_asks_for_it() -> None:
    """Each replica, and each restart, would end the jobs of others."""
    async with front(vends=VENDED) as product:
        product.upstream.script = by_path(t1=loaded())
        told = await product.ask("GET", f"{T1}/credentials")
        assert (told.status, told.body["storage-credentials"][0]["prefix"]) == (200, "s3://lakehouse/t1/")
        assert (await product.ask("GET", f"{TABLES}/t9/credentials")).status == 403
        product.upstream.says(error(503, "ServiceUnavailableException"))
        down = await product.ask("GET", f"{TABLES}/t8/credentials")
        assert (down.status, down.headers["Retry-After"]) == (503, "5")
        assert {event.kind.value for event in product.events()} == {"vend"}


async def test_the_prefix_is_spelled_as_the_catalog_spells_the_place() -> None:
    """Clients compare text: `s3a://` paths would find no keys for them, and be read without any."""
    async with front(vends=VENDED) as product:
        product.upstream.says(loaded(location="s3a://lakehouse/t1"))
        for found in (await product.ask("GET", T1, headers=VEND), await product.ask("GET", f"{T1}/credentials")):
            assert found.body["storage-credentials"][0]["prefix"] == "s3a://lakehouse/t1/"


async def test_an_answer_with_keys_is_not_kept_beyond_them() -> None:
    """A client that asks whether the table changed would be told to go on with keys that have ended."""
    async with front(vends=BOTH) as product:
        product.upstream.says(loaded(headers={"ETag": '"v1"'}))
        signed = await product.load()
        kept_tag = signed.headers["ETag"]
        found = await product.ask("GET", T1, headers={**VEND, "If-None-Match": kept_tag})
        assert "ETag" not in found.headers
        assert "if-none-match" not in product.upstream.last.headers
        assert "storage-credentials" in found.body


async def test_keys_that_end_soon_come_without_the_way_to_the_next_ones() -> None:
    """A short job with the end of a token could not read at all; a long one would renew its keys without pause."""
    async with front(vends=BOTH) as product:
        product.upstream.says(loaded())
        held = {hash_token(token_of("writer")): OpaqueToken("writer", expires_at=time.time() + 200)}
        product.authenticator.commit(product.authenticator.prepare((), StaticTokens(held)))
        config = key_in(await product.ask("GET", T1, headers=VEND))
        assert int(config["s3.session-token-expires-at-ms"]) / 1000 <= time.time() + 200
        assert not {name for name in config if name.startswith("client.refresh") or name == "credentials.uri"}
        assert config["s3.endpoint"] == LISTENER


async def test_a_token_for_one_table_gets_the_keys_of_that_table_alone() -> None:
    """What an executor holds would be worth every table of its owner."""
    async with front(vends=BOTH, table_tokens=True) as product:
        product.upstream.script = by_path(t1=loaded(), t2=loaded("t2", uuid=OTHER))
        token = (await product.load()).body["config"]["token"]
        await product.load("t2")
        own = await product.ask("GET", f"{T1}/credentials", who=None, token=token)
        assert own.status == 200
        held = holder(product, own)
        assert not await forwards(product, held, "t2/data/f")
        assert (await product.ask("GET", f"{TABLES}/t2/credentials", who=None, token=token)).status == 403
        asked = len(product.upstream.asked)
        assert (await product.ask("GET", f"{TABLES}/t5/credentials", who=None, token=token)).status == 403
        assert len(product.upstream.asked) == asked
