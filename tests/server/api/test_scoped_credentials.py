"""Every route with every credential that is good for a part: none reaches further, or lives longer, than it does.

Routes are those of the product's own tables. One that is new fails here until it is said what it does with them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

import pytest

from signproxy.catalog.call import CallKind
from signproxy.config.container import ContainerProfile
from signproxy.config.settings import LimitSettings
from signproxy.errors import Reason, Refused
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import EmulatedKeys, Parts
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.identity.table_token import TableTokens
from signproxy.inventory.learned.sighting import Staged, TableFacts
from signproxy.model import KeyScope, Principal, TableScope
from signproxy.sealing import Purpose, Sealer, SealingSecret
from signproxy.server.api.routes import ROUTES, Endpoint
from signproxy.server.status.admin import PATHS, AdminHandler
from tests.catalog.scripted import Asked, Line, answer, error
from tests.facade.front import SIGN, UUID, Answer, Front, front, loaded, metadata
from tests.identity.keyed import emulated, signed
from tests.product import token_of
from tests.server.status.reports import NOW
from tests.server.status.test_admin import Attend, Desk, attend

__all__ = ["attend"]

OTHER = "6f1a3c5e-0000-4000-8000-000000000002"
SECONDS = 3600.0
SHORT = "a-token-that-lives-for-a-moment-only"
SEALING = SealingSecret(b"x" * 32)
"""What a `Front` seals table tokens and contexts with."""

MOUNTS = ("/catalogs/lake", "", "/api", "/api/catalog")


class Reach(Enum):
    """What a token for one table opens on a route."""

    TABLE = "the table itself, and no other"
    NOTHING = "nothing"
    CATALOG = "what every caller of its catalog is told, and nothing of another catalog"
    TOKENS = "nothing: it is exchanged for no token"


CALLS = {
    CallKind.CONFIG: Reach.CATALOG,
    CallKind.TOKENS: Reach.TOKENS,
    CallKind.LIST_NAMESPACES: Reach.NOTHING,
    CallKind.CREATE_NAMESPACE: Reach.NOTHING,
    CallKind.LOAD_NAMESPACE: Reach.NOTHING,
    CallKind.NAMESPACE_EXISTS: Reach.NOTHING,
    CallKind.DROP_NAMESPACE: Reach.NOTHING,
    CallKind.UPDATE_NAMESPACE: Reach.NOTHING,
    CallKind.LIST_TABLES: Reach.NOTHING,
    CallKind.CREATE_TABLE: Reach.NOTHING,
    CallKind.REGISTER_TABLE: Reach.NOTHING,
    CallKind.LOAD_TABLE: Reach.TABLE,
    CallKind.TABLE_EXISTS: Reach.TABLE,
    CallKind.UPDATE_TABLE: Reach.TABLE,
    CallKind.DROP_TABLE: Reach.TABLE,
    # It would lead to a name that the token is not good for.
    CallKind.RENAME_TABLE: Reach.NOTHING,
    CallKind.COMMIT_TRANSACTION: Reach.TABLE,
    CallKind.REPORT_METRICS: Reach.TABLE,
    CallKind.LOAD_CREDENTIALS: Reach.TABLE,
    CallKind.PLAN_TABLE: Reach.TABLE,
    CallKind.FETCH_PLAN: Reach.TABLE,
    CallKind.CANCEL_PLAN: Reach.TABLE,
    CallKind.FETCH_TASKS: Reach.TABLE,
    CallKind.LIST_VIEWS: Reach.NOTHING,
    CallKind.CREATE_VIEW: Reach.NOTHING,
    CallKind.LOAD_VIEW: Reach.NOTHING,
    CallKind.VIEW_EXISTS: Reach.NOTHING,
    CallKind.REPLACE_VIEW: Reach.NOTHING,
    CallKind.DROP_VIEW: Reach.NOTHING,
    CallKind.RENAME_VIEW: Reach.NOTHING,
    CallKind.REGISTER_VIEW: Reach.NOTHING,
}
OWN = {
    "v1/config": Reach.CATALOG,
    "v1/s3-keys": Reach.TABLE,
    "v1/credentials/resolve": Reach.TABLE,
    "v1/aws/s3/sign": Reach.TABLE,
    "s3-sign/v1/namespaces/{namespace}/tables/{table}": Reach.TABLE,
    "s3-sign/v1/{prefix}/namespaces/{namespace}/tables/{table}": Reach.TABLE,
    "v1/namespaces/{namespace}/tables/{table}/sign": Reach.TABLE,
    "v1/{prefix}/namespaces/{namespace}/tables/{table}/sign": Reach.TABLE,
    "{prefix}/v1/aws/s3/sign": Reach.TABLE,
    "{prefix}/v1/s3-keys": Reach.TABLE,
    "{prefix}/v1/credentials/resolve": Reach.TABLE,
    # One process has one profile: it is never for a table of a credential's own.
    "v1/aws/container-credentials/{profile}": Reach.NOTHING,
}
BODIES = {
    CallKind.CREATE_NAMESPACE: {"namespace": ["ns", "t1"]},
    CallKind.UPDATE_NAMESPACE: {"updates": {"a": "b"}},
    CallKind.RENAME_VIEW: {
        "source": {"namespace": ["ns"], "name": "NAME"},
        "destination": {"namespace": ["ns"], "name": "t9"},
    },
    CallKind.REGISTER_TABLE: {"name": "NAME", "metadata-location": "s3://lakehouse/NAME/metadata/1.metadata.json"},
    CallKind.REGISTER_VIEW: {"name": "NAME", "metadata-location": "s3://lakehouse/NAME/metadata/1.metadata.json"},
    CallKind.CREATE_TABLE: {"name": "NAME", "schema": {}},
    CallKind.CREATE_VIEW: {"name": "NAME", "schema": {}, "view-version": {}, "properties": {}},
    CallKind.COMMIT_TRANSACTION: {
        "table-changes": [{"identifier": {"namespace": ["ns"], "name": "NAME"}, "requirements": [], "updates": []}]
    },
    CallKind.UPDATE_TABLE: {"requirements": [], "updates": []},
}
BODIES[CallKind.RENAME_TABLE] = BODIES[CallKind.RENAME_VIEW]


def test_each_route_has_an_expectation() -> None:
    """A route that is added later would be the one that was never looked at."""
    assert set(CALLS) == set(CallKind)
    assert set(OWN) == {path for path, _ in ROUTES}


async def _catalog(asked: Asked, line: Line) -> bytes:
    """Answer as a catalog with two tables, whose owner may do everything."""
    await asyncio.sleep(0)
    last = asked.path.rpartition("/")[2]
    if asked.path.endswith("/v1/config"):
        return answer(200, {"defaults": {}, "overrides": {}})
    if asked.method in ("HEAD", "DELETE") or last in ("metrics", "commit", "rename"):
        return answer(204)
    if last == "tasks":
        return answer(200, {"file-scan-tasks": []})
    if "/plan" in asked.path:
        return answer(200, {"status": "completed", "file-scan-tasks": []})
    if asked.method == "POST" and last in ("t1", "t2"):
        return answer(200, {"metadata-location": f"s3://lakehouse/{last}/metadata/2.json", "metadata": _of(last)})
    if last in ("t1", "t2"):
        return loaded(last, uuid=UUID if last == "t1" else OTHER)
    return error(404, "NoSuchTableException")


def _of(name: str) -> dict[str, object]:
    return metadata(name, UUID if name == "t1" else OTHER)


class Holder(Front):
    """A server, and what its callers were handed out there."""

    keys: EmulatedKeys
    token: str

    async def send(self, method: str, path: str, name: str, *, token: str, body: object) -> Answer:
        return await self.ask(method, f"/{path}", who=None, token=token, body=_named(body, name), headers=SIGN)

    def sealed(self, bearer: str, expires_at: float) -> str:
        """Return a table token that ends at a moment."""
        tokens = TableTokens(Sealer([SEALING], Purpose.TABLE_TOKEN), 1e9)
        principal = Principal("static/writer", "static", "writer", expires_at)
        made = tokens.make(principal, bearer, TableScope("lake", "ns", "t1", UUID), expires_at - 1)
        assert made is not None
        return made


def _named(value: object, name: str) -> object:
    if isinstance(value, dict):
        return {key: _named(inner, name) for key, inner in value.items()}
    if isinstance(value, list):
        return [_named(inner, name) for inner in value]
    return value.replace("NAME", name) if isinstance(value, str) else value


@asynccontextmanager
async def holding() -> AsyncIterator[Holder]:
    async with front(table_tokens=True, vends="remote-signing, vended-credentials") as product:
        product.__class__ = Holder
        assert isinstance(product, Holder)
        product.upstream.script = _catalog
        product.keys = emulated(product.authenticator)
        product.issue_by(product.keys, {"all": ContainerProfile("lake")})
        product.token = (await product.load()).body["config"]["token"]
        assert product.token.startswith("spt1.")
        assert (await product.load("t2")).status == 200
        yield product


def _path(route: str, name: str) -> str:
    names = {
        "{prefix}": "lake",
        "{namespace}": "ns",
        "{table}": name,
        "{view}": name,
        "{plan-id}": "plan",
        "{profile}": "all",
    }
    return "/".join(names.get(part, part) for part in route.split("/"))


def _message(name: str) -> dict[str, object]:
    return {"region": "us-east-1", "method": "GET", "uri": f"http://s3.local:9000/lakehouse/{name}/f", "headers": {}}


def _own_body(endpoint: Endpoint, name: str) -> object:
    if endpoint is Endpoint.SIGN:
        return _message(name)
    if endpoint is Endpoint.RESOLVE:
        return {"bucket": "lakehouse", "path": f"{name}/f", "mode": "READ"}
    return {"catalog": "lake", "namespace": "ns", "table": name} if endpoint is Endpoint.KEYS else None


async def _check(product: Holder, reach: Reach, method: str, path: Any, body: Any) -> None:
    """Send one request about the table of the token, and one about another; see who is asked with what."""
    for name in ("t1", "t2"):
        asked = len(product.upstream.asked)
        found = await product.send(method, path(name), name, token=product.token, body=body(name))
        told = (method, path(name), found.status, product.events()[-1].reason)
        allowed = reach is Reach.CATALOG or (reach is Reach.TABLE and name == "t1")
        if allowed:
            assert found.status in (200, 204), told
            continue
        assert found.status == (401 if reach is Reach.TOKENS else 403), told
        assert told[-1] == ("credential_scoped" if reach is Reach.TOKENS else "not_in_scope"), told
        # Nothing is done, and no upstream is shown the owner's own token for it.
        assert len(product.upstream.asked) == asked, told
        assert product.events()[-1].principal == "static/writer"


@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize(("route", "endpoint"), ROUTES)
async def test_a_tables_token_on_each_route_of_signproxys_own(route: str, endpoint: Endpoint, mount: str) -> None:
    """A client that reads a token out of an executor would get what its owner may."""
    async with holding() as product:
        method = endpoint.method

        def path(name: str) -> str:
            return f"{mount}/{_path(route, name)}"

        await _check(product, OWN[route], method, path, lambda name: _own_body(endpoint, name))


@pytest.mark.parametrize("prefixed", (True, False))
@pytest.mark.parametrize("kind", CallKind, ids=lambda kind: kind.name)
async def test_a_tables_token_in_each_call_of_a_catalog(kind: CallKind, *, prefixed: bool) -> None:
    """The upstream is shown the owner's own token: it would do for the holder whatever the owner may."""
    async with holding() as product:
        route = kind.value.partition(" ")[2].removeprefix("/")
        if not prefixed:
            route = route.replace("v1/{prefix}/", "v1/")
        method = kind.method

        def path(name: str) -> str:
            return f"/catalogs/lake/{_path(route, name)}"

        await _check(product, CALLS[kind], method, path, lambda _: BODIES.get(kind, {} if method == "POST" else None))


