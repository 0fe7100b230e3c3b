"""Prove what a policy file means, and that what is wrong with it is told with its place."""

# ruff: noqa: E501  (a fault is one row of a table, and reads as one)
from __future__ import annotations

import pytest

from signproxy.errors import Finding, PolicyInvalid
from signproxy.model import NAMESPACE_SEPARATOR, Principal
from signproxy.policy.catalog import CatalogKind, Delegation, Overlap, TableBinding
from signproxy.policy.privileges import mask_of
from signproxy.policy.table import MetadataLevel, Overwrite, Place, TableSettings
from signproxy.s3.storage import OptIns, S3Endpoint, Stamp, Style, aws_endpoints
from tests.inventory.policy_text import BASE, TABLE, faults, load
from tests.policies import MemoryPolicySource

ALICE = Principal("corp/alice", "corp", "alice", 4e9)


def test_the_base_of_these_tests_is_sound() -> None:
    """Every fault below must come from what a test adds."""
    assert faults(BASE, f"tables:\n{TABLE}") == []


# -- faults --------------------------------------------------------------------------------------------------------

STORE = "storages:\n  s: {kind: s3-compatible, region: eu, buckets: [b-1], endpoints: [{url: 'http://h:9000'}]}\n"

FAULTS = (
    # not the language
    ("nonsense: 1", ["1.yaml: nonsense: unknown key"]),
    ("catalog: {}", ["1.yaml: catalog: unknown key (did you mean 'catalogs'?)"]),
    ("tables: [{name: t, namespace: a}]", ["1.yaml: tables[0].location: this key is missing"]),
    ("remote_signing: 'yes'", ["1.yaml: remote_signing: "]),
    ("a: [", ["1.yaml: line 2: "]),
    # what is offered
    ("delegation: {analyst: {lake: []}}", ["1.yaml: delegation.analyst: unknown principal role 'analyst' (did you mean 'analysts'?)"]),
    ("delegation: {analysts: {lakes: []}}", ["1.yaml: delegation.analysts.lakes: unknown catalog 'lakes' (did you mean 'lake'?)"]),
    ("delegation: {analysts: {lake: [signing]}}", ["1.yaml: delegation.analysts.lake[0]: "]),
    # switches
    ("remote_signing: false", ["1.yaml: remote_signing: contradicts remote_signing in 0.yaml"]),
    ("REMOTE_SIGNING_ENABLED: false", ["1.yaml: REMOTE_SIGNING_ENABLED: contradicts remote_signing in 0.yaml"]),
    # storages
    ("storages: {aws: {kind: aws, region: eu, buckets: [b-1]}}", ["1.yaml: storages.aws: storage 'aws' is declared twice"]),
    ("storages: {'': {kind: aws, region: eu, buckets: [b-1]}}", ["1.yaml: storages['']: '' is no name of a storage"]),
    ("storages: {s: {kind: aws, region: eu, buckets: []}}", ["1.yaml: storages.s.buckets: a storage needs a bucket"]),
    ("storages: {s: {kind: aws, region: eu, buckets: [b_1]}}", ["1.yaml: storages.s.buckets[0]: bucket 'b_1' is not"]),
    ("storages: {s: {kind: aws, region: eu, buckets: [b-1, b-1]}}", ["1.yaml: storages.s.buckets[1]: bucket 'b-1' is listed twice"]),
    ("storages: {s: {kind: aws, region: EU, buckets: [b-1]}}", ["1.yaml: storages.s.region: 'EU' is no region"]),
    ("storages: {s: {kind: aws, region: eu, buckets: [b-1], bucket_owner: 'a b'}}", ["1.yaml: storages.s.bucket_owner: "]),
    ("storages: {s: {kind: s3-compatible, region: eu, buckets: [b-1]}}", ["1.yaml: storages.s.endpoints: an s3-compatible storage needs an endpoint"]),
    ("storages: {s: {kind: minio, region: eu, buckets: [b-1]}}", ["1.yaml: storages.s.kind: "]),
    (STORE.replace("'}]", "', styles: ['']}]"), ["1.yaml: storages.s.endpoints[0].styles[0]: "]),
    (STORE.replace("'}]", "', styles: []}]"), ["1.yaml: storages.s.endpoints[0].styles: an endpoint speaks path"]),
    *(
        (STORE.replace("http://h:9000", url), ["1.yaml: storages.s.endpoints[0].url: "])
        for url in (
            "http://h:9000/path",
            "http://h:9000//",
            "http://u@h:9000",
            "http://u:p@h",
            "http://h:9000?x",
            "http://h:9000#x",
            "http://H",
            "ftp://h",
            "HTTP://h",
            "h:9000",
            "http://",
            "http://h:",
            "http://h:0",
            "http://h:065",
            "http://h:65536",
            "http://h:123456",
            "http://[::1]:9000",
            "http://h..x",
            "http://h.",
            "http://-h",
            "http://h_x",
            "http://h\\\\x",
            " http://h",
        )
    ),
    # catalogs
    ("catalogs: {lake: {storages: [aws]}}", ["1.yaml: catalogs.lake: catalog 'lake' is declared twice"]),
    ("catalogs: {hr: {storages: [awz]}}", ["1.yaml: catalogs.hr.storages[0]: unknown storage 'awz' (did you mean 'aws'?)"]),
    ("catalogs: {hr: {storages: []}}", ["1.yaml: catalogs.hr.storages: a catalog needs a storage"]),
    ("catalogs: {api: {storages: [aws]}}", ["1.yaml: catalogs.api: 'api' cannot be the name or a prefix of a catalog"]),
    ("catalogs: {catalogs: {storages: [aws]}}", ["1.yaml: catalogs.catalogs: 'catalogs' cannot be"]),
    ("catalogs: {a/b: {storages: [aws]}}", ["1.yaml: catalogs['a/b']: 'a/b' cannot be the name"]),
    ("catalogs: {hr: {storages: [aws], prefixes: ['x ']}}", ["1.yaml: catalogs.hr: 'x ' cannot be the name"]),
    ("catalogs: {hr: {storages: [aws], prefixes: ['']}}", ["1.yaml: catalogs.hr: '' cannot be the name"]),
    ("catalogs: {hr: {storages: [aws], prefixes: [lake]}}", ["1.yaml: catalogs.hr: prefix 'lake' already means catalog 'lake'"]),
    ("catalogs: {hr: {storages: [aws], roots: ['s3://laek/x']}}", ["1.yaml: catalogs.hr.roots[0]: none of the catalog's storages has bucket 'laek' (did you mean 'lake'?)"]),
    ("catalogs: {hr: {storages: [aws], tables: upstream, caller_locations: ['s3://laek/x']}}", ["1.yaml: catalogs.hr.caller_locations[0]: none of the catalog's storages has bucket 'laek' (did you mean 'lake'?)"]),
    ("catalogs: {hr: {storages: [aws], tables: upstream, caller_locations: ['s3://lake/x', 'x']}}", ["1.yaml: catalogs.hr.caller_locations[1]: 'x' does not begin with s3://"]),
    ("catalogs: {hr: {storages: [aws], roots: ['s3://lake/x', 'x']}}", ["1.yaml: catalogs.hr.roots[1]: 'x' does not begin with s3://"]),
    ("catalogs: {hr: {storages: [aws], metadata: open-ish}}", ["1.yaml: catalogs.hr.metadata: "]),
    ("catalogs: {hr: {storages: [aws], properties: {x: 'true'}}}", ["1.yaml: catalogs.hr.properties.x: unknown property 'x'"]),
    ("catalogs: {hr: {storages: [aws], properties: {polaris.config.remote-signing.enabled: 'on'}}}", ["1.yaml: catalogs.hr.properties['polaris.config.remote-signing.enabled']: true or false expected, got 'on'"]),
    ("catalogs: {hr: {storages: [aws], remote_signing: true, polaris.config.remote-signing.enabled: false}}", ["1.yaml: catalogs.hr: remote_signing and polaris.config.remote-signing.enabled contradict each other"]),
    (STORE.replace("b-1", "lake") + "catalogs: {hr: {storages: [aws, s]}}", ["1.yaml: catalogs.hr.storages[1]: bucket 'lake' is claimed by storages 'aws' and 's'"]),
    (
        STORE.replace("}]}", ", styles: [virtual-host]}]}").replace("b-1", "abc")
        + "  t: {kind: s3-compatible, region: eu, buckets: [xyz], endpoints: [{url: 'http://abc.h:9000'}]}\n"
        + "catalogs: {hr: {storages: [s, t]}}",
        ["1.yaml: catalogs.hr.storages: http://abc.h:9000 with bucket 'xyz' is claimed by storage "],
    ),
    ("default_catalog: lak", ["1.yaml: default_catalog: unknown catalog 'lak' (did you mean 'lake'?)"]),
    # roles and principals
    ("catalog_roles: {lak: [x]}", ["1.yaml: catalog_roles.lak: unknown catalog 'lak' (did you mean 'lake'?)"]),
    ("catalog_roles: {lake: ['']}", ["1.yaml: catalog_roles.lake: '' is no name of a role"]),
    ("principal_roles: {x: {lak: [analyst]}}", ["1.yaml: principal_roles.x.lak: unknown catalog 'lak'"]),
    ("principal_roles: {x: {lake: [analist]}}", ["1.yaml: principal_roles.x.lake: catalog 'lake' has no role 'analist' (did you mean 'analyst'?)"]),
    ("principal_roles: {'': {}}", ["1.yaml: principal_roles['']: '' is no name of a role"]),
    ("principals: {corp/bob: {roles: [analists]}}", ["1.yaml: principals['corp/bob'].roles: unknown principal role 'analists' (did you mean 'analysts'?)"]),
    ("principals: {bob: {}}", ["1.yaml: principals.bob: there is not exactly one issuer; write <issuer>/bob"]),
    ("principals: {' x': {}}", ["1.yaml: principals[' x']: ' x' is no name of a principal"]),
    # namespaces and tables
    ("namespaces: {lak: [a]}", ["1.yaml: namespaces.lak: unknown catalog 'lak'"]),
    ("namespaces: {lake: [a, a..b]}", ["1.yaml: namespaces.lake[1]: 'a..b' is no namespace"]),
    ("namespaces: {lake: [[]]}", ["1.yaml: namespaces.lake[0]: () is no namespace"]),
    ('namespaces: {lake: [["a\\x1fb"]]}', ["1.yaml: namespaces.lake[0]: "]),
    (f"tables:\n{TABLE}{TABLE}", ["1.yaml: tables[1]: table sales.orders is declared twice"]),
    (f"tables:\n{TABLE.replace('sales', 'a..b')}", ["1.yaml: tables[0].namespace: 'a..b' is no namespace"]),
    (f"tables:\n{TABLE.replace('orders,', chr(39) + chr(39) + ',')}", ["1.yaml: tables[0].name: '' is no name of a table"]),
    ('tables: [{namespace: a, name: "t\\0", location: "s3://lake/wh/t"}]', ["1.yaml: tables[0].name: 't\\x00' is no name of a table"]),
    (f"tables:\n{TABLE.replace('namespace', 'catalog: lak, namespace')}", ["1.yaml: tables[0]: unknown catalog 'lak'"]),
    (f"tables:\n{TABLE.replace('s3://lake/wh/orders', '')}", ["1.yaml: tables[0].location: '' does not begin with s3://"]),
    (f"tables:\n{TABLE.replace('//lake/wh', '//laek/wh')}", ["1.yaml: tables[0].location: no storage of catalog 'lake' has bucket 'laek' (did you mean 'lake'?)"]),
    (f"tables:\n{TABLE.replace('wh/orders', 'wh2/orders')}", ["1.yaml: tables[0].location: 's3://lake/wh2/orders' is not below a root of catalog 'lake': s3://lake/wh, s3://cold"]),
    (f"tables:\n{TABLE.replace('wh/orders', 'wh')}", ["1.yaml: tables[0].location: 's3://lake/wh' is not below a root"]),
    (f"tables:\n{TABLE.replace('}', ', locations: [s3://cold/x, s3://lake/y]}')}", ["1.yaml: tables[0].locations[1]: 's3://lake/y' is not below a root"]),
    # CVE-2026-42812: write.metadata.path alone skipped the check of the roots
    (f"tables:\n{TABLE.replace('}', ', properties: {write.metadata.path: s3://lake/y}}')}", ["1.yaml: tables[0].properties['write.metadata.path']: 's3://lake/y' is not below a root"]),
    (f"tables:\n{TABLE.replace('}', ', properties: {write.data.pth.path: s3://cold/y}}')}", ["1.yaml: tables[0].properties['write.data.pth.path']: unknown location property 'write.data.pth.path' (did you mean 'write.data.path'?)"]),
    (f"tables:\n{TABLE.replace('}', ', properties: {write.data.path: 5}}')}", ["1.yaml: tables[0].properties['write.data.path']: '5' does not begin with s3://"]),
    # overlap
    (f"tables:\n{TABLE}{TABLE.replace('name: orders', 'name: twin')}", ["1.yaml: tables[1]: table 'lake.sales.twin': 's3://lake/wh/orders' nests in, or equals, a location of table 'lake.sales.orders'"]),
    (f"tables:\n{TABLE.replace('wh/orders', 'wh/orders/x')}{TABLE.replace('name: orders', 'name: outer')}", ["1.yaml: tables[0]: table 'lake.sales.orders': 's3://lake/wh/orders/x' nests in"]),
    # grants
    ("grants: [{role: analyst, privileges: [TABLE_REED_DATA]}]", ["1.yaml: grants[0].privileges: unknown privilege 'TABLE_REED_DATA' (did you mean 'TABLE_READ_DATA'?)"]),
    ("grants: [{role: analyst, privileges: []}]", ["1.yaml: grants[0].privileges: a grant needs a privilege"]),
    ("grants: [{role: analist, privileges: [TABLE_CREATE]}]", ["1.yaml: grants[0].role: catalog 'lake' has no role 'analist' (did you mean 'analyst'?)"]),
    ("grants: [{role: analyst, catalog: hr, privileges: [TABLE_CREATE]}]", ["1.yaml: grants[0]: unknown catalog 'hr'"]),
    ("grants: [{role: analyst, table: t, privileges: [TABLE_CREATE]}]", ["1.yaml: grants[0].namespace: this key is missing; a table lies in a namespace"]),
    (f"tables:\n{TABLE}grants: [{{role: analyst, namespace: sale, privileges: [TABLE_CREATE]}}]", ["1.yaml: grants[0]: unknown namespace 'sale' in catalog 'lake' (did you mean 'sales'?)"]),
    (f"tables:\n{TABLE}grants: [{{role: analyst, namespace: sales, table: order, privileges: [TABLE_CREATE]}}]", ["1.yaml: grants[0]: unknown table 'sales.order' in catalog 'lake' (did you mean 'sales.orders'?)"]),
    ("grants: [{role: analyst, namespace: a..b, privileges: [TABLE_CREATE]}]", ["1.yaml: grants[0].namespace: 'a..b' is no namespace"]),
    ("grants: [{role: analyst, namespace: a..b, table: t, privileges: [TABLE_CREATE]}]", ["1.yaml: grants[0].namespace: 'a..b' is no namespace"]),
    # inventories
    *(
        (f"inventories: [{name}]", [f"1.yaml: inventories[0]: {shown} is not the name of a file beside the policy"])
        for name, shown in (("../x", "'../x'"), ("/etc/passwd", "'/etc/passwd'"), ("''", "''"), (".x", "'.x'"), ("'a\\b'", "'a\\\\b'"))
    ),
    ("inventories: [gone.ndjson]", ["1.yaml: inventories[0]: there is no file 'gone.ndjson' beside the policy"]),
    ("inventories: [0.yaml, 0.yaml]", ["1.yaml: inventories[1]: '0.yaml' is named twice"]),
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_is_told_with_file_path_and_nearest_name(text: str, expected: list[str]) -> None:
    """An operator must find the line; and nothing of a faulty policy may take effect."""
    found = faults(BASE, text)
    for wanted in expected:
        assert any(fault.startswith(wanted) for fault in found), found


def test_many_faults_are_told_at_once_but_not_without_end() -> None:
    """One fault per restart is a bad afternoon; ten thousand are a full disk."""
    grants = "".join("- {role: nobody, privileges: [TABLE_CREATE]}\n" for _ in range(60))
    assert len(faults(BASE, f"grants:\n{grants}")) == 50
    few = "".join("- {role: nobody, privileges: [TABLE_CREATE]}\n" for _ in range(49))
    assert len(faults(BASE, f"grants:\n{few}")) == 49


def test_an_empty_policy_is_a_fault() -> None:
    """A directory that was mounted empty must not turn everything off silently."""
    assert faults() == ["there is no policy file (*.yaml)"]


def test_text_that_is_not_utf_8_is_a_fault() -> None:
    """A replaced character would be another location."""
    source = MemoryPolicySource({"a.yaml": b"x: \xff", "b.yaml": b"nonsense: 1"})
    with pytest.raises(PolicyInvalid) as caught:
        source.load(1)
    assert [finding[:2] for finding in caught.value.findings] == [("a.yaml", ""), ("b.yaml", "nonsense")]


def test_a_contradicting_default_catalog_is_a_fault() -> None:
    """Which catalog a request means must not depend on the order of files."""
    more = "catalogs: {hr: {storages: [aws], roots: [s3://lake/hr]}}\ndefault_catalog: hr"
    assert faults(BASE, more, "default_catalog: lake") == [
        "2.yaml: default_catalog: contradicts another file, which says 'hr'"
    ]
    assert faults(BASE, more, "default_catalog: hr") == []


@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize(("first", "second"), (("wh/a", "wh/a/b"), ("wh/a/b", "wh/a"), ("wh/a", "wh/a")))
def test_tables_of_two_catalogs_never_overlap(overlap: Overlap, first: str, second: str) -> None:
    """A request is judged by one catalog's grants: the other's data must not lie in its tables."""
    text = f"""
catalogs:
  hr: {{storages: [aws], roots: [s3://lake/wh], overlap: {overlap.value}}}
tables:
- {{catalog: lake, namespace: a, name: t, location: "s3://lake/{first}"}}
- {{catalog: hr, namespace: a, name: u, location: "s3://lake/{second}"}}
"""
    found = faults(BASE, text)
    assert found
    assert all("nests in, or equals, a location of table" in fault for fault in found)
    apart = 's3://lake/wh/elsewhere"'.join(text.rsplit(f's3://lake/{second}"', 1))
    assert faults(BASE, apart) == []


def test_one_name_may_be_two_buckets_on_two_stores() -> None:
    """Bucket names are unique per store only."""
    text = (
        STORE.replace("b-1", "lake")
        + "catalogs: {hr: {storages: [s]}}\n"
        + 'tables:\n- {catalog: lake, namespace: a, name: t, location: "s3://lake/wh/a"}\n'
        + '- {catalog: hr, namespace: a, name: u, location: "s3://lake/wh/a"}\n'
        + '- {catalog: hr, namespace: a, name: v, location: "s3://lake/wh/b"}\n'
    )
    assert faults(BASE, text) == []
    assert faults(BASE, text.replace("storages: [s]", "storages: [aws]")) != []


# -- meaning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "on"),
    (
        ("", False),
        ("remote_signing: true", True),
        ("remote_signing: false", False),
        ("REMOTE_SIGNING_ENABLED: true", True),
        ("REMOTE_SIGNING_ENABLED: false", False),
        ("REMOTE_SIGNING_ENABLED: true\nremote_signing: true", True),
    ),
)
def test_the_switch_of_the_installation(text: str, on: bool) -> None:
    """Signing is off until the operator turns it on."""
    assert load(BASE.replace("remote_signing: true\nstorages", f"{text}\nstorages")).remote_signing is on


