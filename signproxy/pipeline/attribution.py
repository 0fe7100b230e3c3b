"""Say of each request in a store's log who made it, by which decision, and how far that is proven.

    stamp           it carries the id of an event whose bucket, key and method it has: signed, or forwarded
    request_id      signproxy forwarded it without a stamp, and the store gave it this id
    session         made with vended keys, whose session ends with the id of the event that they were made by
    known_service   made by a service that the operator named, or by signproxy to ship a segment
    probable        no stamp and no id to be seen, and an event for the same bucket, key and method at the time
    unattributed    nothing of that

Exact joins come first, each by a key that one side has once. What is left, which is little, is put in one order with
the events that may stand behind it, and each request looks back to the last of them: no pair of rows is ever formed,
so that a key which every principal reads costs what its rows cost and no more.

The caller chooses keys, user agents and queries. So a stamp is believed only if its event exists and is about the
very same thing; a row whose signature was bad proves nothing against any principal.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.findings import FindingClass
from signproxy.pipeline.matching import (
    COLUMNS,
    EVENT,
    HEADS_OF_PARTS,
    ID,
    KNOWN_SERVICE,
    LOOPBACK,
    MARKS,
    NONE_KNOWN,
    PARTS_OF_A_REQUEST,
    REQUEST,
    REQUEST_ID,
    SEGMENT,
    SESSION,
    SESSION_SECONDS,
    STAMP,
    TOLD,
    UNATTRIBUTED,
    WITHOUT_QUERY,
    KnownRequesters,
    is_one_of,
    no_null,
)
from signproxy.pipeline.neighbours import by_neighbour
from signproxy.pipeline.s3log.rows import Quality
from signproxy.pipeline.schemas import table
from signproxy.pipeline.signature_uses import with_uses

OUT = table("access_attribution").columns.names

Keep = Callable[[DataFrame], DataFrame]
"""Keeps what is read more than once from being computed more than once."""


def attribution(
    events: DataFrame, requests: DataFrame, known: KnownRequesters = NONE_KNOWN, *, keep: Keep = lambda frame: frame
) -> DataFrame:
    """Return each request once, with its class, the decision behind it, and what is wrong with the two together."""
    asked = _asked(requests)
    happened = events.where(F.col("kind").isin("sign", "forward", "vend", "refresh")).select(
        *(F.col(name).alias(f"e_{name}") for name in EVENT)
    )
    is_stamped = (F.col("e_kind") == "sign") | ((F.col("e_kind") == "forward") & F.col("e_stamped"))
    stamped = keep(_by_stamp(asked, happened.where(is_stamped)))
    held = stamped.where(F.col("class").isNotNull())
    plain = asked.where(F.col("stamp").isNull()).dropDuplicates(["request_key"])
    unstamped = plain.select(*REQUEST, *(F.lit(False).alias(name) for name in MARKS))
    rest = stamped.where(F.col("class").isNull()).unionByName(unstamped, allowMissingColumns=True)
    forwarded = _by_request_id(rest, happened.where(F.col("e_kind") == "forward"))
    vended = _by_session(forwarded, happened.where(F.col("e_kind").isin("vend", "refresh")), known)
    left = by_neighbour(keep(_by_name(vended, known)), happened, known)
    return _shaped(_with_faults(held.unionByName(left), known))


# what is looked at


def _asked(requests: DataFrame) -> DataFrame:
    """Return whole requests and the parts of others, each with a name, and parts with what their heads were asked."""
    quality = F.coalesce(F.col("quality"), F.array().cast("array<string>"))
    refused = F.coalesce(F.col("status").isin(400, 401, 403), F.lit(False))
    # A store that gives no id leaves no better name than all that it says.
    unnamed = F.concat(F.lit("-"), F.sha2(F.concat_ws("\x1f", "ts", "remote_ip", "method", "key", "user_agent"), 256))
    name = F.concat_ws(":", "source", F.coalesce(F.col("request_id"), unnamed))
    # Of two clients behind one address, one would pass for the other.
    client = F.xxhash64("remote_ip", "user_agent")
    # An unknown identity: what the row says of who asked is at most what was claimed.
    is_claimed = F.array_contains(quality, Quality.CLAIMED_KEY) | (refused & F.col("requester").isNull())
    own = {"m_bucket": F.col("bucket"), "m_key": F.col("key"), "m_method": F.col("method")}
    whole = (
        requests.where(F.col("op").isNull() | ~F.col("op").isin(*PARTS_OF_A_REQUEST))
        .withColumns({"request_key": name, "is_part": F.lit(False), "is_claimed": is_claimed, "client": client, **own})
        .select(*REQUEST, "client", *own)
    )
    heads = (
        requests.where(F.col("op").isin(*HEADS_OF_PARTS))
        .groupBy("source", "request_id")
        .agg(F.min("stamp").alias("stamp"), *(F.min(of).alias(name) for name, of in own.items()))
    )
    parts = (
        requests.where(F.col("op").isin(*PARTS_OF_A_REQUEST))
        .withColumn("request_key", F.concat_ws(":", name, F.col("op"), F.coalesce("key", F.lit(""))))
        .dropDuplicates(["request_key"])
        .withColumns({"is_part": F.lit(True), "is_claimed": is_claimed, "client": client})
        .drop("stamp")
        .join(heads, ["source", "request_id"], "left")
        .select(*whole.columns)
    )
    return whole.unionByName(parts)


# the exact joins


def _by_stamp(asked: DataFrame, signed: DataFrame) -> DataFrame:
    """Return the requests with a stamp: those whose stamp holds have their class, the others their faults."""
    bearing = asked.where(F.col("stamp").isNotNull())
    joined = bearing.join(signed, bearing.stamp == signed.e_event_id, "left")
    theirs, ours = F.col("access_key_id"), F.nullif("e_access_key_id", F.lit(""))
    # The request of a bulk delete has no key, though its event names the first.
    one_key = F.when(F.coalesce("e_key_count", F.lit(0)) > 0, F.lit("")).otherwise(F.coalesce("e_key", F.lit("")))
    same_key = F.coalesce("m_key", F.lit("")) == one_key
    # A list of buckets is of none.
    same_bucket = F.coalesce("m_bucket", F.lit("")) == F.coalesce("e_bucket", F.lit(""))
    # The store itself said to signproxy that it is this one, however its log writes the key.
    same_request = no_null(F.col("request_id") == _told_id())
    judged = joined.withColumns(
        {
            "exists": F.col("e_event_id").isNotNull(),
            "same_key": same_request | (same_bucket & same_key),
            "same_method": same_request | no_null(F.col("m_method") == F.col("e_method")),
            # Where both sides name the access key that signed it; S3's own log does not.
            "same_signer": theirs.isNull() | ours.isNull() | theirs.endswith(ours),
        }
    ).withColumn("holds", F.expr("exists AND same_key AND same_method AND same_signer"))
    once = with_uses(judged).where(~F.col("is_repeated"))
    broken = _faults(
        (FindingClass.UNKNOWN_STAMP, ~F.col("exists")),
        (FindingClass.STAMP_KEY_MISMATCH, F.expr("exists AND NOT same_key")),
        (FindingClass.STAMP_METHOD_MISMATCH, F.expr("exists AND NOT same_method")),
    )
    is_evidence = F.expr("exists AND NOT holds")
    # Whose stamp it was is evidence; that this principal asked is not.
    return once.withColumns(
        {
            "class": F.when(F.col("holds"), F.lit(STAMP)),
            "bad_stamp": F.when(F.expr("NOT holds AND NOT is_claimed"), broken),
            "bad_event_id": F.when(is_evidence, F.col("e_event_id")),
            "bad_key": F.when(is_evidence, F.col("e_key")),
            "bad_method": F.when(is_evidence, F.col("e_method")),
            "bad_principal": F.when(is_evidence, F.col("e_principal")),
            "is_disputed": F.lit(False),
            **{name: F.when(F.col("holds"), F.col(name)) for name in TOLD},
        }
    ).select(*COLUMNS)


def _told_id() -> Column:
    """Return the id that the store gave to a forwarded request; null where its answer was lost."""
    # Some stores send the header twice, which clients join by a comma.
    return F.nullif(F.trim(F.substring_index("e_upstream_request_id", ",", 1)), F.lit(""))


def _by_request_id(rest: DataFrame, forwarded: DataFrame) -> DataFrame:
    """Add the class of the requests that signproxy forwarded, by the id that the store gave it in its answer."""
    known = (
        forwarded.withColumns({"theirs": _told_id(), "theirs_bucket": F.coalesce("e_bucket", F.lit(""))})
        .where(F.col("theirs").isNotNull())
        .dropDuplicates(["theirs", "theirs_bucket"])
        .select("theirs", "theirs_bucket", *(F.col(name).alias(f"n_{name}") for name in TOLD))
    )
    same_bucket = F.coalesce("bucket", F.lit("")) == F.col("theirs_bucket")
    joined = rest.join(known, (F.col("request_id") == F.col("theirs")) & same_bucket, "left")
    return _taken_over(joined, REQUEST_ID)


def _by_session(rest: DataFrame, vended: DataFrame, known: KnownRequesters) -> DataFrame:
    """Add the class of the requests that were made with vended keys."""
    minted = F.nullif(F.regexp_extract("session_name", f"^sp-.*-({ID})$", 1), F.lit(""))
    of_role = F.lit(True) if not known.vending_role else F.col("role") == known.vending_role
    is_session = F.col("class").isNull() & of_role & ~F.col("is_claimed")
    # Rows without one would all have the same key, and meet in one place: each gets a key that nothing has.
    key = F.coalesce(F.when(is_session, minted), F.concat(F.lit("~"), "request_key"))
    allowed = vended.where(F.col("e_decision") == "allow").select(*(F.col(name).alias(f"n_{name}") for name in TOLD))
    age = F.unix_timestamp("ts") - F.unix_timestamp("n_e_ts")
    # A session outside its life is not one that signproxy opened.
    lives = age.between(-60, SESSION_SECONDS)
    joined = rest.withColumn("minted", key).join(allowed, F.col("minted") == F.col("n_e_event_id"), "left")
    return _taken_over(joined.withColumn("n_e_event_id", F.when(lives, F.col("n_e_event_id"))), SESSION)


def _taken_over(joined: DataFrame, class_: str) -> DataFrame:
    """Take over the event that was joined, where there was none before."""
    found = F.col("class").isNull() & F.col("n_e_event_id").isNotNull()
    over = {name: F.when(found, F.col(f"n_{name}")).otherwise(F.col(name)) for name in TOLD}
    return joined.withColumns({**over, "class": F.when(found, F.lit(class_)).otherwise(F.col("class"))}).select(
        *COLUMNS
    )


# what nothing proves


def _by_name(rest: DataFrame, known: KnownRequesters) -> DataFrame:
    """Add the class of those whom the operator named, of S3's own doings, and of segments that are shipped."""
    by_itself = F.coalesce(F.col("op").startswith("S3."), F.lit(False))
    named = is_one_of(known.services)
    # No event tells of the events' own upload; `audit verify` tells what became of the segments.
    ships = is_one_of(known.proxy) & F.col("method").isin("PUT", "HEAD") & F.col("key").rlike(SEGMENT)
    is_known = by_itself | (~F.col("is_claimed") & (named | no_null(ships)))
    return rest.withColumn("class", F.coalesce("class", F.when(is_known, F.lit(KNOWN_SERVICE))))