# -- credentials that are none here


def _foreign(product: Holder) -> dict[str, str]:
    """Return what is no bearer token, and looks like one or holds one."""
    principal = product.authenticator.authenticate(token_of("writer"))
    assert isinstance(principal, Principal)
    now = time.time()
    of_table, whole = KeyScope("lake", "ns", "t1"), None
    issued = [product.keys.issue(principal, scope, 600, now, token_of("writer")) for scope in (of_table, whole)]
    two = product.keys.issue(principal, whole, 600, now, parts=Parts.TWO)
    facts = TableFacts("ns", "new", OTHER, "s3://lakehouse/new", {})
    ended = product.sealed(token_of("writer"), now - 1)
    return {
        "session token of a key for a table": issued[0].session_token,
        "session token of a key": issued[1].session_token,
        "id of a key": issued[1].access_key_id,
        "id of a key of two parts": two.access_key_id,
        "context": product.facade.granting.contexts.seal(Staged("lake", facts, "static/writer", now + 600)),
        "table token that has ended": ended,
        "table token inside a table token": _wrapped(product),
        "table token, altered": f"{product.token[:-4]}AAAA",
    }


def _wrapped(product: Holder) -> str:
    tokens = TableTokens(Sealer([SEALING], Purpose.TABLE_TOKEN), 600)
    principal = Principal("static/writer", "static", "writer", time.time() + 600)
    made = tokens.make(principal, product.token, TableScope("lake", "ns", "t1", UUID), time.time())
    assert made is not None
    return made


