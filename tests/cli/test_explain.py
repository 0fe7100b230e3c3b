"""`signproxy explain`: the decision of the server, check by check, for a request that an operator describes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from signproxy.cli import main
from tests.cli.conftest import ENDPOINT, TABLE

READ = ("--uri", f"{TABLE}/data/a.parquet")
WRITE = (*READ, "--method", "PUT")


def explain(installation: Path, *words: str) -> int:
    return main(["explain", "--config", str(installation), *words])


def explained(installation: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    code = explain(installation, *words, "--json")
    captured = capsys.readouterr()
    assert captured.err == ""
    found = json.loads(captured.out)
    assert isinstance(found, dict)
    assert code == (0 if found["decision"] == "allow" else 3)
    return found


@pytest.mark.parametrize(
    ("words", "reason"),
    (
        (("--principal", "idp/ann", *READ), "allowed"),
        (("--principal", "idp/ann", *WRITE), "no_write_data"),
        (("--principal", "idp/bob", *READ), "principal_unknown"),
        (("--principal", "idp/bob", "--roles", "analyst", *READ), "allowed"),
        # The issuer may speak for `analyst` alone.
        (("--principal", "idp/bob", "--roles", "etl", *READ), "principal_unknown"),
        # A static token brings the roles of the settings, whatever is claimed.
        (("--principal", "static/robot", *WRITE), "allowed"),
        (("--principal", "static/other", *WRITE), "principal_unknown"),
        (("--principal", "idp/ann", "--namespace", "sales", "--table", "orders", *READ), "allowed"),
        (("--principal", "idp/ann", "--namespace", "sales", "--table", "items", *READ), "table_unknown"),
        (("--principal", "idp/ann", "--uri", f"{ENDPOINT}/acme-lake/warehouse/x/f"), "location_unowned"),
        (("--principal", "idp/ann", "--uri", f"{TABLE}/metadata/v1.metadata.json"), "metadata_protected"),
        (("--principal", "idp/ann", "--uri", "https://elsewhere.example/acme-lake/f"), "endpoint_unknown"),
        (("--principal", "idp/ann", "--uri", f"{TABLE}/../f"), "key_dot_segment"),
        (("--principal", "idp/ann", "--uri", "no uri"), "uri_malformed"),
        (("--principal", "idp/ann", *READ, "--region", "us-east-1"), "region_mismatch"),
        (("--principal", "idp/ann", *READ, "--catalog", "lak"), "catalog_unknown"),
        (("--principal", "idp/ann", *READ, "--prefix", "lake"), "allowed"),
        (("--principal", "idp/ann", *READ, "--method", "PATCH"), "method_unknown"),
        (("--principal", "idp/ann", *READ, "--header", "X-Amz-Acl: public-read"), "header_value"),
        (("--principal", "idp/ann", *READ, "--header", "Range: bytes=0-1", "--header", "Accept: */*"), "allowed"),
        (("--principal", "idp/ann", *READ, "--header", "Accept: a", "--header", "accept: b"), "header_repeated"),
    ),
)
def test_the_verdict_is_the_servers(
    words: tuple[str, ...], reason: str, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Operators would mend what is not broken."""
    found = explained(installation, capsys, *words)
    assert found["reason"] == reason
    assert found["decision"] == ("allow" if reason == "allowed" else "deny")
    assert reason == "allowed" or found["fix"]


