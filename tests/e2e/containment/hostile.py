"""Change an honest sign request in one place, as somebody would who wants out of his table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random
from urllib.parse import quote

from tests.e2e.containment.draft import (
    Desk,
    Draft,
    bulk_body,
    encode_key,
    legacy_route,
    named_route,
    set_body,
    specified_route,
)
from tests.e2e.containment.spelling import spell
from tests.e2e.containment.world import LAKE, NAMESPACE, TABLES, UNLISTED, VAULT, World
from tests.e2e.stores import DOMAIN

Mutation = Callable[[Desk, World, Draft], str]
"""Changes the draft and returns what was done, for the tally."""

# Every sub-resource that S3 knows, and those that only one store knows.
SUBRESOURCES = """
    acl policy policyStatus tagging versioning versions location logging lifecycle cors website notification
    replication requestPayment encryption ownershipControls publicAccessBlock accelerate analytics metrics inventory
    intelligent-tiering object-lock session uploads torrent restore select retention legal-hold attributes annotation
    renameObject abac metadataTable metadataConfiguration append compose events lambdaArn delete list-type=2
    list-type=1 list-type=2&metadata=true versions&metadata=true x-id=GetObject prefix= marker=a versionId=null
    versionId= versionId=1 partNumber=1 response-content-type=text/html response-content-disposition=a
    uploadId= uploadId=x partNumber=0&uploadId=x tagging= select&select-type=2 multipart-manifest=get
    multipart-manifest=put symlink=get symlink format=json bulk-delete extract-archive=tar temp_url_sig=a&temp_url_expires=1
    Action=AssumeRole Action=CreateUser position=0&append publicAccessBlock= nosuch=1 nosuch