@pytest.mark.parametrize(
    ("text", "on"),
    (
        ("", False),
        (", remote_signing: true", True),
        (", remote_signing: false", False),
        (", polaris.config.remote-signing.enabled: true", True),
        (", properties: {polaris.config.remote-signing.enabled: true}", True),
        (", properties: {polaris.config.remote-signing.enabled: 'true'}", True),
        (", properties: {polaris.config.remote-signing.enabled: 'false'}", False),
        (", properties: {polaris.config.remote-signing.enabled: false}", False),
        (", remote_signing: true, properties: {polaris.config.remote-signing.enabled: 'true'}", True),
    ),
)
def test_the_switch_of_a_catalog(text: str, on: bool) -> None:
    """Polaris' name of the switch means the same."""
    state = load(BASE, f"catalogs: {{hr: {{storages: [aws]{text}}}}}")
    assert state.catalogs["hr"].remote_signing is on


def test_a_catalog_has_safe_defaults() -> None:
    """What is not written must be the closed side."""
    hr = load(BASE, "catalogs: {hr: {storages: [aws]}}").catalogs["hr"]
    assert (hr.kind, hr.allow_external, hr.binding, hr.overlap) == (
        CatalogKind.INTERNAL,
        False,
        TableBinding.STRICT,
        Overlap.FORBIDDEN,
    )
    assert hr.prefixes == ("hr",)