@pytest.mark.parametrize(
    ("words", "reason"),
    (
        (("--uri", "s3://acme-lake/warehouse/sales/orders/data/a.parquet"), "allowed"),
        (("--uri", "s3://acme-lake/warehouse/sales/orders/data/a.parquet", "--method", "PUT"), "no_write_data"),
        (("--uri", "s3://acme-lake?list-type=2&prefix=warehouse/x/"), "location_unowned"),
        (("--uri", "s3://acme-lake", "--method", "HEAD"), "allowed"),
        (("--uri", "s3://elsewhere/a", "--header", "Range: bytes=0-1"), "endpoint_unknown"),
    ),
)
def test_the_s3_listener_is_explained_too(
    words: tuple[str, ...], reason: str, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client that speaks S3 names neither a store nor a table, and its denials are as hard to guess."""
    assert explained(installation, capsys, "--principal", "idp/ann", *words)["reason"] == reason


def test_a_request_to_the_s3_listener_names_no_table(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator who names one would be told of a decision that is never made."""
    words = ("--principal", "idp/ann", "--uri", "s3://acme-lake/a", "--catalog", "lake")
    assert explain(installation, *words) == 1
    assert "names no catalog and no table" in capsys.readouterr().err


def test_people_read_it_check_by_check(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A denial could not be acted on."""
    assert explain(installation, "--principal", "idp/ann", *WRITE) == 3
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert any(line.startswith("\u2713 operation") and "PutObject" in line for line in lines)
    assert any(line.startswith("\u2717 privilege") and "TABLE_WRITE_DATA" in line for line in lines)
    assert any(line.startswith("\u2013 location") for line in lines)
    assert "deny: no_write_data (HTTP 403)" in out
    assert "the caller is told: Insufficient privileges" in out
    assert "fix: " in out


def test_an_allowed_request_names_its_rule(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An auditor could not see what opened the door."""
    assert explain(installation, "--principal", "idp/ann", *READ) == 0
    out = capsys.readouterr().out
    assert "allow: allowed" in out
    assert "rule: reader@" in out
    assert "\u2717" not in out


def test_a_bare_terminal_gets_words(
    installation: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal without UTF-8 would show question marks."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    assert explain(installation, "--principal", "idp/ann", *WRITE) == 3
    stream.flush()
    shown = stream.buffer.getvalue().decode("ascii")
    assert "NO privilege" in shown
    assert "ok operation" in shown
    assert "-- location" in shown


def test_a_clients_own_message_can_be_explained(
    installation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sign request from a trace would have to be taken apart."""
    message = {
        "region": "eu-central-1",
        "uri": f"{TABLE}/data/a.parquet",
        "method": "GET",
        "headers": {"Host": ["127.0.0.1:9000"], "x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]},
        "body": None,
        "provider": "s3",
        "properties": {},
    }
    file = tmp_path / "request.json"
    file.write_text(json.dumps(message))
    words = ("--request", str(file), "--principal", "idp/ann")
    assert explained(installation, capsys, *words)["reason"] == "allowed"
    # An option wins over the file.
    assert explained(installation, capsys, *words, "--method", "PUT")["reason"] == "no_write_data"
    file.write_text(json.dumps(message | {"principal": "static/robot", "namespace": ["sales"], "table": "orders"}))
    assert explained(installation, capsys, "--request", str(file), "--method", "PUT")["reason"] == "allowed"


def test_the_body_of_a_bulk_delete_is_judged(
    installation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The keys that decide are in the body."""
    body = tmp_path / "delete.xml"
    words = ("--principal", "static/robot", "--method", "POST", "--uri", f"{ENDPOINT}/acme-lake?delete")
    assert explained(installation, capsys, *words)["reason"] == "delete_without_body"
    for key, reason in (("warehouse/sales/orders/data/f", "allowed"), ("warehouse/sales/f", "location_unowned")):
        body.write_text(f"<Delete><Object><Key>{key}</Key></Object></Delete>")
        assert explained(installation, capsys, *words, "--body", str(body))["reason"] == reason


@pytest.mark.parametrize(
    ("words", "told"),
    (
        (("--principal", "idp/ann"), "command line: uri: this key is missing"),
        (READ, "command line: principal: this key is missing"),
        (("--principal", "ipd/ann", *READ), "'ipd/ann' is not issuer/claim of an issuer (did you mean 'idp'?)"),
        (("--principal", "ann", *READ), "'ann' is not issuer/claim of an issuer; known: idp, static"),
        (("--principal", "idp/ann", *READ, "--table", "orders"), "namespace and table go together"),
        (("--principal", "idp/ann", *READ, "--header", "Accept"), "--header: NAME:VALUE expected, got 'Accept'"),
        (("--principal", "idp/ann", *READ, "--body", "missing.xml"), "missing.xml: cannot be read"),
        (("--principal", "idp/ann", "--request", "missing.json"), "missing.json: cannot be read"),
    ),
)
def test_a_question_that_is_none_is_told(
    words: tuple[str, ...], told: str, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some other request would be explained."""
    assert explain(installation, *words) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    (
        ("[]", "request.json: an object with uri, method and headers expected"),
        ('{"uri": "x", "principal": "idp/ann", "metod": "GET"}', "metod: unknown key (did you mean 'method'?)"),
        ('{"uri": ["x"], "principal": "idp/ann"}', "uri: text expected, got a list"),
        ("{", "line "),
    ),
)
def test_a_request_file_that_is_none_is_told(
    text: str, told: str, installation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped key would be ignored, and another request explained."""
    file = tmp_path / "request.json"
    file.write_text(text)
    assert explain(installation, "--request", str(file)) == 1
    assert told in capsys.readouterr().err


def test_a_key_cannot_act_on_the_terminal(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file name made for it would rewrite the operator's screen."""
    uri = f"{ENDPOINT}/acme-lake/warehouse/x/%E2%80%AE%F0%9F%A6%86gpj"
    assert explain(installation, "--principal", "idp/ann", "--uri", uri) == 3
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def test_the_only_issuer_may_be_left_out(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The policy's `ann` could not be asked about as the policy names her."""
    settings = installation.read_text()
    before, _, rest = settings.partition("  static_tokens:")
    installation.write_text(before + rest[rest.index("credentials:") :])
    assert explained(installation, capsys, "--principal", "ann", *READ)["reason"] == "allowed"