# what is wrong


def _with_faults(rows: DataFrame, known: KnownRequesters) -> DataFrame:
    status = F.coalesce(F.col("status"), F.lit(0))
    served = ((status >= 200) & (status < 300)) | (status == 304)
    exact = F.col("class").isin(STAMP, REQUEST_ID, SESSION)
    proven = ~F.col("is_claimed")
    own = is_one_of(known.proxy) if known.proxy else F.lit(False)
    has_query = ~F.col("source").isin(*WITHOUT_QUERY)
    # Which one of several it was is not known; that is no request past signproxy.
    unaccounted = (F.col("class") == UNATTRIBUTED) & ~F.col("is_disputed")
    answered = served | status.isin(404, 412, 416, 409)
    no_bad_stamp = F.coalesce(F.size("bad_stamp"), F.lit(0)) <= 0
    without_stamp = (
        own & has_query & unaccounted & proven & answered & ~F.col("is_part") & F.col("stamp").isNull() & no_bad_stamp
    )
    is_forwarded = no_null(F.col("e_kind") == "forward")
    # A sidecar's loopback, or an address behind a gateway, is not compared with the one that the store sees.
    both = F.col("remote_ip").isNotNull() & ~F.coalesce("e_remote_ip", F.lit("")).rlike(LOOPBACK)
    # A forwarded request comes from signproxy's own address.
    is_elsewhere = ~is_forwarded & both & (F.col("remote_ip") != F.col("e_remote_ip"))
    faults = F.concat(
        F.coalesce("bad_stamp", F.array().cast("array<string>")),
        _faults(
            (FindingClass.DENIED_BUT_SERVED, exact & (F.col("e_decision") == "deny") & served & ~is_forwarded),
            # The store was sent it before signproxy found what was wrong with its body.
            (
                FindingClass.BROKEN_OFF_BUT_SERVED,
                exact & (F.col("e_decision") == "deny") & served & is_forwarded & ~F.col("method").isin("GET", "HEAD"),
            ),
            (FindingClass.REPLAY, F.col("is_replayed")),
            (FindingClass.RETRY, F.col("is_retried")),
            (FindingClass.IP_MISMATCH, (F.col("class") == STAMP) & served & is_elsewhere),
            (
                FindingClass.ALLOWED_BUT_S3_DENIED,
                exact & (F.col("e_decision") == "allow") & status.isin(401, 403) & ~F.col("is_part"),
            ),
            (FindingClass.PROXY_KEY_WITHOUT_STAMP, without_stamp),
            (
                FindingClass.UNATTRIBUTED,
                unaccounted & proven & served & no_bad_stamp & ~without_stamp & ~F.col("is_part"),
            ),
        ),
    )
    return rows.withColumn("faults", F.when(F.size(faults) > 0, faults))


