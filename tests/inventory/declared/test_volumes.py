"""Volumes as a policy declares them: what is read, what is refused, and what an operator is told of a change."""

# ruff: noqa: E501  (a fault is one row of a table, and reads as one)
from __future__ import annotations

import pytest

from signproxy.inventory.changes.difference import difference
from signproxy.model import Principal, VolumeId
from signproxy.policy.privileges import mask_of
from signproxy.policy.table import Overwrite
from signproxy.s3.rules import KeyRules, OperationsAllowed, Rules
from tests.inventory.policy_text import BASE, TABLE, faults, load

RAW = "{name: raw, storage: aws, bucket: lake, prefix: raw}"


def volumes(*entries: str) -> str:
    return "volumes:\n" + "".join(f"- {entry}\n" for entry in entries)


def grant(privileges: str, **where: str) -> str:
    named = "".join(f", {key}: {value}" for key, value in where.items())
    return f"grants:\n- {{role: analyst, privileges: [{privileges}]{named}}}\n"


def test_a_volume_is_what_its_entry_says() -> None:
    """The rest of the entry has defaults, and they are the narrow ones."""
    state = load(
        BASE.replace("remote_signing: true}", "remote_signing: true, overwrite: forbid}").replace(
            "[lake, cold]", "[lake, cold, cold-2]"
        ),
        volumes(
            RAW,
            "{name: all, storage: aws, bucket: cold-2, prefix: a/b/, operations: all, keys: s3, overwrite: allowed}",
            '{name: made, storage: aws, bucket: "tmp-*"}',
        ),
    )
    held = state.catalogs["lake"].volumes
    raw, everything, made = held
    assert (raw.id, raw.storage, raw.bucket, raw.prefix) == (VolumeId("lake", "raw"), "aws", "lake", "raw/")
    assert (raw.rules, raw.overwrite, raw.grants) == (Rules(OperationsAllowed.OBJECT), Overwrite.FORBID, {})
    assert everything.rules == Rules(OperationsAllowed.ALL, KeyRules.S3)
    assert (everything.prefix, everything.overwrite) == ("a/b/", Overwrite.ALLOWED)
    assert (made.bucket, made.prefix) == ("tmp-*", "")


def test_a_volume_is_granted_wherever_the_grant_is_written() -> None:
    """Files are merged, and their order means nothing."""
    state = load(BASE, grant("VOLUME_READ_DATA", volume="raw"), volumes(RAW))
    raw = state.catalogs["lake"].volumes.named("raw")
    assert raw is not None
    (given,) = raw.grants.values()
    assert given == mask_of(["VOLUME_READ_DATA"])
    inventory = load(
        BASE,
        volumes(RAW),
        "inventories: [more.ndjson]",
        more='{"kind": "grant", "role": "loader", "volume": "raw", "privileges": ["VOLUME_MANAGE"]}\n',
    )
    raw = inventory.catalogs["lake"].volumes.named("raw")
    assert raw is not None
    assert list(raw.grants.values()) == [mask_of(["VOLUME_MANAGE"])]


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        (volumes(RAW.replace("name: raw", 'name: ""')), "volumes[0].name: '' is no name of a volume"),
        (volumes(RAW, RAW), "volumes[1]: volume 'raw' is declared twice in catalog 'lake'"),
        (volumes(RAW.replace("aws", "awz")), "volumes[0].storage: catalog 'lake' has no storage 'awz' (did you mean"),
        (volumes(RAW.replace("bucket: lake", "bucket: lak")), "volumes[0].bucket: storage 'aws' has no bucket 'lak' (did"),
        (volumes(RAW.replace("bucket: lake", 'bucket: "*"')), "volumes[0].bucket: '*' is not the beginning of"),
        (volumes(RAW.replace("bucket: lake", 'bucket: "T*"')), "volumes[0].bucket: 'T*' is not the beginning of"),
        (volumes(RAW.replace("prefix: raw", "prefix: a//b")), "volumes[0].prefix: "),
        (volumes(RAW.replace("prefix: raw", "prefix: ../b")), "volumes[0].prefix: "),
        (volumes(RAW.replace("prefix: raw", "prefix: /")), "volumes[0].prefix: "),
        (volumes(RAW.replace("}", ", operations: table}")), "volumes[0].operations: object or all expected"),
        (volumes(RAW.replace("}", ", operations: some}")), "volumes[0].operations: "),
        (volumes(RAW.replace("}", ", catalog: lak}")), "volumes[0]: unknown catalog 'lak' (did you mean 'lake'?)"),
        # what lies where something else does
        (volumes(RAW, RAW.replace("name: raw", "name: two")), "'s3://lake/raw' meets 's3://lake/raw', volume 'lake/raw'"),
        (volumes(RAW, "{name: in, storage: aws, bucket: lake, prefix: raw/in}"), "'s3://lake/raw/in' meets 's3://lake/raw'"),
        (volumes(RAW, "{name: all, storage: aws, bucket: lake}"), "'s3://lake/raw' meets 's3://lake', volume 'lake/all'"),
        (volumes("{name: w, storage: aws, bucket: lake, prefix: wh}"), "table 'lake.sales.orders' lies in 's3://lake/wh'"),
        (volumes("{name: w, storage: aws, bucket: lake}"), "table 'lake.sales.orders' lies in 's3://lake'"),
        (
            volumes("{name: w, storage: aws, bucket: lake, prefix: wh/orders}"),
            "'s3://lake/wh/orders' lies in table 'lake.sales.orders'",
        ),
        (
            volumes("{name: w, storage: aws, bucket: lake, prefix: wh/orders/raw}"),
            "'s3://lake/wh/orders/raw' lies in table 'lake.sales.orders'",
        ),
        (volumes('{name: m, storage: aws, bucket: "la*"}'), "bucket 'la*' matches 'lake', which a storage lists"),
        (
            volumes('{name: m, storage: aws, bucket: "tmp-*"}', '{name: n, storage: aws, bucket: "tmp-a*", prefix: x}'),
            "'s3://tmp-a*/x' meets 's3://tmp-*', volume 'lake/m'",
        ),
        # grants
        (grant("VOLUME_READ_DATA", volume="rew") + volumes(RAW), "grants[0].volume: catalog 'lake' has no volume 'rew' (did"),
        (
            grant("TABLE_READ_DATA", volume="raw") + volumes(RAW),
            "grants[0].privileges: TABLE_READ_DATA cannot be granted on a volume; it has VOLUME_READ_DATA, ",
        ),
        (
            grant("VOLUME_READ_DATA", volume="raw", namespace="sales") + volumes(RAW),
            "grants[0].volume: a volume lies in a catalog; leave namespace and table out",
        ),
    ),
)  # fmt: skip
def test_a_fault_is_told_with_its_place(text: str, expected: str) -> None:
    """An operator who does not find the line reverts the whole change."""
    found = faults(BASE + "tables:\n" + TABLE, text)
    assert any(
        f"1.yaml: {expected}" in fault or (expected in fault and "1.yaml: volumes[" in fault) for fault in found
    ), found


