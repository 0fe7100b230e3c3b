"""Change an honest sign request in one place, as a caller would that wants out of its table."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from urllib.parse import quote

from tests.e2e.containment.draft import Desk, Draft, encode_key, legacy_route, named_route, specified_route
from tests.e2e.containment.misuse import (
    bulk_delete,
    copy_source,
    header,
    header_case,
    list_prefix,
    payload_mode,
    unexpected_body,
    upload_id,
    world_roots,
)
from tests.e2e.containment.spelling import spell
from tests.e2e.containment.vocabulary import METHODS, PRESIGN, SUBRESOURCES
from tests.e2e.containment.world import LAKE, NAMESPACE, TABLES, UNLISTED, VAULT, World
from tests.e2e.stores import DOMAIN

Mutation = Callable[[Desk, World, Draft], str]
"""Changes the draft and returns what was done, for the tally."""


def _respell(desk: Desk, _world: World, draft: Draft) -> str:
    """Keep the key and write it differently: the signature must fit whatever is signed."""
    if not draft.raw_key:
        return list_prefix(desk, _world, draft)
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
         "metadata/%30%300001-aa.metadata.json", "metadata/new.metadata.json", "data/x.metadata.json",
         "metadata%2Fversion-hint.text")
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
         f"/api/catalog{specified_route(own)}", f"/api{named_route(own)}", f"{named_route(own)}%20",
         named_route(own).upper(),
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
    (_origin, 4), (_bucket, 3), (_host, 3), (_subresource, 7), (_query_form, 6), (list_prefix, 8), (upload_id, 5),
    (copy_source, 8), (header, 9), (header_case, 1), (payload_mode, 2), (bulk_delete, 6), (unexpected_body, 1),
    (_method, 3),
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
