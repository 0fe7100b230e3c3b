"""Pass requests for tokens on to the catalog that gives them: clients ask there for what they show here."""

from __future__ import annotations

from time import perf_counter_ns

import msgspec

from signproxy.answers.api_way import ApiWay
from signproxy.answers.bodies import MAX_TOKEN_REQUEST, read_whole
from signproxy.answers.reply import JSON, NO_STORE, Reply, lines_of
from signproxy.catalog.answer import plain_answer
from signproxy.catalog.call import CallKind
from signproxy.catalog.travel import back, question_headers
from signproxy.catalog.upstream import Question, Whole
from signproxy.catalog.upstream_error import MAX_ERROR, oauth_error_of
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.catalog.upstreams import Bound, Upstreams
from signproxy.errors import Reason, Refused
from signproxy.facade.facade import Facade
from signproxy.facade.token_callers import TokenCaller
from signproxy.gate.judgement import Judgement
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.identity.authenticator import Authenticator
from signproxy.model import Subject
from signproxy.policy.state import PolicyState

_TARGET = "v1/oauth/tokens"


class _Given(msgspec.Struct, frozen=True):
    access_token: str = ""


_decode = msgspec.json.Decoder(_Given).decode


class TokenWay(ApiWay):
    """`POST /v1/oauth/tokens`: no part of either body is kept, and no credential with a scope is exchanged.

    The event names the principal of the token that was shown, or else of the one that was given.
    """

    _bound: Bound
    _content: bytes
    _told: Reply | None = None

    rooms: Facade

    async def identify(self) -> None:
        """Count a stranger: the caller has nothing to show yet that would be believed. Raise Refused."""
        if self.limits.stranger(perf_counter_ns()) is not None:
            raise Refused(Reason.RATE_LIMITED, "requests for tokens")
        self.lease.take(self.limits.waiting)

    async def ask(self, _subject: Subject | None) -> AskedFor:
        """Read what is shown for a token. Raise Refused."""
        bound = _upstream_of(self.policy_of(self.rooms.gate), self.rooms.upstreams, self.address)
        if bound is None:
            raise Refused(Reason.ROUTE_UNKNOWN, "no upstream gives tokens here")
        self._bound = bound
        self.asked = AskedFor(self.address, catalog=bound.upstream.spec.catalog)
        self._content = await read_whole(self.parsed, MAX_TOKEN_REQUEST)
        return self.asked

    async def judge(self, _subject: Subject | None, asked: AskedFor) -> Judgement:
        """Say whose token is shown, if it is one that is accepted here, and refuse what may not be exchanged."""
        caller = TokenCaller(self.parsed.headers.get("Authorization", ""), self._content)
        subject = await caller.subject(self.rooms.authenticator)
        judged = self.admitted(subject, asked, asked.catalog)
        try:
            caller.check()
        except Refused as refused:
            return msgspec.structs.replace(judged, refused=refused.with_traceback(None))
        return judged

    async def serve(self, judgement: Judgement, outcome: Outcome) -> Reply:
        """Pass the request on, and what is said to it. Raise Refused for what the upstream refuses."""
        bound, given, request_id = self._bound, self.message.headers, self.request.request_id
        spec = bound.upstream.spec
        headers = question_headers(given.items(), spec.headers, request_id, given.get("Authorization"))
        question = Question("POST", _TARGET, headers, body=Whole(self._content), within=spec.times.load)
        async with await bound.upstream.ask(question) as answer:
            status = answer.status
            if status == 200:
                told = plain_answer(CallKind.TOKENS, await answer.whole(MAX_ERROR))
                if judgement.subject is None:
                    outcome.subject = await _given(told, self.rooms.authenticator)
            elif status >= 400:
                told = oauth_error_of(status, await answer.problem())
            else:
                raise answer.invalid(f"status {status} to a request for a token")
            lines = f"{JSON}{lines_of(back(answer.headers), request_id, NO_STORE)}"
        reply = Reply(status, lines, told)
        # Any other answer of the upstream leaves the caller unknown.
        reply.known = status == 200
        if status == 200:
            self.limits.proved()
            return self.finish(reply)
        self._told = reply
        reason = reason_of_status(status) if status >= 500 else Reason.UPSTREAM_UNAUTHORIZED
        # Of no known caller: within the budget of strangers.
        raise Refused(reason, f"the upstream answered {status} to a request for a token")

    def refuse(self, refused: Refused, judgement: Judgement) -> Reply:
        """Tell the caller, in the upstream's own words where it was the upstream that refused."""
        return super().refuse(refused, judgement) if self._told is None else self.finish(self._told)


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
