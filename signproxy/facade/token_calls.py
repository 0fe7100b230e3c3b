"""Pass requests for tokens on to the catalog that gives them: clients ask there for what they show here."""

from __future__ import annotations

import msgspec
from aiohttp import web

from signproxy.answers.bodies import MAX_TOKEN_REQUEST, read_whole
from signproxy.answers.reply import Reply
from signproxy.answers.wire import JSON, NO_STORE, lines_of
from signproxy.catalog.answer import plain_answer
from signproxy.catalog.call import CallKind
from signproxy.catalog.travel import back, onward
from signproxy.catalog.upstream import Question, Whole
from signproxy.catalog.upstream_error import MAX_ERROR, oauth_error_of
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.catalog.upstreams import Bound, Upstreams
from signproxy.errors import Reason, Refused
from signproxy.facade.token_callers import TokenCaller
from signproxy.gate.gate import CatalogAddress
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.model import Subject
from signproxy.policy.state import PolicyState

_TARGET = "v1/oauth/tokens"


class _Given(msgspec.Struct, frozen=True):
    access_token: str = ""


_decode = msgspec.json.Decoder(_Given).decode


async def answer_tokens(
    passage: Passage,
    address: CatalogAddress,
    request: web.BaseRequest,
    *,
    state: PolicyState,
    upstreams: Upstreams,
    authenticator: Authenticator,
    recorder: Recorder,
) -> Reply:
    """Answer `POST /v1/oauth/tokens`: no part of either body is kept, and no credential with a scope is exchanged.

    The event names the principal of the token that was shown, or else of the one that was given. Raise Refused.
    """
    bound = _upstream_of(state, upstreams, address)
    if bound is None:
        raise Refused(Reason.ROUTE_UNKNOWN, "no upstream gives tokens here")
    spec = bound.upstream.spec
    passage.catalog = spec.catalog
    content = await read_whole(request, MAX_TOKEN_REQUEST)
    authorization = request.headers.get("Authorization", "")
    caller = TokenCaller(authorization, content)
    passage.subject = await caller.subject(authenticator)
    caller.check()
    headers = onward(request.headers.items(), spec.headers)
    headers += [("Accept-Encoding", "identity"), ("X-Request-ID", passage.request_id)]
    if authorization:
        headers.append(("Authorization", authorization))
    question = Question("POST", _TARGET, headers, body=Whole(content), within=spec.times.load)
    async with await bound.upstream.ask(question) as answer:
        status = answer.status
        if status == 200:
            told = plain_answer(CallKind.TOKENS, await answer.whole(MAX_ERROR))
            passage.subject = passage.subject or await _given(told, authenticator)
            recorder.passed(passage, 200)
        elif status >= 400:
            told = oauth_error_of(status, await answer.problem())
            reason = reason_of_status(status) if status >= 500 else Reason.UPSTREAM_UNAUTHORIZED
            # Of no known caller: within the budget of strangers.
            recorder.refused(passage, reason, f"the upstream answered {status} to a request for a token")
        else:
            raise answer.invalid(f"status {status} to a request for a token")
        lines = f"{JSON}{lines_of(back(answer.headers), passage.request_id, NO_STORE)}"
    reply = Reply(status, lines, told)
    # Any other answer of the upstream leaves the caller unknown.
    reply.known = status == 200
    return reply


def _upstream_of(state: PolicyState, upstreams: Upstreams, address: CatalogAddress) -> Bound | None:
    catalog = state.catalogs.get(state.default_catalog if address.name is None else address.name)
    return None if catalog is None or catalog.learning is None else upstreams.of(catalog.name)


async def _given(told: bytes, authenticator: Authenticator) -> Subject | None:
    """Return whom the upstream gave a token, where that is one which is accepted here."""
    try:
        token = _decode(told).access_token
    except msgspec.MsgspecError:
        return None
    return await TokenCaller(f"Bearer {token}", b"").subject(authenticator)