def test_a_catalog_says_what_it_is() -> None:
    """Each setting must arrive."""
    text = """
catalogs:
  hr: {storages: [aws], kind: external, allow_external: true, binding: by-location, overlap: allowed, prefixes: [x, y]}
"""
    hr = load(BASE, text).catalogs["hr"]
    assert (hr.kind, hr.allow_external, hr.binding, hr.overlap) == (
        CatalogKind.EXTERNAL,
        True,
        TableBinding.BY_LOCATION,
        Overlap.ALLOWED,
    )
    assert hr.prefixes == ("hr", "x", "y")
    assert list(hr.storages) == ["aws"]
    assert hr.endpoints.find("https://lake.s3.us-east-1.amazonaws.com") is not None


def test_an_aws_storage_needs_no_endpoint() -> None:
    """The region says where it answers; AWS refuses unsigned headers."""
    aws = load(BASE).catalogs["lake"].storages["aws"]
    assert aws.endpoints == aws_endpoints("us-east-1")
    assert aws.checks_unsigned_headers
    assert aws.checks_payload_hash
    assert not aws.pins_forwarded_headers
    assert aws.stamp is Stamp.QUERY
    assert aws.opt_ins == OptIns()


def test_a_private_link_is_added_to_the_endpoints_of_aws() -> None:
    """Interface endpoints have names of their own."""
    text = (
        "storages: {s: {kind: aws, region: eu, buckets: [b-1], endpoints: "
        "[{url: 'https://bucket.vpce-1.s3.eu.vpce.amazonaws.com', styles: [path, virtual-host]}], "
        "checks_unsigned_headers: false, checks_payload_hash: false, pins_forwarded_headers: true}}\ncatalogs: {hr: {storages: [s]}}"
    )
    storage = load(BASE, text).catalogs["hr"].storages["s"]
    link = S3Endpoint("https", "bucket.vpce-1.s3.eu.vpce.amazonaws.com", (Style.PATH, Style.VIRTUAL_HOST))
    assert storage.endpoints == (*aws_endpoints("eu"), link)
    assert not storage.checks_unsigned_headers
    assert not storage.checks_payload_hash
    assert storage.pins_forwarded_headers