def test_what_lies_beside_is_sound() -> None:
    """Names that merely begin alike are not its business."""
    assert (
        faults(
            BASE + "tables:\n" + TABLE,
            volumes(
                RAW,
                "{name: b, storage: aws, bucket: lake, prefix: raw-2}",
                "{name: c, storage: aws, bucket: cold, prefix: raw}",
                "{name: d, storage: aws, bucket: lake, prefix: wh/orders-raw}",
                '{name: e, storage: aws, bucket: "tmp-a*", prefix: x}',
                '{name: f, storage: aws, bucket: "tmp-b*"}',
                '{name: g, storage: aws, bucket: "tmp-a*", prefix: y}',
            ),
        )
        == []
    )


_OTHER = """
storages:
  far: {{kind: s3-compatible, region: r, buckets: [{bucket}], endpoints: [{{url: "http://{host}"}}]}}
catalogs:
  other: {{storages: [far], remote_signing: true{options}}}
"""


def test_volumes_of_two_catalogs_do_not_meet_on_one_store() -> None:
    """A request is judged by the grants of one catalog alone."""
    near = BASE.replace(
        "kind: aws, region: us-east-1", 'kind: s3-compatible, region: r, endpoints: [{url: "http://near"}]'
    )
    near += "default_catalog: lake\n"
    mine = volumes(RAW, '{name: made, storage: aws, bucket: "tmp-*"}')
    other = volumes(
        "{name: raw, catalog: other, storage: far, bucket: lake, prefix: raw/in}",
        '{name: made, catalog: other, storage: far, bucket: "tmp-*"}',
    )
    far = _OTHER.format(bucket="lake", host="far", options="")
    same = _OTHER.format(bucket="lake", host="near", options="")
    # Equal names on two stores are two buckets.
    assert faults(near, mine, far, other) == []
    found = faults(near, mine, same, other)
    assert "'s3://lake/raw/in' meets 's3://lake/raw', volume 'lake/raw'" in found[0]
    assert "'s3://tmp-*' meets 's3://tmp-*', volume 'lake/made'" in found[1]
    # A table of the other catalog counts too.
    tables = 'tables: [{catalog: other, namespace: n, name: t, location: "s3://lake/raw/t"}]\n'
    assert "table 'other.n.t' lies in 's3://lake/raw'" in faults(near, mine, same, tables)[0]
    assert faults(near, mine, far, tables) == []


