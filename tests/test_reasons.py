"""Every reason code: provoked through the product, answered with its own status, and counted under its own name."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from urllib.parse import quote

import msgspec
import pytest

from signproxy.answers.bodies import MAX_MESSAGE
from signproxy.config.settings import LimitSettings
from signproxy.errors import Reason, Refused
from signproxy.identity.opaque import STATIC_ISSUER
from signproxy.model import Ceiling, NamedTable
from signproxy.signing import sign_way
from tests.facade.test_upstream_reasons import PROVOKED as BEHIND_AN_UPSTREAM
from tests.gate.cases import CASES, SEALED, Ask, judge
from tests.gate.forward_cases import OF_THE_S3_LISTENER, OF_VOLUMES
from tests.gate.learned_cases import LEARNED_CASES, OF_THE_FACADE
from tests.identity.rig import NOW, authenticator, claims, public_issuer, remote_issuer, token
from tests.places import placed
from tests.product import SIGN_T1, Product, sign_message, token_of
from tests.vending.vending_cases import OF_VENDING
from tests.waiting import until

GONE = 0
"""Stands for the status of an answer that was not received."""

Provoke = Callable[[Product], Awaitable[int]]

_DONE = re.compile(r'signproxy_requests_total\{decision="[^"]*",op="[^"]*",reason="([^"]*)"\} 1')


def _route(ask: Ask) -> str:
    prefix = "" if ask.address.prefix is None else f"/{quote(ask.address.prefix)}"
    if isinstance(ask.target, NamedTable):
        return f"/s3-sign/v1{prefix}/namespaces/{ask.target.namespace}/tables/{ask.target.name}"
    return f"{prefix}/v1/aws/s3/sign"


def _case(reason: Reason) -> Provoke:
    ask = CASES[reason]

    async def provoke(product: Product) -> int:
        wire = msgspec.json.encode(msgspec.to_builtins(ask.wire))
        return (await product.call("POST", _route(ask), who=ask.who, body=wire))[0]

    return provoke


def _call(
    path: str = SIGN_T1, method: str = "POST", body: bytes | None = None, *, who: str | None = "reader"
) -> Provoke:
    content = msgspec.json.encode(sign_message()) if body is None else body

    async def provoke(product: Product) -> int:
        return (await product.call(method, path, who=who, body=content))[0]

    return provoke


def _bearer(text: str) -> Provoke:
    async def provoke(product: Product) -> int:
        sent = {"Authorization": f"Bearer {text}"}
        body = msgspec.json.encode(sign_message())
        return (await product.call("POST", SIGN_T1, who=None, headers=sent, body=body))[0]

    return provoke


async def _half_a_body(product: Product, *, leave: bool) -> int:
    reader, writer = await product.opened()
    head = f"POST {SIGN_T1} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('reader')}\r\n"
    writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
    await writer.drain()
    if leave:
        # The handler must have begun to read, or there is no client to be gone.
        await until(lambda: product.handler.in_flight == 1)
        writer.transport.abort()
        return GONE
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def _too_slow(product: Product) -> int:
    patch = pytest.MonkeyPatch()
    patch.setattr(sign_way, "BODY_TIMEOUT", 0.05)
    try:
        return await _half_a_body(product, leave=False)
    finally:
        patch.undo()


async def _without_credentials(product: Product) -> int:
    product.credentials.refusal = Refused(Reason.CREDENTIALS_UNAVAILABLE, "none")
    return await _call()(product)


async def _without_trail(product: Product) -> int:
    await asyncio.to_thread(product.trail.close, 5.0)
    return await _call()(product)


async def _beyond_the_rate(product: Product) -> int:
    product.handler.limits.replace(LimitSettings(requests_per_second=1, burst=1))
    product.handler.limits.admit("static/reader", perf_counter_ns())
    return await _call()(product)


def _beside(waiting: str) -> Provoke:
    """Ask for something that has to be waited for beside another request that waits."""

    async def provoke(product: Product) -> int:
        product.handler.limits.replace(LimitSettings(in_flight=1, total_in_flight=1))
        with placed(product.handler.limits.waiting, waiting):
            # A header name in lower case: only aiohttp's parser takes it, and what it parses may have to wait.
            headers = {"x-lower": "case"}
            return (await product.call("POST", SIGN_T1, headers=headers, body=msgspec.json.encode(sign_message())))[0]

    return provoke


class _Broken:
    def resolve(self, *_: object) -> tuple[()]:
        raise ZeroDivisionError


async def _without_keys(product: Product) -> int:
    # Closed: nothing was fetched, and nothing will be.
    await product.authenticator.aclose()
    return await _bearer(token(header={"alg": "RS256"}))(product)


def _product(reason: Reason) -> Product:
    """Return the product in which a reason can come up."""
    match reason:
        case Reason.INTERNAL:
            return Product(SEALED, resolver=_Broken())
        case Reason.CATALOG_NOT_FOR_ISSUER:
            return Product(SEALED, catalogs=("other",))
        case Reason.KEYS_UNAVAILABLE:
            return Product(SEALED, authenticator=authenticator(remote_issuer("https://keys.example")))
        case Reason.TOKEN_KEY_UNKNOWN:
            return Product(SEALED, authenticator=authenticator(public_issuer("RS256", kid="one")))
        case _ if reason.name.startswith("TOKEN_"):
            return Product(SEALED, authenticator=authenticator())
        case _:
            return Product(SEALED)


PROVOKED: dict[Reason, Provoke] = {
    **{reason: _case(reason) for reason in CASES if reason is not Reason.CEILING},
    Reason.ROUTE_UNKNOWN: _call("/nosuch"),
    Reason.ROUTE_MALFORMED: _call("/v1/%00/namespaces/a/tables/b/sign"),
    Reason.METHOD_NOT_ALLOWED: _call(method="PUT"),
    Reason.BODY_TOO_LARGE: _call(body=msgspec.json.encode(sign_message(padding="x" * MAX_MESSAGE))),
    Reason.BODY_TIMEOUT: _too_slow,
    Reason.RATE_LIMITED: _beyond_the_rate,
    Reason.IN_FLIGHT_LIMITED: _beside("static/reader"),
    Reason.OVERLOADED: _beside("static/other"),
    Reason.TOKEN_MISSING: _call(who=None),
    Reason.TOKEN_MALFORMED: _bearer("no.token"),
    Reason.TOKEN_ISSUER_UNKNOWN: _bearer(token(claims(iss="https://other"))),
    Reason.TOKEN_ALGORITHM: _bearer(token(header={"alg": "none"})),
    Reason.TOKEN_KEY_UNKNOWN: _bearer(token(header={"alg": "RS256", "kid": "two"})),
    Reason.TOKEN_SIGNATURE: _bearer(token(key=b"another secret of thirty-two bytes")),
    Reason.TOKEN_EXPIRED: _bearer(token(claims(exp=NOW - 3_600))),
    Reason.TOKEN_NOT_YET_VALID: _bearer(token(claims(nbf=NOW + 3_600))),
    Reason.TOKEN_AUDIENCE: _bearer(token(claims(aud="other"))),
    Reason.TOKEN_CLAIM: _bearer(token(claims(sub=...))),
    Reason.KEYS_UNAVAILABLE: _without_keys,
    Reason.MESSAGE_MALFORMED: _call(body=b"{}"),
    Reason.PROVIDER_UNSUPPORTED: _call(body=msgspec.json.encode(sign_message(provider="gcs"))),
    Reason.CREDENTIALS_UNAVAILABLE: _without_credentials,
    Reason.AUDIT_UNAVAILABLE: _without_trail,
    Reason.CLIENT_GONE: lambda product: _half_a_body(product, leave=True),
    Reason.INTERNAL: _call(),
}

# Only a delegated or clamped subject meets the ceiling, and no route makes one. What an upstream is needed for is
# provoked where there is one: at the gate, and through the facade. What concerns objects as they pass is provoked at
# the S3 listener, and what keeps keys from being handed out where they are made.
_BEYOND_THE_ROUTES = {Reason.CEILING, *LEARNED_CASES, *OF_THE_FACADE, *OF_VOLUMES, *OF_THE_S3_LISTENER, *OF_VENDING}


def test_every_reason_can_be_provoked() -> None:
    """A code that nothing gives stands in the documentation, the alarms and the dashboards for nothing."""
    assert set(PROVOKED) | set(BEHIND_AN_UPSTREAM) | _BEYOND_THE_ROUTES == set(Reason)
    assert not set(PROVOKED) & _BEYOND_THE_ROUTES


async def test_what_no_route_can_reach_the_gate_refuses() -> None:
    """The rule stands before the first route that needs it."""
    refused = (await judge(Product(SEALED), CASES[Reason.CEILING])).refused
    assert refused is not None
    assert refused.reason is Reason.CEILING
    assert CASES[Reason.CEILING].ceiling is Ceiling.READ_ONLY


@pytest.mark.parametrize("reason", PROVOKED, ids=lambda reason: reason.code)
async def test_each_reason_is_provoked_answered_and_counted(reason: Reason, capfd: pytest.CaptureFixture[str]) -> None:
    """The code that an operator sees must be the one that the documentation explains."""
    async with _product(reason).running() as product:
        status = await PROVOKED[reason](product)

        def counted() -> list[str]:
            return _DONE.findall(product.metrics.render().body.decode())

        await until(counted)
    assert counted() == [reason.code]
    assert status == (GONE if reason is Reason.CLIENT_GONE else reason.status)
    # A fault of ours leaves its trace in the log, and no other reason does.
    assert ("ZeroDivisionError" in capfd.readouterr().err) is (reason is Reason.INTERNAL)


def test_codes_are_unique_and_spelled_like_their_names() -> None:
    """One word for one thing, in code, audit, metrics and documentation."""
    codes = [reason.code for reason in Reason]
    assert len(set(codes)) == len(codes) == len(Reason.__members__)
    assert codes == [reason.name.lower() for reason in Reason]


def test_what_a_caller_is_told_names_no_principal() -> None:
    """One text for all whom a catalog, namespace or table is hidden from, or it would tell them apart."""
    hidden = [reason for reason in Reason if reason.value.message == "Insufficient privileges"]
    assert len(hidden) >= 9
    assert {(reason.status, reason.value.type) for reason in hidden} == {(403, "ForbiddenException")}
    for reason in Reason:
        assert "{" not in reason.value.message
        assert STATIC_ISSUER not in reason.value.message


def test_every_reason_tells_the_operator_what_it_means_and_what_to_do() -> None:
    """The table of the documentation is made from these."""
    for reason in Reason:
        spec = reason.value
        assert spec.meaning.endswith(".")
        assert spec.remedy.endswith(".") or reason is Reason.ALLOWED
        assert math.isfinite(spec.status)
        assert spec.status in {200, 400, 401, 403, 404, 405, 409, 411, 413, 429, 499, 501, 502, 503, 504}
