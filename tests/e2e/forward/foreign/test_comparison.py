"""The comparison of two runs of a client: it finds what differs, whichever of the two is the more lenient one."""

from __future__ import annotations

import pytest

from tests.e2e.forward import test_mc
from tests.e2e.forward.foreign import test_foreign, test_minio_py, test_restic, test_s3cmd
from tests.e2e.forward.foreign.comparison import DONE, STORED, Allowed, Step, differences, stored_steps
from tests.e2e.forward.foreign.report import Told
from tests.e2e.forward.foreign.s3cmd_session import as_step, plain
from tests.e2e.forward.mc_session import Said
from tests.e2e.forward.mc_session import as_step as as_mc_step
from tests.e2e.forward.session import Stored

pytestmark = pytest.mark.ci

REFUSED = Step("put", "BadDigest 400")
LET_THROUGH = Step("put", DONE, '"etag"')
REASON = "the store compares no checksum, and signproxy does"


def test_two_runs_that_are_the_same_do_not_differ() -> None:
    """Every run would fail."""
    steps = [REFUSED, Step("get", DONE, '"body"')]
    assert differences("store", steps, steps) == []


def test_what_the_store_refuses_and_signproxy_lets_through_is_found() -> None:
    """A check of the store could be dropped, such as that of a checksum, and no suite would notice."""
    (found,) = differences("store", [REFUSED], [LET_THROUGH])
    assert found == 'put\n  direct:  BadDigest 400\n  through: done "etag"'


def test_what_the_store_allows_and_signproxy_refuses_is_found() -> None:
    """A client would lose a call that works."""
    assert len(differences("store", [LET_THROUGH], [REFUSED])) == 1


def test_another_refusal_is_found() -> None:
    """A client that looks for a code would look in vain."""
    assert len(differences("store", [REFUSED], [Step("put", "AccessDenied 403")])) == 1
    assert len(differences("store", [REFUSED], [Step("put", "BadDigest 403")])) == 1


def test_another_value_is_found() -> None:
    """A client would be told another ETag than the store's."""
    assert len(differences("store", [LET_THROUGH], [LET_THROUGH._replace(detail='"other"')])) == 1


def test_words_of_the_store_do_not_count() -> None:
    """Messages of S3 differ between stores, and no client reads them."""
    assert differences("store", [REFUSED._replace(note="one")], [REFUSED._replace(note="two")]) == []


@pytest.mark.parametrize("missing", ("direct", "through"))
def test_a_step_that_one_run_lacks_is_found(missing: str) -> None:
    """A client that ended early, or an object that only one of them stores, would count as equal."""
    more, less = [REFUSED, Step("after: key", STORED)], [REFUSED]
    direct, through = (less, more) if missing == "direct" else (more, less)
    (found,) = differences("store", direct, through)
    assert f"{missing}: " in found
    assert "absent" in found


def test_each_repetition_is_compared_with_its_own() -> None:
    """The second run of a command would be compared with the first one, or not at all."""
    direct = [Step("list", DONE, "1"), Step("list", DONE, "2")]
    assert differences("store", direct, list(direct)) == []
    (found,) = differences("store", direct, [direct[0], direct[0]])
    assert found.startswith("list (2)\n")


def test_an_entry_with_a_reason_allows_what_it_names() -> None:
    """A difference that is meant would have to be taken out of the client's steps."""
    entry = Allowed("store", "put", DONE, "BadDigest 400", REASON)
    assert differences("store", [LET_THROUGH], [REFUSED], [entry]) == []


@pytest.mark.parametrize(
    "entry",
    (
        Allowed("other", "put", DONE, "BadDigest 400", REASON),
        Allowed("store", "get", DONE, "BadDigest 400", REASON),
        Allowed("store", "put", DONE, "AccessDenied 403", REASON),
        Allowed("store", "put", "AccessDenied 403", "BadDigest 400", REASON),
        # The opposite direction is another difference.
        Allowed("store", "put", "BadDigest 400", DONE, REASON),
    ),
)
def test_an_entry_allows_nothing_else(entry: Allowed) -> None:
    """One entry would hide other faults: of another store, step or outcome, or of the other direction."""
    assert differences("store", [LET_THROUGH], [REFUSED], [entry])


def test_an_entry_that_is_not_needed_is_found() -> None:
    """Entries would outlive their reason, and hide what comes to differ later."""
    entry = Allowed("store", "put", DONE, "BadDigest 400", REASON)
    assert "is not needed" in differences("store", [REFUSED], [REFUSED], [entry])[0]
    assert "names no step" in differences("store", [], [], [entry])[0]


