"""The recorder: each request ends in one event that says who did what, by which rule, and how it ended."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from time import time

import msgspec
import pytest

from signproxy.audit.budget import EVENTS_PER_CALLER, OVER_LIMIT
from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.trail_state import OnError
from signproxy.errors import Reason, Refused
from signproxy.gate.events import decided_at
from signproxy.gate.judgement import Judgement, admitted, look_at, unjudged
from signproxy.gate.limits import Lease
from signproxy.gate.outcome import Outcome, StoreOutcome
from signproxy.gate.recorder import Recorder
from signproxy.gate.refusals import KNOWN_CALLERS, MAX_DETAIL_CHARACTERS, MAX_NAME_CHARACTERS, UNKNOWN_CALLERS
from signproxy.gate.request import NOTHING_ASKED, AskedFor, CatalogAddress, Request
from signproxy.model import BY_LOCATION, NamedTable, Pod, Principal, Subject
from signproxy.s3.forward_wire import ForwardWire
from signproxy.telemetry.request_log import RequestLine, RequestLog
from tests.gate.cases import CASES, SEALED, Ask, judge, new_request
from tests.gate.forward_cases import Site, delete, wire
from tests.product import ACCESS_KEY, AT_ARRIVAL, HOST, Product
from tests.scrape import OPEN_METRICS, parsed


class _Lines(RequestLog):
    """Keeps what would be logged."""

    __slots__ = ("lines",)

    def __init__(self, lines: list[RequestLine], sample: int = 0) -> None:
        super().__init__(allowed_sample=sample)
        self.lines = lines

    def refused(self, line: RequestLine) -> None:
        self.lines.append(line)

    def allowed(self, line: RequestLine) -> None:
        self.lines.append(line)


class Desk:
    """A recorder with its trail running."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.lines: list[RequestLine] = []
        log = _Lines(self.lines)
        self.recorder = Recorder(product.trail, product.metrics, log)

    async def close(
        self, ask: Ask, outcome: Outcome | None = None, request: Request | None = None, lease: Lease | None = None
    ) -> AuditEvent:
        """Judge a request, record it as the order does, and return its event."""
        judged = await judge(self.product, ask)
        if judged.refused is not None:
            self.refuse(judged.refused.reason, judged.refused.detail, judged, request=request, lease=lease)
        else:
            self.serve(judged, outcome, request=request, lease=lease)
        return self.product.events()[-1]

    def serve(
        self,
        judgement: Judgement,
        outcome: Outcome | None = None,
        *,
        request: Request | None = None,
        lease: Lease | None = None,
    ) -> None:
        """Record a request that was served; by default one that came just before it was judged."""
        came = request or msgspec.structs.replace(new_request(), started_ns=judgement.decided_ns)
        self.recorder.served(came, judgement, outcome or Outcome(), lease or Lease())

    def refuse(
        self,
        reason: Reason,
        detail: str,
        judgement: Judgement | None = None,
        *,
        subject: Subject | None = None,
        asked: AskedFor = NOTHING_ASKED,
        request: Request | None = None,
        outcome: Outcome | None = None,
        lease: Lease | None = None,
    ) -> None:
        """Record a refusal; without a judgement it came before there was one."""
        refused, came = Refused(reason, detail), request or new_request()
        judged = judgement or unjudged(came, subject, asked, refused)
        self.recorder.refused(came, judged, refused, outcome, lease or Lease())

    def counted(self) -> list[str]:
        """Return the requests that the metrics counted."""
        lines = self.product.metrics.render().body.decode().splitlines()
        return [line for line in lines if line.startswith("signproxy_requests_total{")]

    def exemplars(self) -> dict[str, str]:
        """Return the event that each count of requests leads to, by reason."""
        return {
            sample.labels["reason"]: sample.exemplar.labels["event_id"]
            for family in parsed(self.product.metrics.render(accept=OPEN_METRICS))
            for sample in family.samples
            if sample.name == "signproxy_requests_total" and sample.exemplar is not None
        }


@contextmanager
def _desk(**options: object) -> Iterator[Desk]:
    product = Product(SEALED, **options)  # type: ignore[arg-type]  # passed on by name
    product.trail.start()
    try:
        yield Desk(product)
    finally:
        product.trail.close(5.0)


def _filled(event: AuditEvent) -> dict[str, object]:
    """Return what an event says, without what differs from run to run."""
    fields = msgspec.to_builtins(event)
    for name in ("schema", "boot_id", "seq", "ts", "total_us", "authz_us", "sign_us", "policy_rev"):
        fields.pop(name, None)
    return {name: value for name, value in fields.items() if value not in ("", [], ())}


_WHO = {
    "event_id": "event-1",
    "request_id": "request-1",
    "remote_ip": "192.0.2.7",
    "user_agent": "test/1",
    "kind": "sign",
    "principal": "static/writer",
    "issuer": "static",
    "policy_epoch": 1,
}


