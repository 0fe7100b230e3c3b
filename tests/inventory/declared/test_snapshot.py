"""Prove that a large inventory is read line by line, and that a bad line is named."""

from __future__ import annotations

import hashlib
import io

import pytest

from signproxy.inventory.declared import snapshot
from signproxy.inventory.declared.document import GrantLine, TableLine
from signproxy.inventory.declared.findings import Findings
from signproxy.policy.privileges import mask_of
from tests.inventory.policy_text import BASE, faults, load

TABLE = '{"kind":"table","namespace":"a","name":"t","location":"s3://lake/wh/t"}'
GRANT = '{"kind":"grant","role":"loader","namespace":["a"],"table":"t","privileges":["TABLE_READ_DATA"]}'
WITH = "inventories: [big.ndjson]"


@pytest.mark.parametrize(
    "text", (f"{TABLE}\n{GRANT}\n", f"{GRANT}\n{TABLE}", f"\n{TABLE}\n  \n{GRANT}\n\n", f"{TABLE}\r\n{GRANT}")
)
def test_tables_and_grants_come_in_any_order(text: str) -> None:
    """A dump of a catalog has the order of its database."""
    catalog = load(BASE, WITH, big=text).catalogs["lake"]
    table = catalog.table("a", "t")
    assert table is not None
    loader = next(role for role, name in catalog.roles.items() if name == "loader")
    assert table.grants == {loader: mask_of(["TABLE_READ_DATA"])}


def test_a_policy_file_may_grant_on_what_an_inventory_declares() -> None:
    """People write the grants of a namespace, a program writes its tables."""
    given = """
inventories: [big.ndjson]
grants:
- {role: analyst, namespace: a, privileges: [TABLE_CREATE]}
- {role: analyst, namespace: a, table: t, privileges: [TABLE_WRITE_DATA]}
"""
    catalog = load(BASE, given, big=TABLE).catalogs["lake"]
    table = catalog.table("a", "t")
    assert table is not None
    assert set(table.grants.values()) == {mask_of(["TABLE_CREATE", "TABLE_WRITE_DATA"])}


@pytest.mark.parametrize(
    ("line", "fault"),
    (
        ("{", "line 3: "),
        ("nonsense", "line 3: "),
        ("[]", "line 3: "),
        ('{"kind":"view"}', "line 3.kind: "),
        ('{"name":"t"}', "line 3.kind: "),
        ('{"kind":"table","namespace":"a","name":"u"}', "line 3.location: this key is missing"),
        (TABLE.replace('"name"', '"nam"'), "line 3.nam: unknown key (did you mean 'name'?)"),
        (TABLE.replace('"t"', "5"), "line 3.name: "),
        (TABLE, "line 3: table a.t is declared twice"),
        (TABLE.replace('"t"', '"u"').replace("lake/wh", "laek/wh"), "line 3.location: no storage"),
        (GRANT.replace("loader", "loder"), "line 3.role: catalog 'lake' has no role 'loder' (did you mean 'loader'?)"),
        (GRANT.replace('"t"', '"u"'), "line 3: unknown table 'a.u'"),
        ('{"kind":"table","namespace":"a","name":"\udcff","location":"s3://lake/wh/u"}', "line 3: "),
    ),
)
def test_a_bad_line_is_named(line: str, fault: str) -> None:
    """A fault in a million lines is not found without its number."""
    data = f"{TABLE}\n\n{line}\n{GRANT}\n".encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    found = faults(BASE, WITH, big=data) if line.isprintable() else _faults_of_bytes(data)
    assert any(told.startswith(f"big.ndjson: {fault}") for told in found), found


def _faults_of_bytes(data: str) -> list[str]:
    findings = Findings()
    stream = io.BytesIO(data.encode("utf-8", "surrogateescape"))
    list(snapshot.read_inventory("big.ndjson", stream, hashlib.sha256().update, findings))
    return [str(finding) for finding in findings._found]


def test_a_clash_between_lines_is_named() -> None:
    """Both tables and the line of the one that came into the other are told."""
    twin = TABLE.replace('"t"', '"u"').replace("wh/t", "wh/t/u")
    assert faults(BASE, WITH, big=f"{GRANT}\n{TABLE}\n{twin}\n") == [
        "big.ndjson: line 3: table 'lake.a.u': 's3://lake/wh/t/u' nests in, or equals, a location of table 'lake.a.t'"
    ]
    elsewhere = TABLE.replace('"table"', '"table","catalog":"lake"')
    assert faults(BASE, WITH, big=f"{elsewhere}\n{twin}\n") != []


def test_lines_are_put_together_over_the_edges_of_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that straddles two pieces must be neither lost nor read twice."""
    text = f"{TABLE}\n{GRANT}\n\n{TABLE}"
    for size in range(1, 90):
        monkeypatch.setattr(snapshot, "_PIECE", size)
        digest = hashlib.sha256()
        lines = list(snapshot.read_inventory("x", io.BytesIO(text.encode()), digest.update, Findings()))
        assert [(number, type(line)) for number, line in lines] == [(1, TableLine), (2, GrantLine), (4, TableLine)]
        assert digest.digest() == hashlib.sha256(text.encode()).digest()


@pytest.mark.parametrize(("length", "told"), ((0, []), (1, ["x: line 2: longer than 100 bytes"])))
def test_an_endless_line_ends_the_reading(monkeypatch: pytest.MonkeyPatch, length: int, told: list[str]) -> None:
    """A binary file must not be gathered in memory."""
    monkeypatch.setattr(snapshot, "_PIECE", 10)
    monkeypatch.setattr(snapshot, "MAX_LINE", 100)
    findings = Findings()
    text = b"\n" + b" " * (100 + length)
    assert list(snapshot.read_inventory("x", io.BytesIO(text), hashlib.sha256().update, findings)) == []
    assert [str(finding) for finding in findings._found] == told
