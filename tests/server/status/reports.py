"""Make reports by hand: of a server in which all is well, and of parts of it in which something is not."""

from __future__ import annotations

from typing import Any

import msgspec

from signproxy.credentials.slot import CredentialState
from signproxy.gate.refusals import Refusal
from signproxy.server.status.report import (
    AuditReport,
    CertificateReport,
    FleetReport,
    KeysReport,
    ReloadReport,
    UpstreamReport,
    WorkerReport,
)

NOW = 1_800_000_000.0
"""2027-01-15 08:00:00 UTC."""
HOUR = 3_600.0
DAY = 24 * HOUR

KEYS = KeysReport("idp", 2, 120.0, 0, "")
CREDENTIALS = CredentialState("lake", "", "lake-keys", NOW + HOUR, NOW - 60, 0, "")
AUDIT = AuditReport("01JBOOT", 0, 1_234, 0, 0, 0, "")
CERTIFICATE = CertificateReport("listen", NOW + 60 * DAY, NOW - DAY)
UPSTREAM = UpstreamReport("lake", "https://catalog.example/api", NOW - 10, 0.0, "", 2, 12_345)
REFUSAL = Refusal(
    NOW - 60,
    "request-1",
    "event-1",
    "PutObject",
    "no_write_data",
    403,
    "idp/etl",
    "lake",
    "sales.orders",
    "needs TABLE_WRITE_DATA on lake.sales.orders",
)
RELOAD = ReloadReport(NOW - HOUR, accepted=True, seconds=0.25, changes=("grant reader on catalog lake added",))

WELL = {"draining": "", "token keys": "", "credentials": "", "audit": ""}

ACTING = "\x1b[2J\x07\u202egnp.exe\u2066\u200b\r\n\x9b31m\udcff\ufeff"
HOSTILE = f"</td><script>alert(1)</script><img src=\"https://evil.example/x\" onerror='a'>&lt;{ACTING}"
"""What a caller may put into a name: markup, quotes, and characters that act, hide or turn text around."""
LONG = "x" * 5_000
PILED = "Z" + "\u0353\u0331\u034e\u0329\u0330" * 12


def worker(number: int = 0, **changes: Any) -> WorkerReport:
    """Return the report of a worker in which all is well but for the changes; `problems` are added to none."""
    well = WorkerReport(
        worker=number,
        pid=4_000 + number,
        started_at=NOW - 3 * HOUR,
        problems=WELL | changes.pop("problems", {}),
        policy_rev="5f2c9d01ab34",
        policy_epoch=3,
        config_digest="c0ffee123456",
        keys=(KEYS,),
        credentials=(CREDENTIALS,),
        audit=AUDIT,
        certificates=(CERTIFICATE,),
        refusals=(),
        connections=7,
        in_flight=1,
        lag_seconds=0.004,
        metrics=(),
        upstreams=(UPSTREAM,),
    )
    return msgspec.structs.replace(well, **changes)


def fleet(*workers: WorkerReport, **changes: Any) -> FleetReport:
    """Return the report of a server with these workers, one in which all is well if there are none."""
    serving = workers or (worker(),)
    well = FleetReport(
        version="1.2.3",
        draining=False,
        started_at=NOW - 3 * HOUR,
        wanted_workers=len(serving),
        workers=serving,
        restarts=0,
        last_reload=RELOAD,
        certificates=(),
        last_accepted_at=NOW - HOUR,
    )
    return msgspec.structs.replace(well, **changes)


def hostile_fleet() -> FleetReport:
    """Return a report in which every text that another party may choose is an attack."""
    changed = msgspec.structs.replace
    refusals = tuple(
        changed(REFUSAL, at=NOW - 10 * number, principal=name, table=name, catalog=name, detail=name, request_id=name)
        for number, name in enumerate((HOSTILE, LONG, PILED, "\u05e9\u05dc\u05d5\u05dd-\u0645\u0631\u062d\u0628\u0627"))
    )
    first = worker(
        0,
        problems={"credentials": HOSTILE, HOSTILE: HOSTILE},
        policy_rev=HOSTILE,
        config_digest=LONG,
        keys=(changed(KEYS, issuer=HOSTILE, last_error=HOSTILE, failures=3),),
        credentials=(changed(CREDENTIALS, storage=HOSTILE, bucket=LONG, provider=PILED, problem=HOSTILE, failures=2),),
        audit=changed(AUDIT, boot_id=HOSTILE, problem=LONG, dropped=5, shipping_problem=HOSTILE),
        certificates=(changed(CERTIFICATE, listener=HOSTILE, expires_at=NOW - DAY),),
        refusals=(*refusals, changed(REFUSAL, reason=HOSTILE, operation=HOSTILE, event_id=LONG)),
        upstreams=(changed(UPSTREAM, catalog=HOSTILE, uri=LONG, problem=HOSTILE, last_failure_at=NOW),),
        lag_seconds=2.5,
    )
    reload = ReloadReport(
        NOW - 60, accepted=False, seconds=1.5, findings=(HOSTILE, LONG), changes=(HOSTILE,), needs_restart=(HOSTILE,)
    )
    return fleet(first, worker(1), wanted_workers=3, restarts=2, last_reload=reload, version=HOSTILE)