async def test_an_allowed_request_is_recorded_whole() -> None:
    """An auditor who asks later who read a file has only this line."""
    with _desk() as desk:
        outcome = Outcome(
            access_key_id=ACCESS_KEY[-4:], stamped=True, cacheable=True, expires_at="2027-01-15T08:15:00Z"
        )
        event = await desk.close(Ask(), outcome)
        assert _filled(event) == {
            **_WHO,
            "catalog": "lake",
            "namespace": "ns",
            "table": "t1",
            "table_uuid": "6f1a3c5e-0000-4000-8000-000000000001",
            "bucket": "my-bucket",
            "key": "wh/t1/data/f.parquet",
            "method": "GET",
            "s3_op": "GetObject",
            "access": "read",
            "decision": "allow",
            "reason": "allowed",
            "rule_id": "writer@catalog:lake",
            "http_status": 200,
            # No more of the key id than its end.
            "access_key_id": "MPLE",
            "stamped": True,
            "cacheable": True,
            "expires_at": "2027-01-15T08:15:00Z",
        }
        assert event.policy_rev == desk.product.state.rev
        assert desk.counted() == [
            'signproxy_requests_total{decision="allow",op="GetObject",reason="allowed"} 1.0',
        ]


async def test_a_denied_request_is_recorded_with_the_operators_detail() -> None:
    """A denial must be explained to the rule without asking the caller."""
    with _desk() as desk:
        event = await desk.close(CASES[Reason.OUTSIDE_TABLE])
        assert _filled(event) == {
            **_WHO,
            "catalog": "lake",
            "namespace": "ns",
            "table": "t1",
            "table_uuid": "6f1a3c5e-0000-4000-8000-000000000001",
            "bucket": "my-bucket",
            "key": "wh/t10/f",
            "method": "GET",
            "s3_op": "GetObject",
            "access": "read",
            "decision": "deny",
            "reason": "outside_table",
            "http_status": 403,
            "detail": event.detail,
        }
        assert "'s3://my-bucket/wh/t10/f'" in event.detail
        assert desk.counted() == [
            'signproxy_requests_total{decision="deny",op="GetObject",reason="outside_table"} 1.0',
        ]


async def test_what_could_not_be_read_is_recorded_as_it_was_sent() -> None:
    """An attack that fails in the grammar still has to be seen as what it was."""
    with _desk() as desk:
        ask = CASES[Reason.KEY_DOT_SEGMENT]
        event = await desk.close(ask)
        assert (event.method, event.s3_op, event.key) == ("GET", "", "")
        assert event.detail.endswith(f"; uri {ask.uri!r}")
        # The table of the path is all that is known of the target.
        assert (event.namespace, event.table) == ("ns", "t1")
        # Without an operation the kind of the request is counted.
        assert desk.counted() == [
            'signproxy_requests_total{decision="deny",op="sign",reason="key_dot_segment"} 1.0',
        ]


async def test_a_route_without_a_table_names_none() -> None:
    """An invented table in the trail would be another caller's."""
    with _desk() as desk:
        event = await desk.close(replace(CASES[Reason.KEY_DOT_SEGMENT], target=BY_LOCATION))
        assert (event.namespace, event.table) == ("", "")
        found = await desk.close(Ask(target=BY_LOCATION))
        assert (found.namespace, found.table) == ("ns", "t1")


async def test_the_table_that_refused_is_named_rather_than_the_paths() -> None:
    """Where locations decide, the path may name another table than the one that said no."""
    with _desk() as desk:
        ask = Ask(
            uri="https://my-other.s3.us-west-2.amazonaws.com/wh/l2/f",
            who="half",
            address=CatalogAddress(name="located"),
            target=NamedTable("ns", "l1"),
        )
        event = await desk.close(ask)
        assert (event.reason, event.table) == ("no_remote_sign", "l2")


async def test_a_bulk_delete_is_recorded_with_all_its_keys() -> None:
    """A thousand keys do not fit a line: their number and a digest prove which ones they were."""
    keys = ["wh/t1/b", "wh/t1/a", "wh/t1/\u00e9"]
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    with _desk() as desk:
        event = await desk.close(Ask(method="POST", uri=f"{HOST}?delete", body=f"<Delete>{objects}</Delete>"))
        assert (event.s3_op, event.access, event.key, event.key_count) == ("DeleteObjects", "delete", "wh/t1/b", 3)
        digest = hashlib.sha256("wh/t1/b\nwh/t1/a\nwh/t1/\u00e9\n".encode()).hexdigest()
        assert event.keys_sha256 == digest
        one = await desk.close(Ask(method="DELETE"))
        assert (one.key_count, one.keys_sha256) == (0, "")


async def test_a_list_is_recorded_with_its_prefix() -> None:
    """A list has no key; what it showed is its prefix."""
    with _desk() as desk:
        event = await desk.close(Ask(uri=f"{HOST}?list-type=2&prefix=wh%2Ft1%2F"))
        assert (event.s3_op, event.access, event.key, event.prefixes) == ("ListObjectsV2", "list", "", ("wh/t1/",))
        assert (await desk.close(Ask())).prefixes == ()


def _caller() -> Principal:
    return Principal(
        "corp/etl", "corp", "etl", 4e9, ("loaders", "readers"), None, Pod("jobs", "etl-7", "uid-7", "node-7")
    )


def _known() -> Subject:
    return Subject.of(_caller())