@pytest.mark.parametrize(
    ("url", "scheme", "authority"),
    (
        ("http://h", "http", "h"),
        ("http://h/", "http", "h"),
        ("https://s3.dc-1.example.com:8443", "https", "s3.dc-1.example.com:8443"),
        ("http://127.0.0.1:1", "http", "127.0.0.1:1"),
        ("http://h:65535", "http", "h:65535"),
    ),
)
def test_a_compatible_storage_lists_its_endpoints(url: str, scheme: str, authority: str) -> None:
    """Only hosts that are listed are ever signed for."""
    text = (
        f"storages: {{s: {{kind: s3-compatible, region: eu, buckets: [b-1], endpoints: [{{url: '{url}'}}], stamp: off, "
        "bucket_owner: '0123', opt_ins: {recover: true, kms_keys: [k]}}}\ncatalogs: {hr: {storages: [s]}}"
    )
    storage = load(BASE, text).catalogs["hr"].storages["s"]
    assert storage.endpoints == (S3Endpoint(scheme, authority, (Style.PATH,)),)
    assert not storage.checks_unsigned_headers
    assert not storage.checks_payload_hash
    assert storage.stamp is Stamp.OFF
    assert storage.bucket_owner == "0123"
    assert storage.opt_ins == OptIns(recover=True, kms_keys=("k",))