FOREIGN = 8


async def test_nothing_else_that_was_handed_out_opens_a_route() -> None:
    """A key opens the S3 listener alone, a context nothing by itself, and what has ended nothing at all."""
    async with holding() as product:
        product.handler.limits.replace(LimitSettings(unauthenticated_per_second=10_000))
        handed_out = _foreign(product)
        assert len(handed_out) == FOREIGN
        calls = [(kind.method, kind.value.partition(" ")[2], BODIES.get(kind)) for kind in CallKind]
        own = [(endpoint.method, f"/{path}", _own_body(endpoint, "t1")) for path, endpoint in ROUTES]
        asked, tried = len(product.upstream.asked), 0
        for what, token in handed_out.items():
            for method, route, body in (*own, *calls):
                path = f"/catalogs/lake{_path(route, 't1')}"
                found = await product.send(
                    method, path, "t1", token=token, body=body or ({} if method == "POST" else None)
                )
                assert found.status == 401, (what, method, path)
                tried += 1
        assert tried == FOREIGN * (len(CallKind) + len(ROUTES))
        assert len(product.upstream.asked) == asked


async def test_a_signature_by_an_issued_key_opens_no_route_of_the_catalog() -> None:
    """Keys are for data: with one a client could have keys of its own issued, or drop a table."""
    async with holding() as product:
        principal = product.authenticator.authenticate(token_of("writer"))
        assert isinstance(principal, Principal)
        sent = signed(product.keys.issue(principal, None, 600, time.time()), "POST", "/", now=time.time())
        authorization = dict(sent.headers)["authorization"]
        asked = len(product.upstream.asked)
        for kind in CallKind:
            if kind is CallKind.TOKENS:
                continue
            path = f"//catalogs/lake{_path(kind.value.partition(' ')[2], 't1')}"
            found = await product.ask(kind.method, path, who=None, headers={"Authorization": authorization})
            assert found.status == 401, kind
        for route, endpoint in ROUTES:
            method = endpoint.method
            path = f"//catalogs/lake/{_path(route, 't1')}"
            assert (await product.ask(method, path, who=None, headers={"Authorization": authorization})).status == 401
        assert len(product.upstream.asked) == asked