async def test_the_pod_and_roles_of_the_caller_are_recorded() -> None:
    """In a cluster the pod is what an operator can look up."""
    with _desk() as desk:
        desk.refuse(Reason.TABLE_UNKNOWN, "", subject=_known())
        event = desk.product.events()[0]
    assert (event.principal, event.issuer, event.roles) == ("corp/etl", "corp", ("loaders", "readers"))
    assert (event.pod_namespace, event.pod_name, event.pod_uid, event.pod_node) == ("jobs", "etl-7", "uid-7", "node-7")
    # A caller that acts for itself is named once.
    assert (event.effective_principal, event.view_chain) == ("", ())


async def test_whose_rights_were_used_is_recorded_beside_who_used_them() -> None:
    """A view's reader did not read with its own rights; both principals must be found."""
    with _desk() as desk:
        owner = Principal("corp/owner", "corp", "owner", 4e9)
        desk.refuse(Reason.TABLE_UNKNOWN, "", subject=Subject(_caller(), owner, ("view-a", "view-b")))
        event = desk.product.events()[0]
    assert (event.principal, event.effective_principal) == ("corp/etl", "corp/owner")
    assert event.view_chain == ("view-a", "view-b")


# What is not implemented was asked for by the caller.
_VERDICTS = tuple(
    (reason, Verdict.DENY if reason.status < 499 or reason.status == 501 else Verdict.ERROR) for reason in Reason
)


@pytest.mark.parametrize(("reason", "verdict"), _VERDICTS[1:], ids=lambda value: getattr(value, "code", ""))
def test_a_refusal_is_the_callers_and_a_failure_is_ours(reason: Reason, verdict: Verdict) -> None:
    """Alarms are set on errors: a caller's mistakes must not ring them, and our faults must."""
    with _desk() as desk:
        desk.refuse(reason, "why", subject=_known())
        events = desk.product.events()
        if reason is Reason.AUDIT_UNAVAILABLE:
            # The trail itself keeps count of what it turned away.
            assert events == []
        else:
            (event,) = events
            assert (event.decision, event.reason, event.http_status) == (verdict, reason.code, reason.status)
            assert event.detail == "why"
        assert desk.counted() == [
            f'signproxy_requests_total{{decision="{verdict.value}",op="sign",reason="{reason.code}"}} 1.0'
        ]


def test_a_request_has_one_event() -> None:
    """A second event would be a request that never was."""
    with _desk() as desk:
        lease = Lease()
        assert not _is_recorded(lease)
        desk.refuse(Reason.TABLE_UNKNOWN, "first", subject=_known(), lease=lease)
        assert _is_recorded(lease)
        desk.refuse(Reason.INTERNAL, "second", subject=_known(), lease=lease)
        assert [event.reason for event in desk.product.events()] == ["table_unknown"]
        assert len(desk.counted()) == 1


async def test_a_fault_after_the_signature_leaves_the_first_event() -> None:
    """The client may go away while the answer is written; the signature was given all the same."""
    with _desk() as desk:
        lease = Lease()
        await desk.close(Ask(), lease=lease)
        desk.refuse(Reason.CLIENT_GONE, "ConnectionResetError", await judge(desk.product, Ask()), lease=lease)
        assert [event.reason for event in desk.product.events()] == ["allowed"]


def _is_recorded(lease: Lease) -> bool:
    return lease.recorded


async def test_nothing_is_allowed_that_the_trail_did_not_take() -> None:
    """The signature is answered only after `served` returned; the refusal that follows has its own record."""
    with _desk() as desk:
        judged, lease = await judge(desk.product, Ask()), Lease()
        assert judged.refused is None
        desk.product.trail.close(5.0)
        with pytest.raises(Refused) as refused:
            desk.serve(judged, lease=lease)
        assert refused.value.reason is Reason.AUDIT_UNAVAILABLE
        assert not _is_recorded(lease)
        desk.refuse(refused.value.reason, refused.value.detail, judged, lease=lease)
        assert _is_recorded(lease)
        assert desk.counted() == [
            'signproxy_requests_total{decision="error",op="GetObject",reason="audit_unavailable"} 1.0'
        ]


async def test_with_allow_a_lost_event_does_not_stop_the_request() -> None:
    """Where the operator prefers service, the loss is counted by the trail and the request by the metrics."""
    with _desk(on_error=OnError.ALLOW) as desk:
        judged, lease = await judge(desk.product, Ask()), Lease()
        desk.product.trail.close(5.0)
        desk.serve(judged, lease=lease)
        assert _is_recorded(lease)
        assert desk.product.trail.state.dropped == 1
        assert len(desk.counted()) == 1


def test_refusals_without_a_principal_have_a_budget_of_their_own() -> None:
    """Without a token any client could fill the disk with refusals."""
    with _desk() as desk:
        for _ in range(100):
            desk.refuse(Reason.TOKEN_MISSING, "")
        assert len(desk.product.events()) == 60
        assert desk.counted() == [
            'signproxy_requests_total{decision="deny",op="sign",reason="token_missing"} 100.0',
        ]


def test_a_request_without_a_target_is_recorded_by_its_kind() -> None:
    """A configuration call allows nothing on a table, and is an access to the catalog all the same."""
    with _desk() as desk:
        desk.serve(admitted(look_at(AT_ARRIVAL), _known(), NOTHING_ASKED, "lake"), request=new_request(Kind.CONFIG))
        (event,) = desk.product.events()
        assert (event.kind, event.catalog, event.decision, event.rule_id) == (Kind.CONFIG, "lake", Verdict.ALLOW, "")
        assert desk.counted() == ['signproxy_requests_total{decision="allow",op="config",reason="allowed"} 1.0']