@pytest.mark.parametrize(
    ("namespace", "joined"),
    (
        ("a", "a"),
        ("a.b", f"a{NAMESPACE_SEPARATOR}b"),
        ("[a, b]", f"a{NAMESPACE_SEPARATOR}b"),
        ('["v1.0"]', "v1.0"),
        ('["v1.0", x]', f"v1.0{NAMESPACE_SEPARATOR}x"),
    ),
)
def test_a_namespace_is_written_with_dots_or_as_a_list(namespace: str, joined: str) -> None:
    """Levels may hold dots themselves."""
    text = f'tables: [{{namespace: {namespace}, name: t, location: "s3://lake/wh/t"}}]'
    table = load(BASE, text).catalogs["lake"].table(joined, "t")
    assert table is not None
    assert table.id.namespace == joined


def test_a_table_inherits_from_its_catalog_or_says_otherwise() -> None:
    """Levels are set once per catalog, and per table where one differs."""
    text = """
catalogs:
  hr: {storages: [aws], roots: ["s3://lake/hr"], metadata: sealed, overwrite: forbid}
tables:
- {catalog: hr, namespace: a, name: t, location: "s3://lake/hr/t", uuid: abc}
- {catalog: hr, namespace: a, name: u, location: "s3a://lake/hr/u/", metadata: open, overwrite: allowed}
- {catalog: hr, namespace: a, name: v, location: "s3://lake/hr/v"}
- {catalog: lake, namespace: a, name: w, location: "s3://cold/w"}
"""
    state = load(BASE, text)
    t, u, v = (state.catalogs["hr"].table("a", name) for name in "tuv")
    w = state.catalogs["lake"].table("a", "w")
    assert t is not None
    assert u is not None
    assert v is not None
    assert w is not None
    assert (t.metadata, t.overwrite, t.uuid) == (MetadataLevel.SEALED, Overwrite.FORBID, "abc")
    assert (u.metadata, u.overwrite, u.uuid) == (MetadataLevel.OPEN, Overwrite.ALLOWED, "")
    assert u.location == "hr/u/"
    assert t.settings is v.settings
    assert w.settings == TableSettings("aws", "cold")


