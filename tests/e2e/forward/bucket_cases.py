"""What clients do with buckets, with many objects at a time, and with what is said of objects."""

from __future__ import annotations

import re
from urllib.parse import quote

from tests.e2e.forward.bodies import BODY
from tests.e2e.forward.session import Session
from tests.e2e.forward.signer import Payload, Shape, checksum_of, content_md5


def lists(session: Session) -> None:
    for key in ("a/1", "a/2", "a/b/3", "b=1/x", "c c", "é", "z&<"):
        session.put(f"put {key}", key, key.encode())
    for version in ("list-type=2&", ""):
        for query in (
            "prefix=", "prefix=a%2F", "prefix=a/", "prefix=a%2F&delimiter=%2F", "delimiter=/&prefix=",
            "max-keys=2&prefix=", "max-keys=0&prefix=", "encoding-type=url&prefix=", "prefix=nothing", "prefix=c+c",
            "prefix=c%20c", "prefix=%C3%A9",
        ):  # fmt: skip
            session.ask(f"{version}{query}", "GET", query=f"{version}{query}")
    session.ask("from", "GET", query="list-type=2&prefix=&start-after=a%2F2")
    session.ask("marker", "GET", query="marker=a%2F2&prefix=")
    session.ask("owner", "GET", query="fetch-owner=true&list-type=2&prefix=a")
    first = session.ask("first page", "GET", query="list-type=2&max-keys=3&prefix=")
    found = re.search(rb"<NextContinuationToken>([^<]+)<", first.body)
    token = quote(found[1].decode(), safe="~") if found else "none"
    session.ask("second page", "GET", query=f"continuation-token={token}&list-type=2&max-keys=3&prefix=")
    session.ask("bad token", "GET", query="list-type=2&max-keys=a&prefix=")
    session.ask("head bucket", "HEAD")
    session.ask("location", "GET", query="location=")


def bulk_deletes(session: Session) -> None:
    keys = ["d/1", "d/2", "d/é", "d/<&>", "d/a b", "d/%2F"]
    for key in keys:
        session.put(f"put {key}", key, BODY)

    def delete(label: str, wanted: list[str], *, quiet: bool = False, headers: dict[str, str] | None = None) -> None:
        listed = "".join(f"<Object><Key>{_escaped(key)}</Key></Object>" for key in wanted)
        body = f"<Delete>{listed}{'<Quiet>true</Quiet>' if quiet else ''}</Delete>".encode()
        headers = {"content-md5": content_md5(body)} if headers is None else headers
        session.put(label, "", body, "delete=", method="POST", headers=headers)

    delete("one", ["d/1"])
    delete("quiet", ["d/2"], quiet=True)
    delete("hostile names", keys[2:])
    delete("nothing there", ["nothing", "d/1"])
    session.ask("list", "GET", query="list-type=2&prefix=d")
    body = b"<Delete><Object><Key>x</Key></Object></Delete>"
    crc = {"x-amz-sdk-checksum-algorithm": "CRC32", "x-amz-checksum-crc32": checksum_of("crc32", body)}
    session.put("with a checksum", "", body, "delete=", method="POST", headers=crc)
    session.put("no xml", "", b"<Delete", "delete=", method="POST", headers={"content-md5": content_md5(b"<Delete")})


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def tags(session: Session) -> None:
    session.put("put", "object", BODY, headers={"x-amz-tagging": "a=b&c=d%20e"})
    session.ask("get", "GET", "object", "tagging=")
    body = b"<Tagging><TagSet><Tag><Key>x</Key><Value>y</Value></Tag></TagSet></Tagging>"
    session.put("put tags", "object", body, "tagging=", headers={"content-md5": content_md5(body)})
    session.ask("get again", "GET", "object", "tagging=")
    session.ask("delete tags", "DELETE", "object", "tagging=")
    session.ask("get none", "GET", "object", "tagging=")


def attributes(session: Session) -> None:
    session.put("put", "object", BODY, shape=Shape(Payload.UNSIGNED_TRAILER))
    wanted = {"x-amz-object-attributes": "ETag,Checksum,ObjectParts,StorageClass,ObjectSize"}
    session.ask("attributes", "GET", "object", "attributes=", headers=wanted)
    session.ask("of nothing", "GET", "nothing", "attributes=", headers=wanted)


def settings(session: Session) -> None:
    for name in (
        "acl", "cors", "policy", "tagging", "versioning", "lifecycle", "ownershipControls", "encryption", "object-lock",
        "website", "logging", "notification", "replication", "requestPayment", "accelerate", "policyStatus",
    ):  # fmt: skip
        session.ask(f"get {name}", "GET", query=f"{name}=")
    session.ask("versions", "GET", query="prefix=&versions=")