async def test_an_upstreams_own_answer_is_recorded_as_it_was() -> None:
    """A table that is not there would look like one that signproxy keeps from its caller."""
    with _desk() as desk:
        request, lease = new_request(Kind.CATALOG, call="load_table", method="GET"), Lease()
        judged = admitted(look_at(AT_ARRIVAL), _known(), AskedFor(target=NamedTable("ns", "gone")), "lake")
        desk.serve(judged, Outcome(status=404, detail="NoSuchTableException"), request=request, lease=lease)
        desk.refuse(Reason.INTERNAL, "recorded already", judged, request=request, lease=lease)
        (event,) = desk.product.events()
        said = (event.kind, event.call, event.method, event.table, event.http_status, event.detail)
        assert said == (Kind.CATALOG, "load_table", "GET", "gone", 404, "NoSuchTableException")
        assert (event.decision, event.reason) == (Verdict.ALLOW, "allowed")
        assert desk.counted() == ['signproxy_requests_total{decision="allow",op="catalog",reason="allowed"} 1.0']


async def test_a_refused_call_is_logged_by_its_kind() -> None:
    """Loads, commits and drops would all be one line: catalog."""
    with _desk() as desk:
        request = new_request(Kind.CATALOG, call="drop_table", method="DELETE")
        desk.refuse(Reason.NO_WRITE_DATA, "", subject=_known(), request=request)
        assert [line.op for line in desk.lines] == ["drop_table"]
        (event,) = desk.product.events()
        assert (event.call, event.method, event.http_status) == ("drop_table", "DELETE", 403)


async def test_stages_of_a_signed_request_are_measured() -> None:
    """An operator who sees slow requests has to know which part is slow."""
    with _desk() as desk:
        request = new_request()
        judged = msgspec.structs.replace(await judge(desk.product, Ask()), judged_ns=request.started_ns + 5_000_000)
        desk.serve(judged, request=request)
        await desk.close(CASES[Reason.OUTSIDE_TABLE])
        event = desk.product.events()[0]
        text = desk.product.metrics.render().body.decode()
    assert event.authz_us == 5_000
    for stage, count in (("authz", 1), ("sign", 1), ("total", 2)):
        assert f'signproxy_request_duration_seconds_count{{stage="{stage}"}} {count}.0' in text


async def test_a_count_leads_to_an_event_of_the_trail_and_to_no_other() -> None:
    """An operator follows a number to its event; an id that is not in the trail looks like lost evidence."""
    with _desk() as desk:
        await desk.close(Ask())
        await desk.close(CASES[Reason.OUTSIDE_TABLE])
        await _forwarded(
            desk,
            wire("PUT", key="wh/t1/f"),
            StoreOutcome(status=400, reason=Reason.PAYLOAD_HASH, verdict=Verdict.DENY),
        )
        desk.serve(
            admitted(look_at(AT_ARRIVAL), None, NOTHING_ASKED, ""),
            Outcome(status=404, reason=Reason.UPSTREAM_UNAVAILABLE),
            request=new_request(Kind.CATALOG),
        )
        expected = dict.fromkeys(("allowed", "outside_table", "payload_hash", "upstream_unavailable"), "event-1")
        assert {event.event_id for event in desk.product.events()} == {"event-1"}
        assert desk.exemplars() == expected
        # Of callers that are not known, the trail holds some events and the sum of the others.
        desk.refuse(Reason.TOKEN_MISSING, "")
        desk.product.trail.close(5.0)
        for reason in (Reason.TABLE_UNKNOWN, Reason.AUDIT_UNAVAILABLE):
            with suppress(Refused):
                desk.refuse(reason, "why", subject=_known())
        assert (
            desk.counted()[-1] == 'signproxy_requests_total{decision="error",op="sign",reason="audit_unavailable"} 2.0'
        )
        assert desk.exemplars() == expected


def _numbered(number: int, kind: Kind = Kind.SIGN) -> Request:
    return new_request(kind, f"event-{number}")


@pytest.mark.parametrize("kind", (Kind.SIGN, Kind.FORWARD, Kind.CATALOG))
@pytest.mark.parametrize(
    "reason", [reason for reason in Reason if reason.code in OVER_LIMIT], ids=lambda each: each.code
)
def test_a_count_of_a_callers_flood_leads_to_no_event_that_was_put_aside(reason: Reason, kind: Kind) -> None:
    """An operator who looks into a flood would search the trail for an event that stands only in a sum."""
    with _desk() as desk:
        for number in range(3 * EVENTS_PER_CALLER):
            desk.refuse(reason, "", subject=_known(), request=_numbered(number, kind))
        held = {event.event_id for event in desk.product.events()}
        assert len(held) == EVENTS_PER_CALLER
        assert set(desk.exemplars().values()) <= held


async def _signs(desk: Desk) -> None:
    desk.serve(await judge(desk.product, Ask()))


async def _refuses(desk: Desk) -> None:
    desk.refuse(Reason.OUTSIDE_TABLE, "", subject=_known(), request=_numbered(1))