def test_every_location_of_a_table_is_taken() -> None:
    """An engine that writes to `write.data.path` must not be refused there."""
    text = """
tables:
- namespace: a
  name: t
  location: s3://lake/wh/t
  properties:
    write.data.path: s3://cold/data
    write.metadata.path: s3://cold/meta/
    write.object-storage.path: s3://cold/data
    write.folder-storage.path: s3n://lake/wh/folder
    write.format.default: parquet
    commit.retry.num-retries: 4
    owner: null
  locations: [s3://cold/old, s3://cold/meta]
- {namespace: a, name: u, location: s3://lake/wh/u, locations: [s3://cold/u]}
- {namespace: a, name: v, location: s3://lake/wh/v, properties: {write.data.path: s3://cold/v}}
"""
    catalog = load(BASE, text).catalogs["lake"]
    table = catalog.table("a", "t")
    assert table is not None
    meta = Place("aws", "cold", "meta/")
    assert table.settings.metadata_place == meta
    assert table.settings.extra == (
        meta,
        Place("aws", "cold", "data/"),
        Place("aws", "lake", "wh/folder/"),
        Place("aws", "cold", "old/"),
    )
    for bucket, key in (("cold", "data/f"), ("cold", "meta/f"), ("cold", "old/f"), ("lake", "wh/folder/f")):
        assert catalog.locations.owners(bucket, key) == (table,)
    assert [owner.name for owner in catalog.locations.owners("cold", "u/f")] == ["u"]
    assert [owner.name for owner in catalog.locations.owners("cold", "v/f")] == ["v"]