""".split()

PRESIGN = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Signature=00", "x-amz-copy-source=lake/wh/db/t2/data/UPPER.parquet",
    "X-Amz-Expires=600", "AWSAccessKeyId=a", "Signature=b", "Expires=1", "x-amz-acl=public-read", "X-Amz-Date=1",
    "x-minio-extract=true", "x-goog-acl=a", "x-signproxy-id=00000000", "X-Amz-Security-Token=t",
    "x%2Damz%2Dcopy-source=a", "X-AMZ-ACL=private",
)  # fmt: skip

HEADERS = (
    ("x-amz-acl", "public-read"), ("x-amz-acl", "bucket-owner-full-control"), ("x-amz-grant-read", "id=1"),
    ("x-amz-grant-full-control", 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'),
    ("x-amz-tagging", "a=b"), ("x-amz-website-redirect-location", "/t2"), ("x-amz-storage-class", "GLACIER"),
    ("x-amz-object-lock-mode", "COMPLIANCE"), ("x-amz-object-lock-legal-hold", "ON"),
    ("x-amz-object-lock-retain-until-date", "2099-01-01T00:00:00Z"), ("x-amz-bypass-governance-retention", "true"),
    ("x-amz-mfa", "1 2"), ("x-amz-server-side-encryption-customer-key", "a"), ("x-minio-force-delete", "true"),
    ("x-amz-server-side-encryption-customer-algorithm", "AES256"), ("X-Amz-Meta-Snowball-Auto-Extract", "true"),
    ("X-Amz-Meta-Minio-Snowball-Prefix", "wh/db/t2"), ("x-amz-rename-source", "/lake/wh/db/t2/data/UPPER.parquet"),
    ("x-goog-copy-source", "lake/wh/db/t2/data/UPPER.parquet"), ("x-amz-metadata-directive", "REPLACE"),
    ("x-amz-request-payer", "requester"), ("x-amz-object-attributes", "ETag"), ("x-amz-write-offset-bytes", "0"),
    ("X-HTTP-Method-Override", "DELETE"), ("X-HTTP-Method", "PUT"), ("X-Method-Override", "PUT"),
    ("X-Original-URL", "/lake/wh/db/t2/data/UPPER.parquet"), ("X-Rewrite-URL", "/lake?acl"),
    ("X-Forwarded-Host", "vault.s3.e2e.test"), ("X-Forwarded-Prefix", "/vault"), ("X-Auth-Token", "AUTH_tk"),
    ("X-Copy-From", "/lake/wh/db/t2/data/UPPER.parquet"), ("Destination", "/vault/x"), ("X-Object-Manifest", "vault/canary"),
    ("X-Symlink-Target", "vault/canary"), ("X-Container-Read", ".r:*"), ("X-Delete-After", "1"), ("X-Delete-At", "1"),
    ("X-Object-Meta-A", "b"), ("Authorization", "AWS test:tester:sig"), ("x-amz-date", "20260101T000000Z"),
    ("Date", "Thu, 01 Jan 2026 00:00:00 GMT"), ("x-amz-security-token", "t"), ("Proxy-Authorization", "Basic a"),
    ("x-amz-expected-bucket-owner", "1"), ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
    ("x-amz-content-sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER"), ("x-amz-content-sha256", "required"),
    ("x-amz-content-sha256", ""), ("x-amz-content-sha256", "A" * 64), ("x-amz-decoded-content-length", "1"),
    ("x-amz-te", "other"), ("x-amz-nosuch", "1"), ("x-amz-meta-", "1"), ("x-amz-meta-ünï", "1"), ("x-amz-meta-a", "ü"),
    ("x-amz-meta-a", "a\r\nx-amz-acl: public-read"), ("x-amz-meta-a\r\nx-amz-acl", "public-read"), ("x-amz-meta-a b", "1"),
    ("x-amz-fwd-status", "200"), ("x-amz-account-id", "1"), ("x-amz-create-session-mode", "ReadWrite"),
    ("If-Match", '"0"'), ("If-None-Match", "*"), ("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT"),
    ("Range", "bytes=99999-"), ("Content-Encoding", "gzip"), ("Content-Disposition", "attachment"), ("Cookie", "a=b"),
    ("Transfer-Encoding", "identity"), ("Upgrade", "h2c"), ("Connection", "keep-alive"), ("TE", "trailers"),
    ("x-amz-source-expected-bucket-owner", "1"), ("x-amz-server-side-encryption", "aws:kms"),
    ("x-amz-server-side-encryption-aws-kms-key-id", "k"), ("Cache-Control", "no-store"), ("Forwarded", "host=evil"),
)  # fmt: skip

METHODS = (
    "GET",
    "HEAD",
    "PUT",
    "POST",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "get",
    "TRACE",
    "COPY",
    "MOVE",
    "",
    "GET ",
    "PUT\r\n",
)


def _respell(desk: Desk, _world: World, draft: Draft) -> str:
    """Keep the key and write it differently: the signature must fit whatever is signed."""
    if not draft.raw_key:
        return _list_prefix(desk, _world, draft)
    key = draft.upload.key if draft.upload else desk.own_key(draft.table)
    draft.raw_key, way = spell(desk.chance, key)
    return f"spelling: {way}"


def _foreign_key(desk: Desk, world: World, draft: Draft) -> str:
    bucket, key = desk.chance.choice(list(world.canaries))
    draft.bucket = bucket
    if f"//{LAKE}." in draft.origin:
        draft.origin = draft.origin.replace(f"//{LAKE}.", f"//{bucket}.")
    draft.raw_key = encode_key(key)
    return "foreign key"


def _foreign_spelled(desk: Desk, world: World, draft: Draft) -> str:
    _bucket, key = desk.chance.choice(list(world.canaries))
    draft.raw_key, way = spell(desk.chance, key)
    return f"foreign key, {way}"


def _traverse(desk: Desk, world: World, draft: Draft) -> str:
    """Begin inside the table and leave it on the way."""
    _bucket, key = desk.chance.choice(list(world.canaries))
    dots = desk.chance.choice(("..", "%2e%2e", ".%2E", "%2E.", "..;", "..%20", "%252e%252e", ". .", "\uff0e\uff0e"))
    slash = desk.chance.choice(("/", "%2f", "%5c", "\\", "//"))
    up = (dots + slash) * desk.chance.randrange(1, 6)
    draft.raw_key = f"{encode_key(draft.table.root)}/{desk.chance.choice(('', 'data/'))}{up}{encode_key(key)}"
    return "traversal"


def _neighbour(desk: Desk, _world: World, draft: Draft) -> str:
    rest = desk.chance.choice(("data/part-0.parquet", "x", "", "metadata/00001-aa.metadata.json"))
    gap = desk.chance.choice(
        ("", "0/", "-x/", ".bak/", "%20/", "%2520/", ";/", "?/", "#/", "%00/", "\t/", "%2F%2F", "%3F/")
    )
    draft.raw_key = encode_key(draft.table.root) + gap + rest
    return "neighbour"


def _protected(desk: Desk, _world: World, draft: Draft) -> str:
    name = desk.chance.choice(
        ("metadata/00001-aa.metadata.json", "metadata/version-hint.text", "metadata/v2.gz.metadata.json", "metadata",
         "metadata/%30%300001-aa.metadata.json", "metadata/new.metadata.json", "data/x.metadata.json", "metadata%2Fversion-hint.text")
    )  # fmt: skip
    draft.raw_key = f"{encode_key(draft.table.root)}/{name}"
    return "protected metadata"


def _origin(desk: Desk, _world: World, draft: Draft) -> str:
    port, chance = desk.store.port, desk.chance
    draft.origin = chance.choice(
        (f"http://localhost:{port}", f"http://127.0.0.1:{port + 1}", "http://127.0.0.1", f"https://127.0.0.1:{port}",
         f"http://127.0.0.1:0{port}", f"http://127.1:{port}", f"http://2130706433:{port}", f"http://[::1]:{port}",
         f"http://user@127.0.0.1:{port}", f"http://127.0.0.1:{port}@evil.test", f"http://127.0.0.1:{port}\\@evil.test",
         f"http://{VAULT}.{DOMAIN}:{port}", f"http://{UNLISTED}.{DOMAIN}:{port}", f"http://{DOMAIN}:{port}",
         f"http://{LAKE}.{DOMAIN}.:{port}", f"http://{LAKE.upper()}.{DOMAIN}:{port}", f"HTTP://127.0.0.1:{port}",
         f"http://{LAKE}.{DOMAIN}", f"http://{LAKE}%2e{DOMAIN}:{port}", f"http://x.{LAKE}.{DOMAIN}:{port}",
         f"//127.0.0.1:{port}", f"http:/127.0.0.1:{port}", f"s3://127.0.0.1:{port}", f"http://{LAKE}.127.0.0.1:{port}",
         f"http://127.0.0.1:{port}/.", f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/{VAULT}/..")
    )  # fmt: skip
    return "origin"


def _bucket(desk: Desk, _world: World, draft: Draft) -> str:
    draft.origin = desk.store.origin
    draft.bucket = desk.chance.choice(
        (VAULT, UNLISTED, "LAKE", "l%61ke", "lake%2F", "lake/", "lake.", "", ".", "..", "%2e%2e", "lak")
    )
    return "bucket"


def _host(desk: Desk, _world: World, draft: Draft) -> str:
    port, chance = desk.store.port, desk.chance
    draft.headers["Host"] = chance.choice(
        ([desk.store.authority], [f"{LAKE}.{DOMAIN}:{port}"], [f"{VAULT}.{DOMAIN}:{port}"], ["evil.test"], [""],
         [desk.store.authority, desk.store.authority], [], [f"{VAULT}.{DOMAIN}:{port}", desk.store.authority],
         [f"{desk.store.authority}:443"], [f" {desk.store.authority}"], [f"127.0.0.1:{port}\r\nx: y"])
    )  # fmt: skip
    return "host header"


def _subresource(desk: Desk, _world: World, draft: Draft) -> str:
    added = desk.chance.choice(SUBRESOURCES)
    if desk.chance.random() < 0.3:
        place = desk.chance.randrange(len(added))
        added = f"{added[:place]}%{ord(added[place]):02x}{added[place + 1 :]}" if added[place] not in "=&" else added
    if desk.chance.random() < 0.5:
        draft.query = [added]
    else:
        draft.query.insert(desk.chance.randrange(len(draft.query) + 1), added)
    if desk.chance.random() < 0.2:
        draft.raw_key = ""
    return "sub-resource"


def _query_form(desk: Desk, world: World, draft: Draft) -> str:
    chance = desk.chance
    prefix = f"prefix={quote(chance.choice(world_roots(world)), safe='')}"
    added = chance.choice(
        (*PRESIGN, "", "&", ";acl", "a=1;b=2", "=x", "%", "%zz=1", "%ff=1", "+", "prefix", prefix, "%70refix=wh/",
         "list-type=2", "PREFIX=wh", "prefix%00=wh", "delete", "uploads", "acl=", "?acl", "prefix[]=wh")
    )  # fmt: skip
    if draft.query and chance.random() < 0.3:
        added = chance.choice(draft.query)
    draft.query.insert(chance.randrange(len(draft.query) + 1), added)
    return "query form"


def world_roots(world: World) -> list[str]:
    """Return keys and their parents, inside and outside of the tables."""
    keys = [key for _bucket, key in world.canaries]
    return [*keys, *(key.rpartition("/")[0] for key in keys), *(table.root for table in TABLES)]


def _list_prefix(desk: Desk, world: World, draft: Draft) -> str:
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


def _upload_id(desk: Desk, world: World, draft: Draft) -> str:
    """Use somebody else's upload, under his key or under one of one's own."""
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


def _copy_source(desk: Desk, world: World, draft: Draft) -> str:
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


def _header(desk: Desk, _world: World, draft: Draft) -> str:
    name, value = desk.chance.choice(HEADERS)
    if desk.chance.random() < 0.2:
        name = name.upper() if desk.chance.random() < 0.5 else name.title()
    draft.headers[name] = [value] if desk.chance.random() < 0.95 else [value, value]
    return "header"


def _header_case(desk: Desk, _world: World, draft: Draft) -> str:
    if draft.headers:
        name = desk.chance.choice(list(draft.headers))
        draft.headers[name.swapcase()] = draft.headers[name]
    return "header spelled twice"


def _payload(desk: Desk, _world: World, draft: Draft) -> str:
    draft.headers["x-amz-content-sha256"] = [
        desk.chance.choice(
            (hashlib.sha256(b"other").hexdigest(), "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
        )
    ]
    return "payload mode"


def _bulk(desk: Desk, world: World, draft: Draft) -> str:
    """Delete by a body whose keys, or whose reading of them, leave the table."""
    chance = desk.chance
    draft.method, draft.raw_key, draft.query, draft.headers = "POST", "", ["delete"], {}
    own, (_bucket, foreign) = f"{draft.table.root}/data/0-gone", chance.choice(list(world.canaries))
    other = chance.choice(
        (foreign, foreign, f"{draft.table.root}/../t2/data/UPPER.parquet", draft.table.root, f"{own}/", f"/{own}")
    )
    text = bulk_body([own, other] if chance.random() < 0.6 else [other])
    plain = f"<Key>{own}</Key>"
    odd = chance.choice(
        (
            text,
            text,
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
            bulk_body([]),
            "",
            "not xml",
        )
    )
    set_body(draft, odd)
    if chance.random() < 0.1:
        draft.body = None
    if chance.random() < 0.1:
        # Sign one list, send another: only the payload hash can tell.
        draft.content = bulk_body([other]).encode()
        draft.headers = {}
        return "bulk delete, body swapped"
    return "bulk delete"


def _body(desk: Desk, _world: World, draft: Draft) -> str:
    draft.body = desk.chance.choice(("x", "<Delete/>", "{}", "\ud800"))
    return "body"


def _method(desk: Desk, _world: World, draft: Draft) -> str:
    draft.method = desk.chance.choice(METHODS)
    return "method"


def _route(desk: Desk, _world: World, draft: Draft) -> str:
    """Ask in another table's name, or in one's own spelled so that two readers differ."""
    other = desk.chance.choice(TABLES)
    own = draft.table
    draft.route = desk.chance.choice(
        (named_route(other), specified_route(other), legacy_route(other), named_route(own, f"{NAMESPACE}%1Fx"),
         named_route(own).replace("/t", "/%74"), f"{named_route(own)}%2F..%2Ft2", f"{named_route(own)}/../t2",
         named_route(own).replace(own.catalog, other.catalog), f"/catalogs/{other.catalog}{named_route(own)}",
         f"/{own.catalog}/v1/aws/s3/sign", "/v1/aws/s3/sign", f"{named_route(own)}%00", f"/{named_route(own)}",
         f"/api/catalog{specified_route(own)}", f"/api{named_route(own)}", f"{named_route(own)}%20", named_route(own).upper(),
         named_route(own, "DB"), named_route(own, "nosuch"), f"{named_route(own)}x")
    )  # fmt: skip
    return "route"


def _token(desk: Desk, _world: World, draft: Draft) -> str:
    draft.token = desk.chance.choice(("", "nobody", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "x" * 20000))
    return "token"


def _region(desk: Desk, _world: World, draft: Draft) -> str:
    draft.region = desk.chance.choice(
        ("", "us-west-2", "aws-global", "../", "EU-CENTRAL-1", "us-east-1/s3/aws4_request")
    )
    return "region"


def _uri_text(desk: Desk, _world: World, draft: Draft) -> str:
    uri, chance = draft.uri, desk.chance
    place = chance.randrange(len(uri))
    odd = chance.choice(("\n", "\t", " ", "\\", "#", "%", "é", "\x00", "/", "?", "@", ":", "..", "&", "\ud800"))
    draft.uri_override = chance.choice(
        (uri[:place] + odd + uri[place:], f" {uri}", f"{uri}\n", f"{uri}#x", uri[:place], uri * 2)
    )
    return "uri text"


MUTATIONS: tuple[tuple[Mutation, int], ...] = (
    (_respell, 16), (_foreign_key, 8), (_foreign_spelled, 6), (_traverse, 6), (_neighbour, 6), (_protected, 5),
    (_origin, 4), (_bucket, 3), (_host, 3), (_subresource, 7), (_query_form, 6), (_list_prefix, 8), (_upload_id, 5),
    (_copy_source, 8), (_header, 9), (_header_case, 1), (_payload, 2), (_bulk, 6), (_body, 1), (_method, 3),
    (_route, 6), (_token, 1), (_region, 1), (_uri_text, 3),
)  # fmt: skip
_FUNCTIONS = [mutation for mutation, _ in MUTATIONS]
_WEIGHTS = [weight for _, weight in MUTATIONS]


def change(desk: Desk, world: World, draft: Draft) -> None:
    """Change a draft in one place, now and then in two."""
    done = [mutation(desk, world, draft) for mutation in _picked(desk.chance)]
    draft.family = " + ".join(done)


def _picked(chance: Random) -> list[Mutation]:
    return chance.choices(_FUNCTIONS, weights=_WEIGHTS, k=1 if chance.random() < 0.8 else 2)