async def _passes(desk: Desk) -> None:
    admission = admitted(look_at(AT_ARRIVAL), _known(), NOTHING_ASKED, "")
    desk.serve(admission, Outcome(status=404), request=_numbered(1, Kind.CATALOG))


async def _forwards(desk: Desk) -> None:
    request, lease = new_request(Kind.FORWARD), Lease()
    judged = await Site().judge(wire("PUT", key="wh/t1/f"), "writer")
    desk.recorder.reserve(request, judged, lease)
    desk.serve(judged, StoreOutcome(), request=request, lease=lease)


@pytest.mark.parametrize("close", (_signs, _refuses, _passes, _forwards))
async def test_a_count_leads_to_no_event_that_the_trail_dropped(close: Callable[[Desk], Awaitable[None]]) -> None:
    """With `on_error: allow` a full disk loses events; the numbers of that time would lead to the lost ones."""
    with _desk(on_error=OnError.ALLOW) as desk:
        await _signs(desk)
        assert set(desk.exemplars().values()) == {"event-1"}
    with _desk(on_error=OnError.ALLOW) as desk:
        desk.product.trail.close(5.0)
        await close(desk)
        assert desk.product.trail.state.dropped == 1
        assert len(desk.counted()) == 1
        assert desk.exemplars() == {}
        assert "event-1" not in desk.product.metrics.render(accept=OPEN_METRICS).body.decode()


async def test_an_accepted_unsafe_storage_is_in_every_event() -> None:
    """The operator accepted a risk; the trail shows how often it was taken."""
    with _desk(accepted_unsafe=frozenset({"minio"})) as desk:
        assert (await desk.close(CASES[Reason.UNSAFE_STORAGE])).unsafe_storage is True
        assert (await desk.close(Ask())).unsafe_storage is False


# -- for the operator --------------------------------------------------------------------------------------------------


async def test_a_refusal_is_remembered_with_what_explains_it() -> None:
    """At three in the morning no operator wants to search an audit trail for what happened a minute ago."""
    with _desk() as desk:
        request = new_request()
        event = await desk.close(CASES[Reason.OUTSIDE_TABLE], request=request)
        (refusal,) = desk.recorder.refusals()
        assert msgspec.to_builtins(refusal) == {
            "at": request.wall,
            "request_id": "request-1",
            "event_id": "event-1",
            "operation": "GetObject",
            "reason": "outside_table",
            "status": 403,
            "principal": "static/writer",
            "catalog": "lake",
            "table": "ns.t1",
            "detail": event.detail,
        }


async def test_what_is_served_is_not_remembered() -> None:
    """It would wash away the refusals, and is in the trail."""
    with _desk() as desk:
        await desk.close(Ask())
        assert desk.recorder.refusals() == ()
        assert desk.lines == []


def test_the_newest_refusals_of_known_and_unknown_callers_are_kept() -> None:
    """A stranger without a token must not wash away what a job is refused for; and memory is bounded."""
    with _desk() as desk:
        for number in range(3 * KNOWN_CALLERS):
            request = msgspec.structs.replace(new_request(event_id=f"known-{number}"), wall=float(number))
            desk.refuse(Reason.TABLE_UNKNOWN, "d" * 100_000, subject=_known(), request=request)
        for number in range(1_000):
            request = msgspec.structs.replace(new_request(event_id=f"unknown-{number}"), wall=50.5 + number / 1_000)
            desk.refuse(Reason.TOKEN_MISSING, "", request=request)
        refusals = desk.recorder.refusals()
    assert [refusal.at for refusal in refusals] == sorted((refusal.at for refusal in refusals), reverse=True)
    known = [refusal.event_id for refusal in refusals if refusal.principal]
    assert known == [f"known-{number}" for number in range(3 * KNOWN_CALLERS - 1, 2 * KNOWN_CALLERS - 1, -1)]
    assert [refusal.event_id for refusal in refusals if not refusal.principal] == [
        f"unknown-{number}" for number in range(999, 999 - UNKNOWN_CALLERS, -1)
    ]
    assert {len(refusal.detail) for refusal in refusals} == {0, MAX_DETAIL_CHARACTERS}


def test_the_names_of_a_remembered_refusal_are_bounded() -> None:
    """A path of 24 KiB may name a table."""
    with _desk() as desk:
        asked = AskedFor(target=NamedTable("n" * 24_000, "t" * 24_000), catalog="c" * 24_000)
        desk.refuse(Reason.CATALOG_UNKNOWN, "", asked=asked)
        (refusal,) = desk.recorder.refusals()
    assert (len(refusal.catalog), len(refusal.table)) == (MAX_NAME_CHARACTERS, MAX_NAME_CHARACTERS)


@pytest.mark.parametrize(("namespace", "table"), (("a\x1fb c", "a.b c.t"), ("", "t")))
def test_a_table_is_written_as_people_write_it(namespace: str, table: str) -> None:
    """Levels joined by a control character are how the wire has them."""
    with _desk() as desk:
        desk.refuse(Reason.TABLE_UNKNOWN, "", asked=AskedFor(target=NamedTable(namespace, "t"), catalog="lake"))
        assert desk.recorder.refusals()[0].table == table
        assert desk.lines[0].table == f"lake.{table}"


