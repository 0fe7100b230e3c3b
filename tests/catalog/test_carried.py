"""What clients bring back: their own word, bounded; and what was sealed for them, of no use to any other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from signproxy.catalog.carried import (
    APPLICATION,
    CONTEXT,
    MAX_REMEMBERED,
    MAX_WORD,
    QUERY,
    Carried,
    Contexts,
    read_carried,
)
from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.sighting import Staged, TableFacts
from signproxy.sealing import MAX_SEALED, Purpose, Sealer, SealingSecret

NOW = 1_800_000_000.0
SEALING, OTHER = (SealingSecret(bytes([n]) * 32) for n in (1, 2))
FACTS = TableFacts(
    "sales\x1feu", "orders", "1111", "s3://lake/sales/eu/orders", {"write.data.path": "s3://lake/data/é"}
)
STAGED = Staged("lake", FACTS, "corp/alice", NOW + 60)


def contexts(*secrets: SealingSecret) -> Contexts:
    return Contexts(Sealer(secrets or (SEALING,), Purpose.CONTEXT), 3600)


def refusal(context: str, by: Contexts | None = None, principal: str = "corp/alice", now: float = NOW) -> Refused:
    """Return why a context is not accepted."""
    with pytest.raises(Refused) as refused:
        (by or contexts()).open(context, principal, now)
    return refused.value


# -- the carriers


@pytest.mark.parametrize(
    ("properties", "query", "expected"),
    (
        (None, "", None),
        ({}, "", None),
        ({"s3.endpoint": "x"}, "", None),
        (None, "warehouse=lake", None),
        ({"a": "b"}, "c=d", None),
        ({APPLICATION: "etl"}, "", Carried("etl")),
        ({QUERY: "q-1", "other": "x"}, "", Carried("", "q-1")),
        ({CONTEXT: "spc1.a.b"}, "", Carried("", "", "spc1.a.b")),
        ({APPLICATION: None, CONTEXT: None}, "", None),
        (None, f"{APPLICATION}=etl&{QUERY}=q-1&{CONTEXT}=spc1.a.b", Carried("etl", "q-1", "spc1.a.b")),
        (None, f"x=y&{APPLICATION}=nightly%20etl", Carried("nightly etl")),
        (None, f"{APPLICATION}=nightly+etl", Carried("nightly etl")),
        (None, f"{APPLICATION}=%C3%A9", Carried("é")),
        # Older clients and newer ones behind one endpoint: what the message says is nearer to the job.
        ({APPLICATION: "message"}, f"{APPLICATION}=endpoint&{QUERY}=q", Carried("message", "q")),
        ({"other": "x"}, f"{QUERY}=q", Carried("", "q")),
        # The first one counts.
        (None, f"{QUERY}=a&{QUERY}=b", Carried("", "a")),
        # Names are exact.
        (None, f"X{QUERY}=a&{QUERY.upper()}=b&signproxy-other=c", None),
        # What cannot be read is not there, and no reason to refuse a signature.
        (None, f"{QUERY}=%FF&{APPLICATION}=etl", Carried("etl")),
        (None, f"{QUERY}", None),
        (None, f"{QUERY}=%zz", Carried("", "%zz")),
        (None, f"&&={QUERY}&{QUERY}=", None),
    ),
)
def test_what_is_carried_is_found(properties: Any, query: str, expected: Carried | None) -> None:
    """The audit would not say whose query it was, or a staged create could not be written."""
    assert read_carried(properties, query) == expected
    # However it is remembered.
    assert read_carried(properties, query) == expected


@pytest.mark.parametrize(
    ("text", "kept"),
    (
        ("x" * MAX_WORD, True),
        ("x" * (MAX_WORD + 1), False),
        ("", False),
        ("a b", True),
        ("é😀", True),
        ("a\nb", False),
        ("a\tb", False),
        ("\x1b[2J", False),
        ("a\u202eb", False),
        ("a\u200bb", False),
        ("\udc80", False),
    ),
)
def test_a_word_of_the_client_is_short_and_can_be_written_down(text: str, kept: bool) -> None:
    """A job could fill the audit's disk, or write lines of its own into an operator's terminal."""
    assert read_carried({APPLICATION: text, QUERY: "q"}, "") == Carried(text if kept else "", "q")
    assert read_carried({QUERY: text, APPLICATION: "etl"}, "") == Carried("etl", text if kept else "")


def test_a_long_query_is_read_and_not_remembered() -> None:
    """Contexts of strangers' choice would stay in memory."""
    context = "x" * MAX_REMEMBERED
    assert read_carried(None, f"{CONTEXT}={context}") == Carried("", "", context)


