"""Every reason that only a catalog with an upstream gives, provoked as a client would."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable

import pytest

from signproxy.errors import Reason
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from tests.catalog.scripted import Line, answer, error
from tests.facade.front import POLICY, SIGN, T1, Front, by_path, front, loaded
from tests.product import token_of

OTHER = "6f1a3c5e-0000-4000-8000-000000000002"
CREATION = {"name": "new", "stage-create": True}

_VENDS = POLICY.replace("prefixes: [opaque]", "prefixes: [opaque]\n    delegation: [vended-credentials]")

_DONE = re.compile(r'signproxy_requests_total\{decision="(?:deny|error)",op="[^"]*",reason="([^"]+)"\} 1')

Provoke = Callable[[Front], Awaitable[int]]


async def _down(product: Front) -> int:
    product.upstream.says(error(503, "ServiceUnavailableException"))
    return await product.signs()


async def _fails(product: Front) -> int:
    product.upstream.says(error(500, "InternalServerError"))
    return await product.signs()


async def _lost(product: Front) -> int:
    async def close(line: Line) -> None:
        line.hang_up()

    product.upstream.says(loaded())
    await product.load()
    product.upstream.does(close)
    body: dict[str, object] = {"requirements": [], "updates": []}
    return (await product.ask("POST", T1, body=body)).status


async def _page(product: Front) -> int:
    product.upstream.says(answer(200, b"<html>"))
    return (await product.load()).status


async def _unauthorized(product: Front) -> int:
    product.upstream.says(error(401, "NotAuthorizedException"))
    return await product.signs()


async def _guessing(product: Front) -> int:
    product.upstream.says(error(404, "NoSuchTableException"))
    status = 403
    for number in range(200):
        status = await product.signs(f"t{number}/f", name=f"t{number}")
        if status != 403:
            break
    return status


async def _not_permitted(product: Front) -> int:
    return (await product.load(who="sign-only")).status


async def _disputed(product: Front) -> int:
    product.upstream.script = by_path(t1=loaded("t1"), t2=loaded("t2", uuid=OTHER, location="s3://lakehouse/t1/inner"))
    await product.load("t1")
    return await product.signs("t1/inner/f", name="t2")


async def _outside(product: Front) -> int:
    product.upstream.says(loaded("t1", location="s3://elsewhere/t1"))
    return await product.signs("t1/f")


async def _chosen(product: Front) -> int:
    product.upstream.says(answer(200, {"namespace": ["ns"], "properties": {"location": "s3://lakehouse/ns"}}))
    body = {"name": "t9", "location": "s3://lakehouse/t1"}
    return (await product.ask("POST", "/v1/lake/namespaces/ns/tables", body=body)).status


async def _not_listed_yet(product: Front) -> int:
    product.learned.registry.require({"lake": 60.0})
    product.upstream.says(loaded())
    return await product.signs()


async def _altered(product: Front) -> int:
    product.upstream.script = by_path(tables=loaded("new", uuid=OTHER), new=error(404, "NoSuchTableException"))
    created = await product.ask("POST", "/v1/lake/namespaces/ns/tables", body=CREATION, headers=SIGN)
    carried = created.body["remote-signing-config"]["properties"]["signproxy-context"]
    return await product.signs("other/f", name="other", properties={"signproxy-context": carried[:-4] + "AAAA"})


async def _exchanged(product: Front) -> int:
    headers = {"Authorization": "Bearer spt1.AAAAAAAA.AAAA"}
    return (await product.ask("POST", "/v1/oauth/tokens", who=None, body=b"grant_type=x", headers=headers)).status


async def _out_of_scope(product: Front) -> int:
    product.upstream.says(loaded())
    token = (await product.load()).body["config"]["token"]
    return (await product.load("t2", who="", token=token)).status


async def _staged_in_anothers_place(product: Front, *, staged: bool = True) -> int:
    product.upstream.script = by_path(t1=loaded("t1"), tables=loaded("new", uuid=OTHER, location="s3://lakehouse/t1"))
    await product.load("t1")
    body = {"name": "new", "stage-create": staged}
    return (await product.ask("POST", "/v1/lake/namespaces/ns/tables", body=body)).status


async def _made_in_anothers_place(product: Front) -> int:
    return await _staged_in_anothers_place(product, staged=False)


async def _not_offered(product: Front) -> int:
    return (await product.ask("GET", f"{T1}/credentials")).status


async def _not_vended(product: Front) -> int:
    product.upstream.says(loaded())
    product.policy(_VENDS)
    return (await product.ask("GET", f"{T1}/credentials")).status


async def _ends_soon(product: Front) -> int:
    product.upstream.says(loaded())
    held = {hash_token(token_of("writer")): OpaqueToken("writer", expires_at=time.time() + 100)}
    product.authenticator.commit(product.authenticator.prepare((), StaticTokens(held)))
    return (await product.ask("GET", f"{T1}/credentials")).status


PROVOKED: dict[Reason, Provoke] = {
    Reason.UPSTREAM_UNAVAILABLE: _down,
    Reason.UPSTREAM_FAILED: _fails,
    Reason.UPSTREAM_TIMEOUT: _lost,
    Reason.UPSTREAM_INVALID: _page,
    Reason.UPSTREAM_UNAUTHORIZED: _unauthorized,
    Reason.UPSTREAM_BUSY: _guessing,
    Reason.CALL_NOT_PERMITTED: _not_permitted,
    Reason.LOCATION_DISPUTED: _disputed,
    Reason.LOCATION_OUTSIDE_ROOTS: _outside,
    Reason.LOCATION_CONFLICT: _staged_in_anothers_place,
    Reason.TABLE_NOT_SERVED: _made_in_anothers_place,
    Reason.LOCATION_UNVOUCHED: _chosen,
    Reason.INVENTORY_MISSING: _not_listed_yet,
    Reason.CONTEXT_INVALID: _altered,
    Reason.CREDENTIAL_SCOPED: _exchanged,
    Reason.NOT_IN_SCOPE: _out_of_scope,
    Reason.DELEGATION_REFUSED: _not_offered,
    Reason.VEND_OFF: _not_vended,
    Reason.TOKEN_ENDS_SOON: _ends_soon,
}


@pytest.mark.parametrize("reason", PROVOKED, ids=lambda reason: reason.code)
async def test_each_reason_is_provoked_answered_and_counted(reason: Reason) -> None:
    """A code that nothing gives stands in the documentation, the alarms and the dashboards for nothing."""
    vends = "vended-credentials" if reason is Reason.TOKEN_ENDS_SOON else ""
    async with front(table_tokens=reason is Reason.NOT_IN_SCOPE, vends=vends) as product:
        assert await PROVOKED[reason](product) == reason.status
        counted = _DONE.findall(product.metrics.render().body.decode())
    assert reason.code in counted
