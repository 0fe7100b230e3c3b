"""`signproxy policy export` and `signproxy policy patch`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli import main


def export(installation: Path, capfd: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["policy", "export", "--config", str(installation), *words]) == 0
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def of_kind(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == kind]


def add(installation: Path, text: str) -> None:
    policy = installation.with_name("policy.yaml")
    policy.write_text(policy.read_text() + text)


def patch(tmp_path: Path, **parts: Any) -> str:
    path = tmp_path / "patch.yaml"
    path.write_text(json.dumps({"schema": "signproxy.policy-patch/1", **parts}))
    return str(path)


def test_the_export_says_which_policy_it_is(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Grants would be judged as if they stood in another policy."""
    lines = export(installation, capfd)
    head = lines[0]
    assert (head["kind"], head["schema"]) == ("policy", "signproxy.policy-export/1")
    assert main(["check-config", "--config", str(installation), "--json"]) == 0
    assert head["policy_rev"] == json.loads(capfd.readouterr().out)["policy_rev"]


def test_tables_come_with_where_they_lie(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What a vended key reaches could not be held against the tables."""
    add(installation, "inventories: [more.ndjson]\n")
    line = {
        "kind": "table",
        "namespace": ["eu.west", "b"],
        "name": "t",
        "location": "s3://acme-lake/x/t",
        "uuid": "u-1",
        "locations": ["s3://acme-lake/old/t"],
    }
    installation.with_name("more.ndjson").write_text(json.dumps(line) + "\n")
    tables = of_kind(export(installation, capfd), "table")
    assert tables == [
        {
            "kind": "table",
            "catalog": "lake",
            "namespace": "sales",
            "table": "orders",
            "locations": ["s3://acme-lake/warehouse/sales/orders"],
        },
        {
            "kind": "table",
            "catalog": "lake",
            "namespace": "eu.west\x1fb",
            "table": "t",
            "uuid": "u-1",
            "locations": ["s3://acme-lake/x/t", "s3://acme-lake/old/t"],
        },
    ]


def test_each_principal_has_a_line_for_each_privilege(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What one principal uses of a role could not be told from what another does."""
    lines = export(installation, capfd)
    assert of_kind(lines, "principal") == [{"kind": "principal", "principal": "idp/ann", "roles": ["analyst"]}]
    told = [
        (line.get("principal"), line.get("principal_role"), line["via_role"], line["privilege"], line["resource"])
        for line in of_kind(lines, "grant")
    ]
    assert told == [
        (None, "analyst", "reader", "TABLE_REMOTE_SIGN", "catalog:lake"),
        (None, "analyst", "reader", "TABLE_READ_DATA", "catalog:lake"),
        (None, "etl", "reader", "TABLE_REMOTE_SIGN", "catalog:lake"),
        (None, "etl", "reader", "TABLE_READ_DATA", "catalog:lake"),
        ("idp/ann", "analyst", "reader", "TABLE_REMOTE_SIGN", "catalog:lake"),
        ("idp/ann", "analyst", "reader", "TABLE_READ_DATA", "catalog:lake"),
        (None, "etl", "writer", "TABLE_WRITE_DATA", "catalog:lake"),
    ]
    ids = [line["grant_id"] for line in of_kind(lines, "grant")]
    assert len(set(ids)) == len(ids)
    assert ids == [line["grant_id"] for line in of_kind(export(installation, capfd), "grant")]


def test_securables_are_named_as_events_name_them(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A grant would never meet the events that stood on it."""
    policy = installation.with_name("policy.yaml")
    policy.write_text(
        policy.read_text().replace("s: {lake: [reader, writer]}", "s: {lake: [reader, writer, alone]}")
        + "  - {role: alone, namespace: sales, privileges: [TABLE_LIST]}\n"
        + "  - {role: alone, namespace: sales, table: orders, privileges: [TABLE_DROP]}\n"
        + "  - {role: alone, volume: stage, privileges: [VOLUME_READ_DATA]}\n"
        + "volumes: [{name: stage, storage: main, bucket: acme-lake, prefix: stage}]\n"
    )
    lines = [line for line in of_kind(export(installation, capfd), "grant") if line["via_role"] == "alone"]
    # No principal has the role, and nothing poses as one that has.
    assert [line.get("principal", line.get("principal_role")) for line in lines] == [None, None, None]
    assert [line["resource"] for line in lines] == [
        "namespace:lake.sales",
        "table:lake.sales.orders",
        "volume:lake.stage",
    ]
    assert (lines[1]["namespace"], lines[1]["table"], lines[2]["volume"]) == ("sales", "orders", "stage")


def test_a_bare_name_is_told_in_full(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Events have the issuer before the claim; the grants of a bare name would look unused."""
    settings = installation.read_text()
    start = settings.index("  static_tokens:")
    installation.write_text(settings[:start] + settings[settings.index("credentials:") :])
    policy = installation.with_name("policy.yaml")
    policy.write_text(policy.read_text().replace("idp/ann", "ann"))
    lines = export(installation, capfd)
    assert of_kind(lines, "principal")[0]["principal"] == "idp/ann"
    assert {line.get("principal") for line in of_kind(lines, "grant")} == {None, "idp/ann"}


def test_a_policy_with_a_fault_is_not_exported(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Half of a policy would make the grants of the other half look withdrawn."""
    add(installation, "  - {role: nobody, privileges: [TABLE_LIST]}\n")
    out = installation.with_name("out.ndjson")
    assert main(["policy", "export", "--config", str(installation), "--output", str(out)]) == 1
    assert "has no role 'nobody'" in capfd.readouterr().err
    assert not out.exists()


def test_an_export_is_written_wholly(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A job that begins in between would read half of it."""
    out = installation.with_name("out.ndjson")
    assert main(["policy", "export", "--config", str(installation), "--output", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 10
    assert main(["policy", "export", "--config", str(installation), "--output", str(out / "x")]) == 1
    assert "cannot be written" in capfd.readouterr().err


MORE = """\
  # Of the team that left.
  - role: reader
    namespace: sales   # all of it
    privileges:
      - TABLE_LIST
      - TABLE_DROP

  - {role: reader, namespace: sales, table: orders, privileges: [TABLE_DROP]}   # a remark
"""


def difference(installation: Path, capfd: pytest.CaptureFixture[str], patched: str) -> list[str]:
    capfd.readouterr()
    assert main(["policy", "patch", "--config", str(installation), patched]) == 0
    lines = capfd.readouterr().out.splitlines()
    return [line for line in lines if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))]


def test_a_patch_is_shown_and_changes_nothing(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A recommendation would take effect before an operator agreed."""
    add(installation, MORE)
    before = installation.with_name("policy.yaml").read_bytes()
    patched = patch(
        installation.parent,
        withdraw=[
            {"catalog": "lake", "role": "reader", "namespace": ["sales"], "privileges": ["TABLE_DROP"]},
            {
                "catalog": "lake",
                "role": "reader",
                "namespace": ["sales"],
                "table": "orders",
                "privileges": ["TABLE_DROP"],
                "reason": "none of 3 principals used it in 90 days",
            },
            {"catalog": "lake", "role": "reader", "privileges": ["TABLE_REMOTE_SIGN"]},
        ],
        take=[{"principal": "idp/ann", "role": "analyst"}],
    )
    assert difference(installation, capfd, patched) == [
        "-  idp/ann: {roles: [analyst]}",
        "+  idp/ann: {roles: []}",
        "-  - {role: reader, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}",
        "+  - {role: reader, privileges: [TABLE_READ_DATA]}",
        "-    privileges:",
        "-      - TABLE_LIST",
        "-      - TABLE_DROP",
        "+    privileges: [TABLE_LIST]",
        "-  - {role: reader, namespace: sales, table: orders, privileges: [TABLE_DROP]}   # a remark",
    ]
    assert installation.with_name("policy.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("grants", "left"),
    (
        ("grants: [{role: reader, privileges: [TABLE_LIST]}, {role: writer, privileges: [TABLE_LIST]}]\n",
         "grants: [{role: writer, privileges: [TABLE_LIST]}]\n"),
        ("grants: [{role: reader, privileges: [TABLE_LIST]}]\n", "grants: []\n"),
        ("grants:\n- role: reader\n  privileges:\n  - TABLE_LIST\n# last\n", "grants: []\n# last\n"),
        ("grants:\n- role: reader\n  privileges: [TABLE_LIST]\n- {role: writer, privileges: [TABLE_LIST]}",
         "grants:\n- {role: writer, privileges: [TABLE_LIST]}"),
        ("grants:\n- {role: writer, privileges: [TABLE_LIST]}\n- privileges: ['TABLE_LIST']\n  'role': \"reader\"\n",
         "grants:\n- {role: writer, privileges: [TABLE_LIST]}\n"),
        ('"grants":\n  - {privileges: [TABLE_LIST, TABLE_DROP], role: reader}\n',
         '"grants":\n  - {privileges: [TABLE_DROP], role: reader}\n'),
    ),
)  # fmt: skip
def test_grants_are_taken_out_however_they_are_written(
    installation: Path, capfd: pytest.CaptureFixture[str], grants: str, left: str
) -> None:
    """A policy would have to be written in one style to be patched, or lose its comments."""
    policy = installation.with_name("policy.yaml")
    text = policy.read_text()
    head = text[: text.index("grants:")]
    policy.write_text(f"# bäume\n{head}{grants}")
    patched = patch(installation.parent, withdraw=[{"catalog": "lake", "role": "reader", "privileges": ["TABLE_LIST"]}])
    out = installation.with_name("patched")
    assert main(["policy", "patch", "--config", str(installation), patched, "--output", str(out)]) == 0
    assert (out / "policy.yaml").read_text() == f"# bäume\n{head}{left}"
    # What a start would refuse is no recommendation.
    assert main(["check-config", "--config", str(installation), "--policy", str(out / "policy.yaml")]) == 0


def test_text_that_cannot_be_edited_is_left_to_people(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An alias stands for a grant in two places; a cut through it would change both, unseen."""
    policy = installation.with_name("policy.yaml")
    text = policy.read_text()
    head = text[: text.index("grants:")]
    policy.write_text(
        f"{head}grants:\n  - {{role: reader, privileges: &all [TABLE_LIST]}}\n  - {{role: writer, privileges: *all}}\n"
    )
    patched = patch(installation.parent, withdraw=[{"catalog": "lake", "role": "reader", "privileges": ["TABLE_LIST"]}])
    assert main(["policy", "patch", "--config", str(installation), patched]) == 1
    assert "policy.yaml" in capfd.readouterr().err


def test_inventories_are_patched_line_by_line(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A million grants lie there, and not in the files that people write."""
    add(installation, "inventories: [more.ndjson]\n")
    lines = [
        '{"kind": "table", "namespace": "sales", "name": "items", "location": "s3://acme-lake/warehouse/sales/items"}',
        '{"kind": "grant", "role": "reader", "namespace": "sales", "privileges": ["TABLE_DROP"]}',
        "",
        '{"kind":"grant","role":"writer","namespace":"sales","privileges":["TABLE_LIST","TABLE_DROP"]}',
        '{"kind": "grant", "role": "writer", "namespace": "sales", "table": "items", "privileges": ["TABLE_DROP"]}',
    ]
    installation.with_name("more.ndjson").write_text("\n".join(lines))
    patched = patch(
        installation.parent,
        withdraw=[
            {"catalog": "lake", "role": role, "namespace": "sales", "privileges": ["TABLE_DROP"]}
            for role in ("reader", "writer")
        ],
    )
    assert difference(installation, capfd, patched) == [
        f"-{lines[1]}",
        f"-{lines[3]}",
        '+{"kind": "grant", "role": "writer", "namespace": "sales", "privileges": ["TABLE_LIST"]}',
    ]
    out = installation.with_name("patched")
    assert main(["policy", "patch", "--config", str(installation), patched, "--output", str(out)]) == 0
    assert main(["check-config", "--config", str(installation), "--policy", str(out / "policy.yaml")]) == 0
    # What is there already is never written over.
    assert main(["policy", "patch", "--config", str(installation), patched, "--output", str(out)]) == 1


def test_what_the_policy_does_not_hold_any_more_is_told(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An operator would believe that a grant is gone which stands under another name."""
    patched = patch(
        installation.parent,
        policy_rev="0123456789abcdef",
        withdraw=[{"catalog": "lake", "role": "reader", "namespace": ["a", "b"], "privileges": ["TABLE_LIST"]}],
        take=[{"principal": "idp/bob", "role": "analyst"}],
    )
    assert main(["policy", "patch", "--config", str(installation), patched]) == 0
    told = capfd.readouterr().err
    assert "the patch is of policy 0123456789abcdef" in told
    assert "TABLE_LIST of role 'reader' on 'lake.a.b' is not granted there" in told
    assert "principal 'idp/bob' does not have role 'analyst' by the policy" in told


def test_a_file_of_another_kind_is_no_patch(installation: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A policy that is given as its own patch would look like one that takes nothing."""
    path = installation.with_name("other.yaml")
    path.write_text("schema: other/1\n")
    assert main(["policy", "patch", "--config", str(installation), str(path)]) == 1
    assert "signproxy.policy-patch/1 expected" in capfd.readouterr().err