def test_a_step_has_one_entry() -> None:
    """One of two entries would never be looked at, and its reason be that of nothing."""
    entry = Allowed("store", "put", DONE, "BadDigest 400", REASON)
    other = Allowed("store", "put", DONE, "AccessDenied 403", REASON)
    assert "another entry" in differences("store", [LET_THROUGH], [REFUSED], [other, entry])[0]


def test_an_entry_needs_a_reason_and_a_difference() -> None:
    """An entry could switch a step off."""
    with pytest.raises(ValueError, match="no reason"):
        Allowed("store", "put", DONE, "BadDigest 400", "")
    with pytest.raises(ValueError, match="no difference"):
        Allowed("store", "put", DONE, DONE, REASON)


def test_every_entry_of_the_suites_says_more_than_a_word() -> None:
    """A reason that says nothing is none."""
    entries = [*test_minio_py.ALLOWED, *test_restic.ALLOWED, *test_s3cmd.ALLOWED]
    entries += [entry for allowed in test_mc.ALLOWED.values() for entry in allowed]
    entries += [entry for driver in test_foreign.DRIVERS for entry in driver.allowed]
    assert [entry for entry in entries if len(entry.reason.split()) < 5] == []


def test_what_is_stored_is_compared_to_the_byte_and_header() -> None:
    """An upload could arrive cut, with framing in it, or without its type, and every answer be the same."""
    kept = Stored("key", b"body", (("content-type", "text/plain"),))

    def found(other: Stored, uploads: tuple[tuple[str, int], ...] = ()) -> list[str]:
        return differences("store", stored_steps("after", [kept]), stored_steps("after", [other], uploads))

    assert found(kept) == []
    assert found(Stored("key", b"bodx", kept.headers))
    assert found(Stored("key", b"body", (("content-type", "text/html"),)))
    assert len(found(Stored("other", b"body", kept.headers))) == 2
    assert found(kept, (("key", 2),))


def test_an_error_of_s3_is_its_code_and_status() -> None:
    """Each message with an id in it would differ; a status alone would hide another code."""
    told = Told("put", None, "BadDigest", 400, "request 1")
    assert told.as_step() == told._replace(text="request 2").as_step()._replace(note="request 1")
    assert told.as_step().outcome == "BadDigest 400"


def test_an_error_of_the_client_is_its_words() -> None:
    """A broken connection and a wrong checksum are one class of errors in some clients."""
    told = Told("get", None, "SdkClientException", 0, "checksum does not match")
    assert differences("store", [told.as_step()], [told._replace(text="connection reset").as_step()])


def said(code: int, *lines: str) -> Step:
    return as_step(Said("put", code, lines))


def test_s3cmd_is_compared_in_both_directions() -> None:
    """A command that fails at the store would be free to do anything through signproxy."""
    refused = said(11, "ERROR: S3 error: 403 (AccessDenied): no")
    assert refused.outcome == "exit 11, S3 error: 403 (AccessDenied)"
    assert differences("store", [refused], [said(0)])
    assert differences("store", [said(0)], [refused])
    assert differences("store", [refused], [said(11, "ERROR: S3 error: 404 (NoSuchKey): no")])
    assert differences("store", [refused], [said(11, "ERROR: S3 error: 403 (AccessDenied): in other words")]) == []


def test_a_retry_of_s3cmd_is_a_difference() -> None:
    """A request that fails each first time would look like one that works."""
    line = "WARNING: Retrying failed request: /key (503 (ServiceUnavailable))"
    assert plain(line) == line
    assert differences("store", [said(0)], [said(0, line)])


def test_s3cmd_tells_which_files_it_copied() -> None:
    """A file could be left out, and its line with it."""
    line = "upload: 'a' -> 's3://b/a'  (17 bytes in 0.1 seconds, 170.00 B/s) [1 of 6]"
    assert plain(line) == "upload: 'a' -> 's3://b/a'  (17 bytes in TIME[NUMBER]"
    assert differences("store", [said(0, plain(line))], [said(0)])


def test_mc_is_compared_in_both_directions() -> None:
    """A command that fails at the store would be free to do anything through signproxy."""

    def mc(code: int, *lines: str) -> Step:
        return as_mc_step(Said("cp ~/a @/a", code, lines))

    refused = mc(1, '{"error": {"cause": {"error": {"Code": "BadDigest"}}}, "status": "error"}')
    assert refused.outcome == "exit 1, BadDigest"
    assert differences("store", [refused], [mc(0)])
    assert differences("store", [mc(0)], [refused])
    assert differences("store", [mc(0, "one")], [mc(0, "other")])
    # Some commands fail and end with 0.
    silent = mc(0, '{"error": {"cause": {}}, "status": "error"}')
    assert silent.outcome == "exit 0"
    assert differences("store", [silent], [mc(0)])