# -- the context


def test_what_was_sealed_is_what_is_opened() -> None:
    """A create that was begun could not be finished by another worker or sidecar."""
    context = contexts().seal(STAGED)
    assert contexts().open(context, "corp/alice", NOW) == STAGED
    assert read_carried({CONTEXT: context}, "") == Carried("", "", context)
    assert read_carried(None, f"{CONTEXT}={context}") == Carried("", "", context)


def test_locations_and_names_cannot_be_read_in_it() -> None:
    """Where a table lies is the catalog's and the caller's; it travels through logs of both sides."""
    context = contexts().seal(STAGED)
    assert not any(word in context for word in ("orders", "alice", "lake"))


def test_a_time_that_is_over_is_no_fault() -> None:
    """A job keeps its context for as long as it runs, and its table has been there for hours by then."""
    context = contexts().seal(STAGED)
    assert contexts().open(context, "corp/alice", STAGED.until - 0.001) == STAGED
    assert contexts().open(context, "corp/alice", STAGED.until) is None


def test_it_is_of_no_use_to_another_caller() -> None:
    """A finder of it in a log could write into a table that another is about to create."""
    refused = refusal(contexts().seal(STAGED), principal="corp/bob")
    assert refused.reason is Reason.CONTEXT_INVALID
    assert refused.detail == "sealed for 'corp/alice'"


def test_every_altered_context_is_refused() -> None:
    """A client could name another location, and sign its way into it."""
    context = contexts().seal(STAGED)
    for index in range(0, len(context), 5):
        altered = context[:index] + ("A" if context[index] != "A" else "B") + context[index + 1 :]
        assert refusal(altered).reason is Reason.CONTEXT_INVALID


def test_a_context_of_another_secret_is_refused() -> None:
    """Another installation's operator could hand out locations in ours."""
    context = contexts().seal(STAGED)
    refused = refusal(context, contexts(OTHER))
    assert (refused.reason, refused.detail) == (Reason.CONTEXT_INVALID, "sealed with a secret that is not known here")
    assert contexts(OTHER, SEALING).open(context, "corp/alice", NOW) == STAGED


def test_a_table_token_is_no_context() -> None:
    """What is sealed for one purpose must serve no other."""
    content = msgspec.msgpack.encode(STAGED)
    token = Sealer((SEALING,), Purpose.TABLE_TOKEN).seal(content)
    assert refusal(token).reason is Reason.CONTEXT_INVALID
    assert refusal(token.replace("spt1.", "spc1.")).reason is Reason.CONTEXT_INVALID


@pytest.mark.parametrize("context", ("", "x", "spc1..", "spc1." + "A" * MAX_SEALED, "é"))
def test_rubbish_is_refused(context: str) -> None:
    """A client's text must never end a request as a fault of ours."""
    assert refusal(context).reason is Reason.CONTEXT_INVALID


@pytest.mark.parametrize(
    "content", (b"", b"\xc1", b"\x80", msgspec.msgpack.encode({"type": "live", "catalog": "lake"}))
)
def test_what_another_version_sealed_is_refused(content: bytes) -> None:
    """Sidecars of two versions share a secret while they are renewed one by one."""
    assert refusal(Sealer((SEALING,), Purpose.CONTEXT).seal(content)).detail == "of another version"


def test_facts_that_are_too_long_make_no_context() -> None:
    """An upstream could make every create fail by a comment of 20 KiB."""
    facts = msgspec.structs.replace(FACTS, properties={"write.data.path": "s3://lake/" + "x" * MAX_SEALED})
    assert contexts().seal(msgspec.structs.replace(STAGED, facts=facts)) == ""


def test_a_create_ends_when_the_settings_say() -> None:
    """Files would be signed for ever for a table that never came to be."""
    assert contexts().until(NOW) == NOW + 3600
