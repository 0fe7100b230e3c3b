"""Answer a list of buckets: what the policy lists, and of what stores tell, what it has patterns for."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from time import gmtime, strftime

from signproxy.errors import Reason, Refused, anew
from signproxy.gate.attempt import Attempt, refusal_of
from signproxy.gate.forwarded import BucketsShown, StoreBucket
from signproxy.model import Allow
from signproxy.policy.decide_volume import decide_bucket, unlisted
from signproxy.s3.forward_wire import service_operation
from signproxy.s3.storage import Storage

_AT_ONCE = 16
"""Buckets that are judged before others may have their turn."""

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z")


def shown(attempt: Attempt, told: Sequence[StoreBucket] | None = None) -> Generator[None, None, BucketsShown]:
    """Return the buckets that the subject may know of: those that are listed, and of those that stores told. Refused.

    Without what stores told, those are named that have to be asked. Others have their turn between some buckets and
    the next ones.
    """
    state, subject = attempt.state, attempt.subject
    asked = service_operation(attempt.wire)
    attempt.operation = asked.operation.s3_name
    if not state.remote_signing:
        raise Refused(Reason.REMOTE_SIGNING_OFF, "off for the whole system")
    refusals = {name: refusal_of(state, catalog, subject) for name, catalog in state.catalogs.items()}
    served = [catalog for name, catalog in state.catalogs.items() if refusals[name] is None]
    if not served:
        refusal = next(iter(refusals.values()), None)
        raise Refused(Reason.CATALOG_UNKNOWN, "there is no catalog") if refusal is None else anew(refusal)
    places = dict(state.buckets.listed())
    created: dict[str, str] = {}
    for number, (bucket, storage, made) in enumerate(told or (), 1):
        if number % _AT_ONCE == 0:
            yield
        # What lies in one storage says nothing of a bucket of that name in another.
        found = tuple([each for each in state.buckets.of(bucket) if each.storage.name == storage.name])
        if found:
            places.setdefault(bucket, found)
            if _DATE.fullmatch(made):
                created[bucket] = made
    known: list[str] = []
    for number, (bucket, reached) in enumerate(places.items(), 1):
        if number % _AT_ONCE == 0:
            yield
        if any(
            refusals[each.catalog.name] is None
            and isinstance(decide_bucket(state, each.catalog, subject, bucket), Allow)
            for each in reached
        ):
            known.append(bucket)
    names = sorted(name for name in known if name.startswith(asked.prefix or "") and name > asked.after)
    most = asked.most
    to_ask: dict[str, Storage] = {}
    if told is None:
        to_ask = {storage.name: storage for catalog in served for storage in unlisted(state, catalog, subject)}
    since = strftime("%Y-%m-%dT%H:%M:%S.000Z", gmtime(state.loaded_at))
    page = tuple(names[:most])
    return BucketsShown(
        page,
        tuple([created.get(bucket, since) for bucket in page]),
        asked.prefix,
        names[most - 1] if len(names) > most else "",
        tuple(to_ask.values()),
    )
