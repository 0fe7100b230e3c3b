"""Build reports from literal values: an ordinary month, and one in which every text is an attack."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from signproxy.pipeline.report.data import (
    LATENCY_BOUNDS,
    SIZE_BOUNDS,
    Cell,
    ClassCount,
    Costs,
    Distribution,
    FindingGroup,
    Gap,
    GrantUse,
    HeatMap,
    InputProblem,
    PrincipalReach,
    QueryBreadth,
    ReportData,
    ReportedFinding,
    Revocations,
    Revoked,
    RunLine,
    Source,
    TableCost,
    Timeline,
    TimelineSlot,
    TrailSummary,
    Unattributed,
    UnexplainedRequests,
)

FIRST = date(2026, 11, 1)
HOSTILE = (
    "<script>alert(1)</script>",
    "</title></svg></style><img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)><a href='javascript:alert(1)'>x</a>",
    "'-->]]><iframe src=//evil.example></iframe>{{7*7}}{% raw %}",
    "a\u202egpj.exe\u202c\u2066b\u2069",
    "\x1b[2Jclear\x00\x07\x08\x7f\x9b",
    "line\nbreak\r\ttab",
    "=HYPERLINK('//evil.example','x')",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "e" + "\u0301" * 60,
    "k" * 1024,
    "\u05e9\u05dc\u05d5\u05dd/\u0645\u0631\u062d\u0628\u0627",
    "\u5927\u5bb6" * 30,
    "\U0001f469\u200d\U0001f4bb \U000e0041",
    "url(//evil.example/x.css)@import '//evil.example'",
    "\ud800 unpaired",
)


def moment(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 11, 1, hour, tzinfo=UTC) + timedelta(days=day)


def finding(number: int, class_: str, severity: str, text: str = "") -> ReportedFinding:
    return ReportedFinding(
        finding_id=f"{number:016x}",
        class_=class_,
        severity=severity,
        first=moment(number % 28),
        last=moment(number % 28, 5),
        n=3,
        principal=text or "idp/svc-sales-012",
        table=text or "lake.sales.orders",
        bucket=text or "lake",
        evidence={text or "request_ids": text or "4E1F0A9B2C3D4E5F", "status": "200"},
        fix=text or "Replace the key, and look for who has it.",
        job="reconcile",
    )


def group(class_: str, severity: str, count: int, text: str = "") -> FindingGroup:
    findings = tuple(finding(number, class_, severity, text) for number in range(min(count, 200)))
    return FindingGroup(class_=class_, severity=severity, count=count, n=3 * count, findings=findings)


def report(names: tuple[str, ...] = ()) -> ReportData:
    """Return a month; every text of it is one of the names, if there are any."""

    def text(number: int, else_: str) -> str:
        return names[number % len(names)] if names else else_

    principals = tuple(
        text(at, f"https://idp.example.com/svc-{at:03d}") + ("" if not names else f"#{at}") for at in range(40)
    )
    tables = tuple(text(at, f"lake.sales.orders_{at:04d}") + ("" if not names else f"#{at}") for at in range(40))
    attack = [group("unattributed", "high", 1, name) for name in names]
    ordinary = [
        group("denied_but_served", "critical", 1),
        group("proxy_key_without_stamp", "critical", 2),
        group("unattributed", "high", 26),
        group("ip_mismatch", "low", 300),
    ]
    return ReportData(
        title=text(0, "Access report"),
        made_at=moment(30),
        first_day=FIRST,
        last_day=FIRST + timedelta(29),
        warehouse=text(1, "s3a://audit/warehouse"),
        classes=(
            ClassCount("stamp", 1_203_321, 10**13),
            ClassCount("request_id", 220_120, 10**12),
            ClassCount("session", 99_120, 10**12),
            ClassCount("probable", 12_000, 10**10),
            ClassCount("known_service", 31_000, 10**9),
            ClassCount("unattributed", 3_161, 10**9),
            *(ClassCount(name, 5, 5) for name in names),
        ),
        severities={"critical": 3, "high": 26, "low": 300},
        groups=tuple(attack or ordinary),
        trail=TrailSummary(
            segments=4_311,
            events=1_612_000,
            quarantined=3,
            verdicts={"whole": 4_309, "truncated": 1, "duplicate": 1, **dict.fromkeys(names, 1)},
            gaps=1,
            missing=57,
            faults=1,
            worst=tuple(
                Gap(
                    instance=text(at, "node-7"),
                    boot_id=text(at, "06F1Z3K0M8Q4"),
                    missing=text(at, "5120 to 5176"),
                    n=57,
                )
                for at in range(max(1, len(names)))
            ),
        ),
        timeline=Timeline(
            "day", tuple(TimelineSlot(moment(at), 40_000 + 997 * at, 100 + 80 * (at % 7), at) for at in range(30))
        ),
        heat=HeatMap(
            principals=principals,
            tables=tables,
            cells=tuple(
                Cell(at, to, (at * to * 37) % 9_001 * (at % 3), int((at + to) % 11 == 0))
                for at in range(40)
                for to in range(40)
                if (at * 7 + to * 3) % 5 == 0
            ),
            all_principals=200,
            all_tables=10_000,
        ),
        rights=GrantUse(
            reaches=tuple(
                PrincipalReach(
                    principal=name, mode="vend" if at % 4 == 0 else "sign", entitled=10_000 // (1 + at), held=4, used=3
                )
                for at, name in enumerate(principals[:25])
            ),
            principals=200,
            all_tables=10_000,
            median_entitled=512,
            median_used=4,
            states={"used": 812, "unused": 403, "too_young": 31, **dict.fromkeys(names, 1)},
            withdrawable=380,
        ),
        breadth=tuple(QueryBreadth(tables, 9_000 // tables**2 + 1) for tables in (1, 2, 3, 5, 8, 20, 120, 800)),
        unattributed=tuple(Unattributed(FIRST + timedelta(at), 50_000, 120 * (at % 3), at) for at in range(30)),
        origins=tuple(
            UnexplainedRequests(
                bucket=text(at, "lake"),
                op=text(at, "REST.GET.OBJECT"),
                status=200,
                requester=text(at, "arn:x"),
                n=9,
                first=moment(1),
                last=moment(2),
            )
            for at in range(max(1, len(names)))
        ),
        revocations=Revocations(
            latencies=Distribution(
                LATENCY_BOUNDS,
                {"sign": (3, 9, 21, 4, 2, 6, 0, 0), "vend": (0, 0, 0, 0, 1, 3, 9, 0), **dict.fromkeys(names, (1,) * 8)},
            ),
            at_once=44,
            worst=tuple(
                Revoked(
                    principal=text(at, "idp/bob"),
                    resource=text(at, "table:lake.sales.orders"),
                    kind=text(at, "vend"),
                    revoked_at=moment(5),
                    seconds=3412.5,
                    n=77,
                )
                for at in range(max(1, len(names)))
            ),
        ),
        costs=Costs(
            tables=tuple(
                TableCost(
                    table=name, requests=10**6 // (1 + at), bytes=10**12 // (1 + at), cost=200 / (1 + at), tax=1.5
                )
                for at, name in enumerate(tables[:30])
            ),
            all_tables=10_000,
            requests=2 * 10**8,
            bytes=9 * 10**14,
            cost=1_200.5,
            tax=123.4,
            sizes=Distribution(
                SIZE_BOUNDS, {"GETs": (10, 400, 12_000, 90_000, 45_000, 22_000, 18_000, 30_000, 900, 40, 3)}
            ),
        ),
        quality=tuple(
            InputProblem(
                source=text(at, "aws"), problem=text(at, "a quote in the URI"), n=12, example=text(at, "/a b"), days=3
            )
            for at in range(max(1, len(names)))
        ),
        sources=(Source(table="events", summary="Every audit event, once.", rows=1_612_000, first_day=FIRST),),
        runs=(RunLine(job="ingest", began_at=moment(29), seconds=61.2, exit=5, rows_in=9, problem=text(0, "")),),
    )
