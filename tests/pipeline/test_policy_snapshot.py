"""What an export says: which grants stand, since when, and who has them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from signproxy.errors import Invalid
from signproxy.pipeline.policy_snapshot import exports_of, grants_in, held_grants, read_lines, tables_in
from tests.pipeline.event_rows import grant, grants


def export(path: Path, at: str, *lines: dict[str, Any], schema: str = "signproxy.policy-export/1") -> str:
    head = {"kind": "policy", "schema": schema, "policy_rev": path.stem, "exported_at": at}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (head, *lines)))
    return str(path)


def line(grant_id: str, **fields: Any) -> dict[str, Any]:
    ordinary = {
        "kind": "grant",
        "grant_id": grant_id,
        "principal": "idp/ann",
        "via_role": "reader",
        "privilege": "TABLE_READ_DATA",
        "resource": "catalog:lake",
        "catalog": "lake",
    }
    return ordinary | fields


def test_a_grant_is_as_old_as_the_first_export_that_has_it(spark: SparkSession, tmp_path: Path) -> None:
    """A policy does not know since when it says something; every grant would be young for ever, or never."""
    paths = [
        export(tmp_path / "b.ndjson", "2026-11-10T00:00:00Z", line("old"), line("mid"), line("gone")),
        export(tmp_path / "a.ndjson", "2026-11-01T00:00:00Z", line("old")),
        export(
            tmp_path / "c.ndjson",
            "2026-11-20T06:00:00Z",
            *(line(name) for name in ("old", "mid", "new", "before")),
            line("told", granted_at="2026-08-01T00:00:00Z"),
            {"kind": "table", "catalog": "lake", "namespace": "sales", "table": "t", "locations": ["s3://lake/t"]},
        ),
    ]
    lines = read_lines(spark, paths)
    exports = exports_of(lines)
    assert [one.policy_rev for one in exports] == ["a", "b", "c"]
    known = grants(spark, grant("before", "X", granted_at=datetime(2026, 10, 5, tzinfo=UTC)))

    def since(day: date | None) -> dict[str, str]:
        found = grants_in(lines, exports, known, day).collect()
        assert {str(row["event_date"]) for row in found} == {"2026-11-20"}
        return {row["grant_id"]: f"{row['granted_at']:%m-%d %H}" for row in found}

    expected = {"old": "11-01 00", "mid": "11-10 00", "new": "11-20 06", "told": "08-01 00", "before": "10-05 00"}
    assert since(None) == expected
    # What the very first export has may be as old as the operator knows; what came later is not.
    assert since(date(2026, 1, 1)) == expected | {"old": "01-01 00"}
    assert [row["table"] for row in tables_in(lines, exports[-1]).collect()] == ["t"]


def test_other_files_are_no_exports(spark: SparkSession, tmp_path: Path) -> None:
    """A policy that was read by half, or by other rules, would make grants look withdrawn."""
    with pytest.raises(Invalid, match="signproxy policy export"):
        read_lines(spark, [])
    other = export(tmp_path / "a.ndjson", "2026-11-01T00:00:00Z", schema="signproxy.policy-export/2")
    with pytest.raises(Invalid, match="policy-export/2' is not known"):
        exports_of(read_lines(spark, [other]))
    (tmp_path / "b.ndjson").write_text('{"kind": "other"}\n')
    with pytest.raises(Invalid, match="holds no export"):
        exports_of(read_lines(spark, [str(tmp_path / "b.ndjson")]))
    (tmp_path / "c.ndjson").write_text("{ cut\n")
    with pytest.raises(Invalid, match="no line of an export"):
        exports_of(read_lines(spark, [str(tmp_path / "c.ndjson")]))


def test_roles_of_tokens_count_for_the_principal_that_came_with_them(spark: SparkSession) -> None:
    """Most principals are in no policy: their roles come with their tokens, and all they have would be missing."""
    given = grants(
        spark,
        grant("ann", "P", principal="idp/ann", principal_role="analyst"),
        grant("analyst", "P", principal=None, principal_role="analyst"),
        grant("etl", "P", principal=None, principal_role="etl"),
        grant("idle", "P", principal=None, principal_role="idle"),
        grant("nobody", "P", principal=None, principal_role=None),
    )
    came = spark.createDataFrame(
        [("idp/ann", "analyst"), ("idp/bob", "analyst"), ("idp/bob", "etl"), ("idp/bob", "unknown")],
        "principal string, principal_role string",
    )
    found = held_grants(given, came).collect()
    assert sorted((row["principal"] or "", row["principal_role"] or "") for row in found) == [
        ("", ""),
        ("", "idle"),
        ("idp/ann", "analyst"),
        ("idp/bob", "analyst"),
        ("idp/bob", "etl"),
    ]
    ids = {row["principal"]: row["grant_id"] for row in found if row["principal_role"] == "analyst"}
    assert ids["idp/ann"] == "ann"
    assert len({row["grant_id"] for row in found}) == 5