async def test_a_refusal_is_logged_as_it_was_answered() -> None:
    """The line is found by the request id that the caller was given."""
    with _desk() as desk:
        event = await desk.close(CASES[Reason.OUTSIDE_TABLE])
        assert desk.lines == [
            RequestLine(
                request_id="request-1",
                event_id="event-1",
                principal="static/writer",
                table="lake.ns.t1",
                op="GetObject",
                decision="deny",
                reason="outside_table",
                status=403,
                ms=event.total_us / 1000,
            )
        ]


def test_a_refusal_that_the_trail_does_not_take_is_told_as_what_the_caller_gets() -> None:
    """The caller is answered 503; who looks for that among the metrics, the log or the refusals must find it."""
    with _desk() as desk:
        desk.product.trail.close(5.0)
        with pytest.raises(Refused) as refused:
            desk.refuse(Reason.TABLE_UNKNOWN, "why", subject=_known())
        assert refused.value.reason is Reason.AUDIT_UNAVAILABLE
        assert desk.counted() == [
            'signproxy_requests_total{decision="error",op="sign",reason="audit_unavailable"} 1.0',
        ]
        (line,) = desk.lines
        assert (line.reason, line.status, line.decision) == ("audit_unavailable", 503, "error")
        (refusal,) = desk.recorder.refusals()
        assert (refusal.reason, refusal.detail) == ("audit_unavailable", "closed; refused for table_unknown before")


async def test_a_sample_of_what_is_served_is_logged_where_asked() -> None:
    """A request that is served leaves no other line."""
    with _desk() as desk:
        lines: list[RequestLine] = []
        product = desk.product
        desk.recorder = Recorder(product.trail, product.metrics, _Lines(lines, sample=2))
        for _ in range(4):
            desk.serve(await judge(product, Ask()))
        desk.serve(admitted(look_at(AT_ARRIVAL), None, NOTHING_ASKED, ""), request=new_request(Kind.CONFIG))
    assert [(line.op, line.reason, line.status) for line in lines] == [
        ("GetObject", "allowed", 200),
        ("GetObject", "allowed", 200),
        ("config", "allowed", 200),
    ]
    assert {line.table for line in lines} == {"lake.ns.t1", ""}


# -- forwarded ---------------------------------------------------------------------------------------------------------


async def _forwarded(desk: Desk, wire: ForwardWire, outcome: Outcome, who: str = "writer") -> AuditEvent:
    request, lease = new_request(Kind.FORWARD), Lease()
    judged = await Site().judge(wire, who)
    desk.recorder.reserve(request, judged, lease)
    desk.serve(judged, outcome, request=request, lease=lease)
    assert _is_recorded(lease)
    assert lease.event is None
    return desk.product.events()[-1]


async def test_a_forwarded_request_is_recorded_whole() -> None:
    """An auditor who asks later who read a file, and how much of it, has only this line."""
    outcome = StoreOutcome(
        status=206,
        upstream_status=206,
        upstream_request_id="0A1B",
        bytes_in=0,
        bytes_out=4096,
        payload="unsigned",
        connect_us=300,
        first_byte_us=2_000,
        upstream_us=5_000,
    )
    with _desk() as desk:
        asked = wire(key="stage/a", user_agent="aws-sdk-java/2 app/etl-7 lang/java")
        event = await _forwarded(desk, asked, outcome)
        assert _filled(event) == {
            "event_id": "event-1",
            "request_id": "request-1",
            "remote_ip": "192.0.2.7",
            "user_agent": "test/1",
            "kind": "forward",
            "principal": "idp/writer",
            "issuer": "idp",
            "policy_epoch": 1,
            "application": "etl-7",
            "catalog": "lake",
            "volume": "stage",
            "bucket": "my-bucket",
            "key": "stage/a",
            "method": "GET",
            "s3_op": "GetObject",
            "access": "read",
            "decision": "allow",
            "reason": "allowed",
            "rule_id": "writer@volume:lake/stage",
            "http_status": 206,
            "upstream_status": 206,
            "upstream_request_id": "0A1B",
            "bytes_out": 4096,
            "payload": "unsigned",
            "connect_us": 300,
            "first_byte_us": 2_000,
            "upstream_us": 5_000,
        }
        assert event.authz_us > 0
        lines = desk.product.metrics.render().body.decode()
        assert 'signproxy_forward_requests_total{decision="allow",op="GetObject",status="2xx"} 1.0' in lines
        assert 'signproxy_forward_bytes_total{direction="out"} 4096.0' in lines
        assert desk.counted() == ['signproxy_requests_total{decision="allow",op="GetObject",reason="allowed"} 1.0']
        # Nothing went wrong, so nothing is told.
        assert (desk.recorder.refusals(), desk.lines) == ((), [])


async def test_operations_beside_the_table_are_recorded_by_name_and_counted_by_kind() -> None:
    """S3 has a hundred of them: as labels they would be a series each."""
    with _desk() as desk:
        event = await _forwarded(desk, wire(bucket="raw", query="versioning"), StoreOutcome(status=200))
        assert event.s3_op == "GetBucketVersioning"
        assert desk.counted() == ['signproxy_requests_total{decision="allow",op="OtherRead",reason="allowed"} 1.0']


