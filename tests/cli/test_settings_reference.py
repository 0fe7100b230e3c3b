"""The reference page and the JSON Schema of the settings say what the code does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli import main
from signproxy.config import load_settings
from signproxy.config.difference import RELOADABLE
from signproxy.documents import load_yaml
from signproxy.errors import SettingsInvalid
from tools.docs.generate import DOCS
from tools.docs.settings import EXAMPLE, page

SCHEMA = json.loads((DOCS / "settings.schema.json").read_text())


KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
WORDS = {
    *("$ref", "$defs", "$schema", "$comment", "title", "description", "default", "type", "properties", "required"),
    *(
        "additionalProperties",
        "propertyNames",
        "items",
        "minItems",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
    ),
    *("enum", "anyOf", "exclusiveMinimum"),
}


def faults(schema: Mapping[str, Any], value: object, path: str = "") -> Iterator[str]:
    """Yield where a value is not what the schema says: the part of JSON Schema that it uses, and nothing else."""
    assert set(schema) <= WORDS
    if "$ref" in schema:
        yield from faults(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], value, path)
    if "anyOf" in schema and all(any(faults(each, value, path)) for each in schema["anyOf"]):
        yield f"{path}: none of the alternatives"
    kind = schema.get("type")
    if kind and (not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{path}: no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: none of those listed"
    yield from _object(schema, value, path) if isinstance(value, dict) else _plain(schema, value, path)


def _plain(schema: Mapping[str, Any], value: object, path: str) -> Iterator[str]:
    match value:
        case list():
            if len(value) < schema.get("minItems", 0):
                yield f"{path}: too few"
            for index, each in enumerate(value):
                yield from faults(schema.get("items", {}), each, f"{path}[{index}]")
        case str():
            fits = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
            if not fits or not re.search(schema.get("pattern", ""), value):
                yield f"{path}: of another form"
        case int() | float():
            if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
                yield f"{path}: out of range"
            if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
                yield f"{path}: too little"
        case _:
            pass


def _object(schema: Mapping[str, Any], value: dict[str, object], path: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    yield from (f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value)
    for name, each in value.items():
        yield from faults(schema.get("propertyNames", {}), name, f"{path}.{name}")
        if name in properties:
            yield from faults(properties[name], each, f"{path}.{name}")
        elif others is False:
            yield f"{path}.{name}: unknown"
        elif isinstance(others, dict):
            yield from faults(others, each, f"{path}.{name}")


def test_what_the_page_shows_fits_the_schema() -> None:
    """An editor would mark the example of the documentation as wrong."""
    assert list(faults(SCHEMA, load_yaml(EXAMPLE, ""))) == []


def test_what_print_config_prints_fits_the_schema(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An editor would mark signproxy's own output as wrong; and a default would be out of its bounds."""
    for words in (["--defaults"], ["--config", str(installation)]):
        assert main(["print-config", *words]) == 0
        assert list(faults(SCHEMA, load_yaml(capsys.readouterr().out, ""))) == []


@pytest.mark.parametrize(
    "text",
    (
        "listn: {}",
        "listen: {prot: 1}",
        "listen: {port: 65536}",
        "listen: {port: '1'}",
        "listen: {tcp: 1}",
        "listen: {socket_mode: '999'}",
        "listen: []",
        "loop: fast",
        "workers: 0",
        "workers: true",
        "reload: {poll_seconds: -0.5}",
        "identity: {issuers: {a: {issuer: i}}}",
        "identity: {issuers: {a: {issuer: i, audiences: []}}}",
        "identity: {issuers: {a: {issuer: i, audiences: [x], catalogs: 7}}}",
        "identity: {static_tokens: [{sha256: x, principal: p}]}",
        "storages: {a: {credentials: '', hosts: [h]}}",
        "storages: {'': {credentials: p, hosts: [h]}}",
        "credentials: {providers: {p: {class: static, properties: {a: 1}}}}",
    ),
)
def test_the_schema_refuses_what_the_server_refuses(text: str, tmp_path: Path) -> None:
    """An editor would be content with a file that cannot start."""
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(file, {})
    assert any(finding.path and finding.path != "policy.path" for finding in caught.value.findings)
    assert list(faults(SCHEMA, load_yaml(text, "")))


def test_the_page_says_when_a_setting_takes_effect() -> None:
    """An operator would restart for nothing, or wait for ever."""
    rows = dict(_rows(page()))
    assert rows["listen.port"][2:4] == ["`8181`", "restart"]
    assert rows["listen.tls.cert_file"][3] == "reload"
    assert rows["identity.issuers.<name>.audiences"][3] == "reload"
    assert rows["limits.burst"][3] == "reload"
    assert rows["audit.queue"][3] == "restart"
    assert {row[3] for row in rows.values()} == {"reload", "restart"}
    for reloadable in RELOADABLE:
        assert any(f"{path}.".startswith(f"{reloadable}.") for path in rows), reloadable


def test_the_page_names_bounds_and_variables() -> None:
    """An operator would find them by trying."""
    rows = dict(_rows(page()))
    assert rows["workers"][1] == "whole number, 1 to 256"
    assert rows["reload.poll_seconds"][1] == "number, 0 to 3600"
    assert rows["listen.socket_mode"][1] == "text of the form `^0?[0-7]{3}$`"
    assert rows["drain.timeout_seconds"][4].endswith("`SIGNPROXY__DRAIN__TIMEOUT_SECONDS`")
    assert rows["storages.<name>.hosts"][4].endswith("`SIGNPROXY__STORAGES__<NAME>__HOSTS`")
    assert "SIGNPROXY" not in rows["identity.static_tokens[].sha256"][4]
    variables = [row[4].rpartition("`SIGNPROXY__")[2] for row in rows.values()]
    assert len(variables) == len(rows) > 70


def _rows(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield path and cells of each key of the page."""
    section = ""
    for line in text.splitlines():
        if line.startswith("### "):
            section = "" if line == "### The top" else line.removeprefix("### ").strip("`")
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            yield f"{section}.{cells[0].strip('`')}".lstrip("."), cells