def test_where_an_upstream_tells_of_tables_no_volume_lies() -> None:
    """A table that is seen tomorrow would be in the volume's place, and be read on the volume's grants."""
    learning = BASE.replace("remote_signing: true}", "remote_signing: true, tables: upstream}")
    (found,) = faults(learning, volumes("{name: w, storage: aws, bucket: lake, prefix: wh/raw}"))
    assert "'s3://lake/wh/raw' meets root 's3://lake/wh' of catalog 'lake'" in found
    (found,) = faults(learning, volumes("{name: w, storage: aws, bucket: lake}"))
    assert "meets root 's3://lake/wh'" in found
    assert faults(learning, volumes(RAW, '{name: m, storage: aws, bucket: "tmp-*"}')) == []


def test_a_store_is_no_stricter_than_it_says() -> None:
    """What is true of AWS is believed of no other store."""
    text = BASE.replace(
        "catalogs:",
        '  near: {kind: s3-compatible, region: r, buckets: [x-1], endpoints: [{url: "http://near"}]}\ncatalogs:',
    ).replace("storages: [aws]", "storages: [aws, near]")
    storages = load(text).catalogs["lake"].storages
    for name, true in (("aws", True), ("near", False)):
        store = storages[name]
        assert (store.literal_keys, store.checks_trailers, store.accepts_chunked_transfer) == (true, true, true)
    said = text.replace("buckets: [x-1]", "buckets: [x-1], literal_keys: true, checks_trailers: true").replace(
        "region: us-east-1", "region: us-east-1, accepts_chunked_transfer: false"
    )
    storages = load(said).catalogs["lake"].storages
    assert (storages["near"].literal_keys, storages["near"].checks_trailers) == (True, True)
    assert (storages["near"].accepts_chunked_transfer, storages["aws"].accepts_chunked_transfer) == (False, False)


# -- observe -----------------------------------------------------------------------------------------------------------


def principal(name: str, issuer: str = "corp") -> Principal:
    return Principal(f"{issuer}/{name}", issuer, name, 4e9)


def test_a_principal_is_observed_only_where_the_policy_says_so() -> None:
    """What is served for one must not be served for all."""
    state = load(BASE.replace("roles: [analysts]", "roles: [analysts], mode: observe"))
    assert state.observes(principal("alice"))
    assert not state.observes(principal("bob"))
    assert not load(BASE).observes(principal("alice"))
    bare = load(BASE.replace("corp/alice: {roles", "alice: {mode: observe, roles"), single_issuer=True)
    assert bare.observes(principal("alice"))
    # The full name is another entry, and it says nothing.
    both = BASE.replace("corp/alice: {", "alice: {mode: observe, ").replace(
        "principals: {", "principals: {corp/alice: {}, "
    )
    assert not load(both, single_issuer=True).observes(principal("alice"))
    assert not bare.observes(principal("x/alice"))


def test_two_modes_for_one_principal_contradict_each_other() -> None:
    """Whichever came last would win, by the name of a file."""
    more = "principals: {corp/alice: {mode: %s}}\n"
    assert faults(BASE, more % "observe") == []
    (found,) = faults(BASE, more % "observe", more % "enforce")
    assert found == "2.yaml: principals['corp/alice'].mode: contradicts another file, which says 'observe'"
    assert "enforce" in faults(BASE, more % "watch")[0]


# -- what changed ------------------------------------------------------------------------------------------------------


def test_what_changed_of_volumes_is_told() -> None:
    """At night an operator reads this line and nothing else."""
    old = load(BASE, volumes(RAW, "{name: b, storage: aws, bucket: cold}"), grant("VOLUME_READ_DATA", volume="raw"))
    new = load(
        BASE,
        volumes(
            "{name: raw, storage: aws, bucket: lake, prefix: other, operations: all, keys: s3, overwrite: forbid}",
            '{name: c, storage: aws, bucket: "tmp-*"}',
        ),
        grant("VOLUME_WRITE_DATA", volume="c"),
        "principals: {corp/alice: {mode: observe}}\n",
    )
    assert list(difference(old, new)) == [
        "principal 'corp/alice': mode 'enforce' -> 'observe'",
        "volume 'lake/b' removed (s3://cold)",
        "volume 'lake/raw' moved (s3://lake/raw -> s3://lake/other)",
        "volume 'lake/raw': operations object -> all",
        "volume 'lake/raw': keys strict -> s3",
        "volume 'lake/raw': overwrite allowed -> forbid",
        "volume 'lake/raw': VOLUME_READ_DATA revoked from role 'analyst'",
        "volume 'lake/c' added (s3://tmp-*)",
        "volume 'lake/c': VOLUME_WRITE_DATA granted to role 'analyst'",
    ]
    assert "principal 'corp/alice': mode 'observe' -> 'enforce'" in difference(new, old)
