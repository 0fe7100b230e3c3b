"""What a client says of its application and query: recorded as its own word, bounded, and never judged by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from signproxy.audit.event import MAX_CONTEXT_BYTES, AuditEvent
from signproxy.errors import Reason
from signproxy.gate.limits import Lease
from signproxy.gate.outcome import Outcome
from signproxy.gate.recorder import Recorder
from signproxy.s3.request import WireRequest
from signproxy.signing.sign_way import application_of
from tests.gate.cases import CASES, SEALED, Ask, judged, new_request, subject_of
from tests.product import Product

JAVA = (
    "s3fileio/{iceberg-version=Apache Iceberg 1.12.0 (commit 212aa894)} aws-sdk-java/2.54.17 md/io#sync ua/2.1 "
    "api/S3#2.54.x lang/java#17.0.15 md/vendor#Debian%s md/rb#u m/D,N"
)
PYTHON = "aiobotocore/3.10.0 md/Botocore#1.43.117 ua/2.1 lang/python#3.11.7 cfg/retry-mode#legacy%s botocore/1.43.117"


class Desk:
    """A recorder whose trail is running."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.recorder = Recorder(product.trail, product.metrics)

    async def event(self, ask: Ask, application: str = "", query_id: str = "") -> AuditEvent:
        """Judge a request of a client that says so of itself, and return its event."""
        asked = replace(ask.asked, application=application or application_of(ask.wire), query_id=query_id)
        judgement = await judged(self.product.gate, subject_of(self.product, ask), asked)
        if judgement.refused is not None:
            self.recorder.refused(new_request(), judgement, judgement.refused, None, Lease())
        else:
            assert judgement.allow is not None
            self.recorder.served(new_request(), judgement, Outcome(), Lease())
        return self.product.events()[-1]


@contextmanager
def _desk() -> Iterator[Desk]:
    product = Product(SEALED)
    product.trail.start()
    try:
        yield Desk(product)
    finally:
        product.trail.close(5.0)


def _signing(headers: dict[str, list[str]]) -> WireRequest:
    return WireRequest(method="GET", uri="", headers=headers, region="")


@pytest.mark.parametrize("agent", (JAVA, PYTHON), ids=("java", "python"))
@pytest.mark.parametrize(
    ("part", "application"),
    (
        (" app/etl-7", "etl-7"),
        ("", ""),
        (" app/", ""),
        # Another part that only ends like it.
        (" md/app/etl-7", ""),
        (" myapp/etl-7", ""),
        (" app/first app/second", "first"),
        (f" app/{'a' * 9000}", "a" * MAX_CONTEXT_BYTES),
        # Three bytes each, and none of them torn.
        (f" app/{'€' * 50}", "€" * 42),
    ),
)
def test_an_sdk_names_its_application_in_the_request_that_is_signed(agent: str, part: str, application: str) -> None:
    """AWS_SDK_UA_APP_ID is the one way that every client in every version has; it would be lost."""
    assert application_of(_signing({"User-Agent": [agent % part]})) == application


@pytest.mark.parametrize("headers", ({}, {"User-Agent": []}, {"User-Agent": [""]}, {"user-agent": ["x app/etl"]}))
def test_without_a_user_agent_there_is_none(headers: dict[str, list[str]]) -> None:
    """A client that sends none, or an empty list of them, would be answered 500."""
    assert application_of(_signing(headers)) == ""


async def test_what_travelled_with_the_table_wins() -> None:
    """A job's own name would be hidden by the one of the cluster that it runs on."""
    with _desk() as desk:
        headers = {"User-Agent": [JAVA % " app/cluster"]}
        told = await desk.event(Ask(headers=headers), "nightly", "q-1")
        assert (told.application, told.query_id) == ("nightly", "q-1")
        untold = await desk.event(Ask(headers=headers))
        assert (untold.application, untold.query_id) == ("cluster", "")
        silent = await desk.event(Ask())
        assert (silent.application, silent.query_id) == ("", "")


async def test_a_refused_request_says_it_too() -> None:
    """An operator who looks for the job that fails looks at its refusals."""
    with _desk() as desk:
        event = await desk.event(CASES[Reason.OUTSIDE_TABLE], "nightly", "q-1")
        assert (event.reason, event.application, event.query_id) == ("outside_table", "nightly", "q-1")


async def test_no_word_of_a_client_is_longer_than_its_field() -> None:
    """Any caller could fill the disk with names."""
    with _desk() as desk:
        event = await desk.event(Ask(), "a" * 60_000, "€" * 60_000)
        assert event.application == "a" * MAX_CONTEXT_BYTES
        assert event.query_id == "€" * (MAX_CONTEXT_BYTES // 3)


async def test_it_decides_nothing() -> None:
    """A client could talk itself into what is not granted, or out of what is refused."""
    with _desk() as desk:
        for reason, ask in CASES.items():
            event = await desk.event(ask, "root", "q")
            assert event.reason == reason.code
        assert len(CASES) > 10