async def test_what_failed_on_its_way_is_told_and_counted() -> None:
    """An upload that was withheld is what an operator is called for."""
    outcome = StoreOutcome(
        status=400,
        verdict=Verdict.DENY,
        reason=Reason.PAYLOAD_HASH,
        detail="declared a, arrived b",
        bytes_in=10,
        aborted="client",
        checksum="crc32",
        completed="InternalError",
    )
    with _desk() as desk:
        event = await _forwarded(desk, wire("PUT", key="wh/t1/f"), outcome)
        assert (event.decision, event.reason, event.http_status) == (Verdict.DENY, "payload_hash", 400)
        assert (event.aborted, event.checksum, event.upstream_result) == ("client", "crc32", "InternalError")
        assert (event.namespace, event.table, event.table_uuid) == ("ns", "t1", "u1")
        text = desk.product.metrics.render().body.decode()
        assert 'signproxy_forward_payload_failures_total{reason="payload_hash"} 1.0' in text
        assert 'signproxy_forward_requests_total{decision="deny",op="PutObject",status="none"} 1.0' in text
        (refusal,) = desk.recorder.refusals()
        assert (refusal.detail, refusal.table) == ("declared a, arrived b", "ns.t1")
        assert [line.reason for line in desk.lines] == ["payload_hash"]


async def test_what_was_observed_or_kept_back_is_in_the_event() -> None:
    """The day of `enforce` is known from these events alone."""
    with _desk() as desk:
        event = await _forwarded(desk, wire("PUT", key="stage/f"), StoreOutcome(status=200), "watched")
        assert (event.decision, event.observed, event.volume) == (Verdict.ALLOW, "no_write_data", "stage")
        assert "lacks VOLUME_WRITE_DATA" in event.detail
        assert event.rule_id == "observe@principal:idp/watched"
        event = await _forwarded(desk, delete("stage/a", "stage/b", "elsewhere/c"), StoreOutcome(status=200))
        assert (event.key_count, event.refused_keys, event.key) == (2, 1, "stage/a")


async def test_what_is_refused_at_the_s3_listener_is_recorded_as_asked() -> None:
    """Not believed, but all that is known of what was asked for."""
    site = Site()
    with _desk() as desk:
        for asked, place in ((wire("PUT", key="stage/f"), "volume stage"), (wire(key="a/%zz", query="x=1"), "")):
            judged = await site.judge(asked)
            assert judged.refused is not None
            desk.refuse(judged.refused.reason, judged.refused.detail, judged, request=new_request(Kind.FORWARD))
            assert desk.recorder.refusals()[-1 if place else 0].table == place
        denied, malformed = desk.product.events()
    assert (denied.s3_op, denied.volume, denied.bucket, denied.key) == ("PutObject", "stage", "my-bucket", "stage/f")
    assert denied.catalog == "lake"
    assert (malformed.method, malformed.bucket) == ("GET", "my-bucket")
    assert malformed.detail.endswith("; key 'a/%zz', query 'x=1'")


async def test_a_list_of_buckets_is_recorded() -> None:
    """It is answered from the policy, and it is a request like any other."""
    with _desk() as desk:
        desk.serve(await Site().judge(wire(bucket="")), request=new_request(Kind.FORWARD, method="GET"))
        (event,) = desk.product.events()
        assert (event.kind, event.call, event.method) == (Kind.FORWARD, "ListBuckets", "GET")


async def test_nothing_is_asked_of_a_store_that_the_trail_has_no_place_for() -> None:
    """What has been served cannot be taken back."""
    with _desk() as desk:
        request, judged, lease = new_request(Kind.FORWARD), await Site().judge(wire(key="stage/a")), Lease()
        desk.product.trail.close(5.0)
        with pytest.raises(Refused) as caught:
            desk.recorder.reserve(request, judged, lease)
        desk.refuse(caught.value.reason, caught.value.detail, judged, request=request, lease=lease)
        assert caught.value.reason is Reason.AUDIT_UNAVAILABLE
        # The trail itself keeps count of what it turned away.
        assert desk.product.events() == []
        assert _is_recorded(lease)


async def test_a_place_that_was_kept_is_used_by_a_refusal_too() -> None:
    """Exactly one event, and no place that is lost."""
    with _desk() as desk:
        request, judged, lease = new_request(Kind.FORWARD), await Site().judge(wire(key="stage/a")), Lease()
        desk.recorder.reserve(request, judged, lease)
        kept = lease.event
        desk.refuse(Reason.STORE_UNAVAILABLE, "refused the connection", judged, request=request, lease=lease)
        assert (kept, lease.event) == (desk.recorder, None)
        (event,) = desk.product.events()
        assert (event.decision, event.reason, event.s3_op) == (Verdict.ERROR, "store_unavailable", "GetObject")


def _handed_on() -> StoreOutcome:
    """Return what is known of a request of the quick way that the store was sent already, and that is judged again."""
    return StoreOutcome(status=0, requests=1, stamped=False)


def test_what_is_refused_after_the_store_was_asked_says_that_it_was_asked() -> None:
    """Where nothing is stamped, `reconcile` would find the request behind no event, and accuse a thief of the key."""
    with _desk() as desk:
        first, second = _numbered(1, Kind.FORWARD), _numbered(2, Kind.FORWARD)
        desk.refuse(Reason.NO_REMOTE_SIGN, "", subject=_known(), request=first, outcome=_handed_on())
        desk.refuse(Reason.NO_REMOTE_SIGN, "", subject=_known(), request=second)
        asked, unasked = desk.product.events()
        assert (asked.decision, asked.upstream_repeats) == (Verdict.DENY, 0)
        # What was not sent must not explain another caller's request.
        assert (asked.upstream_us > 0, unasked.upstream_us) == (True, 0)
        assert asked.upstream_us <= max(asked.total_us, 1)