def test_grants_reach_their_level_wherever_they_are_written() -> None:
    """The order of files and entries must not change what a policy means."""
    tables = 'tables: [{namespace: a.b, name: t, location: "s3://lake/wh/t"}, {namespace: c, name: u, location: "s3://lake/wh/u"}]'
    given = """
grants:
- {role: analyst, privileges: [TABLE_REMOTE_SIGN]}
- {role: loader, privileges: [TABLE_CREATE]}
- {role: analyst, namespace: a, privileges: [TABLE_READ_DATA]}
- {role: analyst, namespace: a.b, privileges: [TABLE_CREATE]}
- {role: loader, namespace: a.b, privileges: [TABLE_READ_DATA]}
- {role: analyst, namespace: [a, b], table: t, privileges: [TABLE_WRITE_PROPERTIES]}
- {role: analyst, namespace: a.b, table: t, privileges: [TABLE_WRITE_DATA]}
- {role: loader, namespace: c, table: u, privileges: [TABLE_WRITE_DATA]}
"""
    for texts in ((BASE, tables, given), (BASE, given, tables), (given, BASE, tables)):
        catalog = load(*texts).catalogs["lake"]
        ids = {name: role for role, name in catalog.roles.items()}
        analyst, loader = ids["analyst"], ids["loader"]
        t, u = catalog.table(f"a{NAMESPACE_SEPARATOR}b", "t"), catalog.table("c", "u")
        assert t is not None
        assert u is not None
        assert catalog.grants == {analyst: mask_of(["TABLE_REMOTE_SIGN"]), loader: mask_of(["TABLE_CREATE"])}
        assert catalog.namespaces["a"].grants == {analyst: mask_of(["TABLE_READ_DATA"])}
        assert t.namespace.own == {analyst: mask_of(["TABLE_CREATE"]), loader: mask_of(["TABLE_READ_DATA"])}
        assert t.namespace.parent is catalog.namespaces["a"]
        assert t.grants == {
            analyst: mask_of(["TABLE_READ_DATA", "TABLE_CREATE", "TABLE_WRITE_PROPERTIES", "TABLE_WRITE_DATA"]),
            loader: mask_of(["TABLE_READ_DATA"]),
        }
        assert u.grants == {loader: mask_of(["TABLE_WRITE_DATA"])}
        assert u.namespace.grants == {}


def test_equal_grants_share_one_object() -> None:
    """A million grants to eight roles must not be a million dictionaries."""
    tables = "".join(f'- {{namespace: a, name: t{n}, location: "s3://lake/wh/{n}"}}\n' for n in range(4))
    given = "".join(
        f"- {{role: loader, namespace: a, table: t{n}, privileges: [TABLE_READ_DATA]}}\n"
        f"- {{role: analyst, namespace: a, table: t{n}, privileges: [TABLE_READ_DATA]}}\n"
        for n in range(4)
    )
    catalog = load(BASE, f"tables:\n{tables}grants:\n{given}").catalogs["lake"]
    assert len({id(table.grants) for table in catalog.tables()}) == 1


def test_roles_of_several_files_add_up() -> None:
    """Each team keeps its own file."""
    state = load(
        BASE,
        "catalog_roles: {lake: [extra, analyst]}\n"
        "principal_roles: {analysts: {lake: [extra]}, more: {lake: [loader]}}\n"
        "principals: {corp/alice: {roles: [more, analysts]}}",
    )
    rights = state.rights(ALICE, state.catalogs["lake"])
    assert rights is not None
    names = {state.catalogs["lake"].roles[role] for role in rights.roles}
    assert names == {"analyst", "extra", "loader"}
    assert state.principals["corp/alice"] == ("analysts", "more")


def test_role_ids_of_two_catalogs_differ() -> None:
    """Equal names in two catalogs are two roles."""
    state = load(BASE, "catalogs: {hr: {storages: [aws], roots: [s3://lake/hr]}}\ncatalog_roles: {hr: [analyst]}")
    assert not state.catalogs["lake"].roles.keys() & state.catalogs["hr"].roles.keys()