def _shaped(rows: DataFrame) -> DataFrame:
    """Return the columns of the table; of a stamp that does not hold only what is evidence."""
    is_faulty = F.col("faults").isNotNull()
    said = {
        name: F.col(f"e_{name}") for name in ("catalog", "namespace", "table", "application", "query_id", "rule_id")
    }
    said |= {
        "event_id": F.coalesce("e_event_id", "bad_event_id"),
        "principal": F.coalesce("e_principal", F.when(is_faulty, F.col("bad_principal"))),
        "effective_principal": F.coalesce(F.nullif("e_effective_principal", F.lit("")), "e_principal"),
        "policy_rev": F.col("e_policy_rev"),
        "way": F.col("e_kind"),
        "decision": F.col("e_decision"),
        "event_ts": F.col("e_ts"),
        # Segments of earlier versions do not have it.
        "decided_at": F.coalesce(F.col("e_decided_at").try_cast("timestamp"), F.col("e_ts")),
        "event_ip": F.when(is_faulty, F.col("e_remote_ip")),
        "event_key": F.when(is_faulty, F.coalesce("bad_key", "e_key")),
        "event_method": F.when(is_faulty, F.coalesce("bad_method", "e_method")),
        "expires_at": F.when(F.col("e_kind").isin("vend", "refresh"), F.col("e_expires_at")),
        "age_seconds": F.unix_timestamp("ts") - F.unix_timestamp("e_ts"),
    }
    return rows.select(*(said.get(name, F.col(name)).alias(name) for name in OUT))