async def test_a_context_is_good_for_the_caller_it_was_handed_out_to() -> None:
    """A client that reads one out of a request could write where its owner is about to create a table."""
    async with holding() as product:
        facts = TableFacts("ns", "new", OTHER, "s3://lakehouse/new", {})
        context = product.facade.granting.contexts.seal(Staged("lake", facts, "static/writer", time.time() + 600))
        carried = {"signproxy-context": context}
        for method in ("GET", "PUT"):
            assert await product.signs("new/f", name="new", method=method, who="reader", properties=carried) == 403
        assert await product.signs("new/f", name="new", method="PUT", token=product.token, properties=carried) == 403
        assert await product.signs("new/f", name="new", method="PUT", properties=carried) == 200


# -- the operator's listener

OPERATORS = {
    "/livez": False,
    "/readyz": False,
    "/startupz": False,
    "/metrics": False,
    # Names callers and tables.
    "/status": True,
}


def test_each_path_of_the_operators_listener_has_an_expectation() -> None:
    """One that names callers would be open to any client that reaches the listener."""
    assert tuple(OPERATORS) == PATHS


async def test_an_operators_tables_token_opens_no_status(attend: Attend) -> None:
    """Who was refused what is shown to operators, and not to the executors that hold a table token of theirs."""
    held = {hash_token(SHORT): OpaqueToken("operator", ("operators",))}
    tokens = TableTokens(Sealer([SEALING], Purpose.TABLE_TOKEN), SECONDS)
    by = Authenticator((), StaticTokens(held), tokens)
    operator = by.authenticate(SHORT)
    assert isinstance(operator, Principal)
    of_table = by.table_token(operator, SHORT, TableScope("lake", "ns", "t1", UUID))
    key = emulated(by).issue(operator, None, 600, time.time())
    desk = Desk()
    desk.handler = AdminHandler(desk._fleet, desk.metrics, by.roles_of, role="operators", clock=lambda: NOW)
    desk = await attend(desk)
    for path, operators in OPERATORS.items():
        shown = {}
        for token in (SHORT, of_table, key.session_token, key.access_key_id):
            found = await desk.get(path, ("Host", "10.0.0.7"), ("Authorization", f"Bearer {token}"))
            shown[token] = found.status
        assert list(shown.values()) == ([200, 403, 401, 401] if operators else [200] * 4), path