def test_what_callers_are_offered_is_said_by_the_catalog_and_by_their_roles() -> None:
    """Partners would get keys because a catalog's own jobs do, or jobs none because they are partners as well."""
    signs, vends = Delegation.REMOTE_SIGNING, Delegation.VENDED_CREDENTIALS
    plain = load(BASE)
    assert plain.delegation_of(ALICE, plain.catalogs["lake"]) == (signs,)
    roles = (
        "catalogs: {other: {storages: [aws], delegation: [vended-credentials]}}\n"
        "principal_roles: {jobs: {lake: []}, partners: {lake: []}}\n"
        "delegation: {jobs: {lake: [remote-signing, vended-credentials]}, partners: {lake: [remote-signing], other: []}}"
    )
    state = load(BASE.replace("remote_signing: true}", "remote_signing: true, delegation: []}"), roles)
    lake, other = state.catalogs["lake"], state.catalogs["other"]
    cases: tuple[tuple[tuple[str, ...], set[Delegation], set[Delegation]], ...] = (
        ((), set(), {vends}),
        (("jobs",), {signs, vends}, {vends}),
        (("partners",), {signs}, set()),
        (("partners", "jobs"), {signs, vends}, set()),
        # A role that the policy does not know says nothing.
        (("made-up",), set(), {vends}),
    )
    for held, in_lake, in_other in cases:
        caller = Principal("corp/bob", "corp", "bob", 4e9, held)
        assert set(state.delegation_of(caller, lake)) == in_lake
        assert set(state.delegation_of(caller, other)) == in_other


def test_a_bare_principal_needs_a_single_issuer() -> None:
    """With one issuer the short form is enough; the settings say how many there are."""
    state = load(BASE, "principals: {bob: {roles: [analysts]}}", single_issuer=True)
    assert state.rights(Principal("any/bob", "any", "bob", 4e9), state.catalogs["lake"]) is not None


@pytest.mark.parametrize("nothing", ("", "\n\n", "# the team's policy\n"))
def test_a_file_that_holds_nothing_is_refused(nothing: str) -> None:
    """A file that is being written begins so; taken over, it would refuse every request."""
    assert faults(nothing) == ["0.yaml: holds nothing; write {} if that is meant"]
    assert faults(BASE, nothing) == ["1.yaml: holds nothing; write {} if that is meant"]


@pytest.mark.parametrize(
    ("more", "default"),
    (
        ("{}", "lake"),
        ("catalogs: {hr: {storages: [aws], roots: [s3://lake/hr]}}", ""),
        ("catalogs: {hr: {storages: [aws], roots: [s3://lake/hr]}}\ndefault_catalog: hr", "hr"),
    ),
)
def test_the_only_catalog_is_the_default(more: str, default: str) -> None:
    """With two catalogs it is not guessed which one is meant."""
    assert load(BASE, more).default_catalog == default


def test_without_a_default_an_entry_must_name_its_catalog() -> None:
    """A table in the wrong catalog is another table."""
    more = f"catalogs: {{hr: {{storages: [aws], roots: [s3://lake/hr]}}}}\ntables:\n{TABLE}"
    assert faults(BASE, more) == ["1.yaml: tables[0]: this key is missing, and there is no default catalog"]


def test_overlap_is_allowed_where_the_catalog_says_so() -> None:
    """Shared data paths exist; then every owner is asked, and lists do not reach into nested tables."""
    text = 'tables: [{namespace: a, name: t, location: "s3://lake/wh/t"}, {namespace: a, name: u, location: "s3://lake/wh/t/u"}]'
    catalog = load(BASE.replace("remote_signing: true}", "remote_signing: true, overlap: allowed}"), text).catalogs[
        "lake"
    ]
    assert [table.name for table in catalog.locations.owners("lake", "wh/t/u/f")] == ["t", "u"]
    reached = catalog.locations.reached("lake", "wh/t/", catalog.locations.owners("lake", "wh/t/"))
    assert reached is not None
    assert reached.name == "u"


def test_storages_are_checked_against_the_settings() -> None:
    """A storage without credentials, or with a host that its keys are not meant for, must not pass."""
    seen: list[str] = []

    def check(storages: object) -> list[Finding]:
        assert isinstance(storages, dict)
        seen.extend(storages)
        return [Finding("settings.yaml", "storages.aws", "not bound")]

    with pytest.raises(PolicyInvalid, match="not bound"):
        MemoryPolicySource(BASE, check).load(1)
    assert seen == ["aws"]


def test_the_revision_changes_with_the_meaning_only() -> None:
    """Dashboards and cached answers hang on the revision: a comment must not change it, a grant must."""
    plain = load(BASE, f"tables:\n{TABLE}").rev
    assert load("# said twice\n" + BASE, f"tables:\n{TABLE}").rev == plain
    assert load(BASE, f"tables:\n{TABLE.replace('orders,', 'order2,')}").rev != plain
    assert len(plain) == 16
    inventory = '{"kind":"grant","role":"analyst","privileges":["TABLE_CREATE"]}\n'
    first = load(BASE, "inventories: [a.ndjson]", a=inventory).rev
    assert first != load(BASE, "inventories: [a.ndjson]", a=inventory.replace("CREATE", "READ_DATA")).rev
    assert first != load(BASE, "inventories: [b.ndjson]", b=inventory).rev