def signed_not_used(events: DataFrame, attributed: DataFrame) -> DataFrame:
    """Return the signed requests of these events that no log has, of buckets whose log has stamped ones that day.

    The rows are shaped for `findings_of`. A log comes late and promises nothing, so it is information.
    """
    logged = attributed.where(F.col("class") == STAMP)
    days = logged.select("bucket", "event_date").distinct()
    used = logged.select("event_id").distinct()
    signed = events.where(
        (F.col("kind") == "sign") & (F.col("decision") == "allow") & F.coalesce("stamped", F.lit(False))
    )
    unused = signed.join(F.broadcast(days), ["bucket", "event_date"], "left_semi").join(used, ["event_id"], "left_anti")
    lacking = "requester remote_ip event_ip event_key event_method status error op source".split()
    empty = {name: F.lit(None).cast("string") for name in lacking}
    return unused.withColumns(
        {
            **empty,
            "request_key": F.col("event_id"),
            "way": F.col("kind"),
            "age_seconds": F.lit(None).cast("long"),
            "request_id": F.lit(None).cast("string"),
            "faults": F.array(F.lit(FindingClass.SIGNED_NOT_USED.code)),
        }
    )


def _faults(*conditions: tuple[FindingClass, Column]) -> Column:
    names = [F.when(F.coalesce(condition, F.lit(False)), F.lit(each.code)) for each, condition in conditions]
    return F.array_compact(F.array(*names))
