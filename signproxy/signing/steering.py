"""Lead a bulk delete that comes to the signer without its body to the S3 listener, which sees the body and judges it.

PyIceberg asks for a signature of its bulk deletes and never says which keys are meant. Signed, such a request would
delete whatever its body says. Steered, it goes to the listener instead, signed with a key that signproxy issues for
this one request: the client gets the signature and not the secret, and each key that it sends is judged as the
caller's own request. What is handed out is therefore no authority, whichever caller asks.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from signproxy.gate.judgement import Judgement
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import Request
from signproxy.identity.emulated import EmulatedKeys
from signproxy.model import KeyScope, NamedTable, Target
from signproxy.policy.catalog import Catalog
from signproxy.s3.canonical import canonical_query
from signproxy.s3.headers import UNSIGNED_PAYLOAD
from signproxy.s3.query import parse_query
from signproxy.s3.request import WireRequest
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.s3.uri import split_uri
from signproxy.signing.sign import SignedRequest

STEERED_SECONDS = 300
"""How long the key lives: the client sends its request at once, and repeats it for a minute at most."""

_SET_HERE = frozenset({"x-amz-date", "x-amz-security-token", "x-amz-content-sha256"})
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Steering:
    """Answers sign requests with the way to the S3 listener."""

    __slots__ = ("_host", "_keys", "_url")

    def __init__(self, keys: EmulatedKeys, url: str) -> None:
        """`url` is where clients reach the listener."""
        self._keys = keys
        self._url = url
        parts = urlsplit(url)
        self._host = parts.netloc.removesuffix(_DEFAULT_PORTS[parts.scheme])

    def steer(self, request: Request, judgement: Judgement, catalog: Catalog, outcome: Outcome) -> SignedRequest | None:
        """Return a bulk delete, of which all but the body passed the signer's grammar, as the listener takes it.

        None where no bucket can be told. Raise Refused where no key is issued.
        """
        subject, wire = judgement.subject, judgement.asked.wire
        if subject is None or wire is None:
            return None
        spelled, raw_path, raw_query = split_uri(wire.uri)
        origin = catalog.endpoints.find(spelled)
        bucket = "" if origin is None else origin.bucket or raw_path[1:].partition("/")[0]
        if not bucket or raw_query is None:
            return None
        scope = _scope(judgement.asked.target, catalog)
        issued = self._keys.issue(subject.caller, scope, STEERED_SECONDS, request.wall, judgement.asked.bearer)
        outcome.access_key_id = issued.access_key_id[-4:]
        headers, payload = _signed(wire)
        date = amz_date(int(request.wall))
        key = SigningKey(issued.access_key_id, issued.secret_access_key, wire.region)
        authorization = key.authorization(
            wire.method,
            self._host,
            f"/{bucket}",
            canonical_query(parse_query(raw_query).items()),
            headers,
            payload,
            date,
            issued.session_token,
        )
        return SignedRequest(
            f"{self._url}/{bucket}?{raw_query}",
            {
                "Authorization": [authorization],
                "X-Amz-Date": [date],
                "x-amz-content-sha256": [payload],
                "X-Amz-Security-Token": [issued.session_token],
            },
        )


def _scope(target: Target | None, catalog: Catalog) -> KeyScope:
    """Return the table that the route names; where it names none, the whole catalog, in which each key is judged."""
    if not isinstance(target, NamedTable):
        return KeyScope(catalog.name)
    # What takes a dropped table's name is another table. Of learned ones nothing is known without asking.
    table = catalog.table(target.namespace, target.name) if catalog.learning is None else None
    return KeyScope(catalog.name, target.namespace, target.name, "" if table is None else table.uuid)


def _signed(wire: WireRequest) -> tuple[list[tuple[str, str]], str]:
    """Return the headers to be signed, which are all of S3's own, and what is said of the body."""
    payload = UNSIGNED_PAYLOAD
    signed = []
    for name, values in wire.headers.items():
        lower = name.lower()
        if lower == "x-amz-content-sha256" and values:
            payload = values[0]
        elif lower.startswith("x-amz-") and lower not in _SET_HERE:
            signed.append((lower, ",".join([" ".join(value.split()) for value in values])))
    return signed, payload
