"""Turn an honest request into a list, copy, upload or delete that reaches for what is not the caller's."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

from tests.e2e.containment.draft import Desk, Draft, bulk_body, encode_key, set_body
from tests.e2e.containment.spelling import spell
from tests.e2e.containment.vocabulary import HEADERS
from tests.e2e.containment.world import LAKE, TABLES, World


def world_roots(world: World) -> list[str]:
    """Return keys and their parents, inside and outside of the tables."""
    keys = [key for _bucket, key in world.canaries]
    return [*keys, *(key.rpartition("/")[0] for key in keys), *(table.root for table in TABLES)]


def list_prefix(desk: Desk, world: World, draft: Draft) -> str:
    chance = desk.chance
    draft.method, draft.raw_key, draft.content, draft.body = "GET", "", b"", None
    prefix = chance.choice(("", "/", *world_roots(world)))
    if chance.random() < 0.5:
        prefix = draft.table.root + chance.choice(
            ("", "0", "/../", "/../t2/", "/./", "//", "-", "/\x00", "/.", "/..", "/data/../../")
        )
    spelled = quote(prefix, safe=chance.choice(("", "/", "/=+")))
    if chance.random() < 0.1 and prefix:
        spelled = spell(chance, prefix)[0].replace("&", "%26").replace("#", "%23")
    draft.query = chance.choice(
        (
            ["list-type=2", f"prefix={spelled}"],
            ["list-type=2", f"prefix={spelled}", "delimiter=/"],
            [f"prefix={spelled}"],
            ["list-type=2"],
            ["list-type=2", "prefix"],
            ["list-type=2", f"prefix={spelled}", f"prefix={quote(draft.table.root, safe='')}/"],
            ["list-type=2", f"prefix={quote(draft.table.root, safe='')}/", f"Prefix={spelled}"],
            ["list-type=2", f"prefix={quote(draft.table.root, safe='')}/", f"continuation-token={spelled}"],
            ["list-type=2", f"prefix={quote(draft.table.root, safe='')}/", f"start-after={spelled}"],
            ["list-type=2", f"prefix={quote(draft.table.root, safe='')}/", f"delimiter={spelled or 'a'}"],
            ["versions", f"prefix={spelled}"],
            ["uploads", f"prefix={spelled}"],
            ["list-type=2", f"prefix={spelled}", "encoding-type=url"],
        )
    )
    return "list prefix"


def upload_id(desk: Desk, world: World, draft: Draft) -> str:
    """Use another caller's upload, under its key or under one of one's own."""
    bucket, upload = desk.chance.choice(world.foreign_uploads)
    draft.method = desk.chance.choice(("PUT", "POST", "DELETE", "GET"))
    draft.query = [f"uploadId={quote(upload.upload_id, safe='~')}"]
    if draft.method == "PUT":
        draft.query.insert(0, "partNumber=1")
        draft.content = desk.payload()
        draft.headers = {}
    if draft.method == "POST":
        etag = upload.parts[0][1]
        draft.content = (
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
            f"<ETag>&quot;{etag}&quot;</ETag></Part></CompleteMultipartUpload>"
        ).encode()
        draft.headers = {}
    draft.body = None
    draft.raw_key = encode_key(desk.own_key(draft.table))
    if desk.chance.random() < 0.4:
        draft.origin, draft.bucket, draft.raw_key = desk.store.origin, bucket, encode_key(upload.key)
    return "foreign upload"


def copy_source(desk: Desk, world: World, draft: Draft) -> str:
    chance = desk.chance
    draft.method, draft.body, draft.content = "PUT", None, b""
    draft.headers = {}
    if not draft.raw_key:
        draft.raw_key, draft.query = encode_key(desk.own_key(draft.table)), []
    if draft.upload is None:
        draft.query = []
    bucket, key = chance.choice(list(world.canaries))
    encoded = encode_key(key)
    way = chance.randrange(8)
    if way == 0:
        source = f"arn:aws:s3:us-east-1:1:accesspoint/x/object/{encoded}"
    elif way == 1:
        source = f"{bucket}/{encoded}?versionId={chance.choice(('null', '1', ''))}"
    elif way == 2:
        source = f"{bucket}/{spell(chance, key)[0]}"
    elif way == 3:
        source = f"{bucket}/{key}"
    elif way == 4:
        source = quote(f"{bucket}/{key}", safe="")
    elif way == 5:
        source = f"{LAKE}/{encode_key(draft.table.root)}/{chance.choice(('../', '%2e%2e/', '..%2f', './../'))}{encoded}"
    else:
        source = f"{bucket}/{encoded}"
    draft.headers[chance.choice(("x-amz-copy-source", "X-Amz-Copy-Source"))] = (
        [source] if chance.random() < 0.9 else [f"{LAKE}/{encode_key(draft.table.root)}/data/UPPER.parquet", source]
    )
    return "copy source"


def header(desk: Desk, _world: World, draft: Draft) -> str:
    name, value = desk.chance.choice(HEADERS)
    if desk.chance.random() < 0.2:
        name = name.upper() if desk.chance.random() < 0.5 else name.title()
    draft.headers[name] = [value] if desk.chance.random() < 0.95 else [value, value]
    return "header"


def header_case(desk: Desk, _world: World, draft: Draft) -> str:
    if draft.headers:
        name = desk.chance.choice(list(draft.headers))
        draft.headers[name.swapcase()] = draft.headers[name]
    return "header spelled twice"


def payload_mode(desk: Desk, _world: World, draft: Draft) -> str:
    draft.headers["x-amz-content-sha256"] = [
        desk.chance.choice(
            (hashlib.sha256(b"other").hexdigest(), "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
        )
    ]
    return "payload mode"


def bulk_delete(desk: Desk, world: World, draft: Draft) -> str:
    """Delete by a body whose keys, or whose reading of them, leave the table."""
    chance = desk.chance
    draft.method, draft.raw_key, draft.query, draft.headers = "POST", "", ["delete"], {}
    own = f"{draft.table.root}/data/0-gone"
    foreign = chance.choice([key for bucket, key in world.canaries if bucket == draft.table.bucket])
    other = foreign
    if chance.random() < 0.3:
        other = chance.choice((f"{draft.table.root}/../t2/data/UPPER.parquet", draft.table.root, f"{own}/", f"/{own}"))
    plain = f"<Key>{own}</Key>"
    odd = chance.choice(
        (
            bulk_body([own]).replace(plain, f"<Key><![CDATA[{other}]]></Key>"),
            bulk_body([own]).replace(plain, f"<Key>{own}</Key><Key>{other}</Key>"),
            bulk_body([own]).replace(plain, f"<Key>{own}<!-- -->{other}</Key>"),
            bulk_body([own]).replace(plain, f"<Key>{draft.table.root}<a>/../t2</a>/data/0-gone</Key>"),
            bulk_body([own])
            .replace("<Delete", f'<!DOCTYPE d [<!ENTITY k "{other}">]><Delete')
            .replace(plain, "<Key>&k;</Key>"),
            bulk_body([own]).replace(plain, f"<Key>{own}</Key><VersionId>null</VersionId>"),
            bulk_body([own]).replace(plain, "<Key>&#x77;h/db/t2/data/UPPER.parquet</Key>"),
            bulk_body([own]).replace("</Delete>", f"<Object><Key>{other}</Key></Object></Delete>"),
            bulk_body([own]).replace("</Delete>", f"</Delete><Delete><Object><Key>{other}</Key></Object></Delete>"),
            bulk_body([own]).replace('encoding="UTF-8"', 'encoding="UTF-16"'),
            bulk_body([own]).replace('xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', 'xmlns="urn:other"'),
            bulk_body([own] * 1001),
            bulk_body([own, own]),
            bulk_body([]),
            "",
            "not xml",
        )
    )
    set_body(draft, odd if chance.random() < 0.5 else bulk_body(chance.choice(([own, other], [other, own], [other]))))
    if chance.random() < 0.1:
        draft.body = None
    if chance.random() < 0.1:
        # Sign one list, send another: only the payload hash can tell.
        draft.content = bulk_body([other]).encode()
        draft.headers = {}
        return "bulk delete, body swapped"
    return "bulk delete"


def unexpected_body(desk: Desk, _world: World, draft: Draft) -> str:
    draft.body = desk.chance.choice(("x", "<Delete/>", "{}", "\ud800"))
    return "body"