# -- lives


def _lives(seconds: float) -> tuple[Authenticator, list[float]]:
    """Return who believes a token of so many seconds and what is made of it, and the clock that they go by."""
    now = [1_800_000_000.0]
    held = {hash_token(SHORT): OpaqueToken("writer", expires_at=now[0] + seconds)}
    tokens = TableTokens(Sealer([SEALING], Purpose.TABLE_TOKEN), SECONDS)
    return Authenticator((), StaticTokens(held), tokens, clock=lambda: now[0]), now


@pytest.mark.parametrize("seconds", (1.0, 60.0, SECONDS - 1))
def test_nothing_outlives_the_token_that_it_was_made_of(seconds: float) -> None:
    """A token that leaked for a minute would be made one of hours, or a key of hours, or the one of the other."""
    by, now = _lives(seconds)
    keys, start = emulated(by), now[0]
    owner = by.authenticate(SHORT)
    assert isinstance(owner, Principal)
    scope = TableScope("lake", "ns", "t1", UUID)
    token = by.table_token(owner, SHORT, scope)
    assert token is not None
    limited = by.authenticate(token)
    assert isinstance(limited, Principal)
    again = by.table_token(limited, token, scope)
    assert again is not None
    twice = by.authenticate(again)
    assert isinstance(twice, Principal)
    issued = [keys.issue(each, None, 1e9, now[0]) for each in (owner, limited, twice)]
    assert {each.expires_at for each in (limited, twice)} == {start + seconds}
    assert {key.expires_at for key in issued} == {start + seconds}
    assert limited.scope == twice.scope == scope
    # A table's token makes none for another table, or for whatever has the name.
    for other in (TableScope("lake", "ns", "t2", OTHER), TableScope("lake", "ns", "t1", OTHER)):
        assert by.table_token(limited, token, other) is None
    now[0] = start + seconds - 0.001
    assert by.authenticate(token) is limited
    found = by.again(by.known(limited))
    assert found is not None
    assert found.caller is limited
    for key in issued:
        assert keys.open(key.access_key_id, key.session_token, now[0]).expires_at == start + seconds
    now[0] = start + seconds
    # What was remembered of them ends as well.
    assert by.again(by.known(limited)) is None
    for spent in (SHORT, token, again):
        with pytest.raises(Refused) as refused:
            by.authenticate(spent)
        assert refused.value.reason is Reason.TOKEN_EXPIRED
    for key in issued:
        with pytest.raises(Refused) as refused:
            keys.open(key.access_key_id, key.session_token, now[0])
        assert refused.value.reason is Reason.KEY_EXPIRED