def test_the_time_at_the_store_is_what_was_measured() -> None:
    """A guess would take the place of the measure."""
    with _desk() as desk:
        outcome = _handed_on()
        outcome.upstream_us = 7
        desk.refuse(Reason.PAYLOAD_HASH, "", subject=_known(), request=_numbered(1, Kind.FORWARD), outcome=outcome)
        assert desk.product.events()[0].upstream_us == 7


def test_what_the_store_was_sent_has_its_event_however_much_is_refused() -> None:
    """The store's log has each of these requests; one that stands only in a sum looks like a stolen key's."""
    count = 3 * EVENTS_PER_CALLER
    with _desk() as desk:
        for number in range(count):
            request, refused, lease = _numbered(number, Kind.FORWARD), Refused(Reason.RATE_LIMITED), Lease()
            judged = unjudged(request, _known(), NOTHING_ASKED, refused)
            desk.recorder.reserve(request, judged, lease)
            desk.recorder.refused(request, judged, refused, _handed_on(), lease)
        events = desk.product.events()
        assert [event.event_id for event in events] == [f"event-{number}" for number in range(count)]
        assert all(event.upstream_us > 0 for event in events)
        assert set(desk.exemplars().values()) == {f"event-{count - 1}"}


async def test_an_allowed_transfer_is_logged_in_samples() -> None:
    """One line per object would be the load of the log."""
    with _desk() as desk:
        log = _Lines(desk.lines, sample=1)
        desk.recorder = Recorder(desk.product.trail, desk.product.metrics, log)
        await _forwarded(desk, wire(key="stage/a"), StoreOutcome(status=200))
        assert [(line.op, line.table) for line in desk.lines] == [("GetObject", "lake.volume stage")]


# -- which policy, and when --------------------------------------------------------------------------------------------


async def test_a_refusal_before_a_judgement_names_the_policy_at_arrival() -> None:
    """The reload that came while its body was read has nothing to do with it."""
    with _desk() as desk:
        desk.refuse(Reason.MESSAGE_MALFORMED, "", subject=_known())
        (event,) = desk.product.events()
        assert (event.policy_rev, event.policy_epoch, event.decided_at) == (AT_ARRIVAL.rev, AT_ARRIVAL.epoch, "")


async def test_a_judged_request_names_the_policy_that_judged_it() -> None:
    """What is in force when the event is written may be another."""
    with _desk() as desk:
        judged = await judge(desk.product, Ask())
        before = desk.product.state.rev
        desk.product.state = AT_ARRIVAL
        desk.serve(judged)
        (event,) = desk.product.events()
        assert event.policy_rev == before != AT_ARRIVAL.rev


@pytest.mark.parametrize(("elapsed", "told"), ((0, False), (999_999_999, False), (1_000_000_000, True)))
def test_the_time_of_the_decision_is_told_where_it_is_another(elapsed: int, told: bool) -> None:
    """Each event would be longer by a time that it has already; of a long transfer it says what no other field does."""
    now = time()
    found = decided_at(elapsed)
    assert bool(found) is told
    if told:
        assert found.endswith("Z")
        # Times are told to the microsecond, which is cut.
        assert now - 1.00001 <= datetime.fromisoformat(found).timestamp() <= time() - 0.99999


# -- faults of ours ----------------------------------------------------------------------------------------------------


async def test_an_event_that_cannot_be_made_leaves_one_that_can(capfd: pytest.CaptureFixture[str]) -> None:
    """A request that was refused for a fault of ours would have neither an answer nor an event."""
    with _desk() as desk:
        asked = AskedFor(query_id=7)  # type: ignore[arg-type]  # the fault
        desk.refuse(Reason.INTERNAL, "why", subject=_known(), asked=asked)
        (event,) = desk.product.events()
        assert (event.event_id, event.reason, event.http_status) == ("event-1", "internal", Reason.INTERNAL.status)
        assert event.detail.startswith("why; the event could not be made: ")
        assert "the event could not be made" in capfd.readouterr().err


async def test_a_fault_while_an_answer_is_recorded_leaves_the_event_of_a_fault() -> None:
    """The place in the trail would stay taken, and the answer that the client has would stand nowhere."""
    with _desk() as desk:
        request, lease = new_request(Kind.FORWARD), Lease()
        judged = await Site().judge(wire("GET", "my-bucket", "wh/t1/data/a"))
        desk.recorder.reserve(request, judged, lease)
        asked = msgspec.structs.replace(judged.asked, query_id=7)
        faulty = msgspec.structs.replace(judged, asked=asked)
        with pytest.raises(AttributeError):
            desk.serve(faulty, StoreOutcome(), request=request, lease=lease)
        desk.refuse(Reason.INTERNAL, "", faulty, request=request, lease=lease)
        (event,) = desk.product.events()
        assert (event.reason, event.kind) == ("internal", Kind.FORWARD)
        trail = desk.product.trail
        assert trail._reserved == 0
