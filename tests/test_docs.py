"""Documentation: what is generated equals the code, and what is shown works."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from signproxy.config import load_settings
from signproxy.errors import Check, Reason
from signproxy.inventory.declared.document import (
    CatalogEntry,
    EndpointEntry,
    GrantEntry,
    PolicyDocument,
    PrincipalEntry,
    StorageEntry,
    TableEntry,
    VolumeEntry,
)
from signproxy.s3.operation import Operation
from signproxy.s3.storage import OptIns
from tests.policies import MemoryPolicySource
from tools.docs.generate import DOCS, PAGES, SECTIONS, main
from tools.docs.operations import rows_of_signed
from tools.docs.settings import EXAMPLE

_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall((DOCS / page).read_text()) if kind == language]


def test_committed_pages_equal_the_code() -> None:
    """The documentation would describe another version."""
    assert main(["--check"]) == 0


def test_a_difference_is_found_and_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check could not fail, so pages would drift."""
    for name in (*PAGES, *SECTIONS):
        (tmp_path / name).write_text((DOCS / name).read_text())
    directory = ["--directory", str(tmp_path)]
    assert main([*directory, "--check"]) == 0
    for name in (*PAGES, *SECTIONS):
        (tmp_path / name).write_text((DOCS / name).read_text().replace("TABLE_READ_DATA", "X").replace("log", "x"))
    (tmp_path / "reasons.md").unlink()
    assert main([*directory, "--check"]) == 1
    named = capsys.readouterr().err
    assert all(f"docs/{name} differs" in named for name in (*PAGES, *SECTIONS))
    assert main(directory) == 0
    assert main([*directory, "--check"]) == 0
    assert (tmp_path / "reasons.md").read_text() == (DOCS / "reasons.md").read_text()


def test_a_page_without_its_section_is_an_error(tmp_path: Path) -> None:
    """A marker lost in an edit would end the generation without a word."""
    (tmp_path / "policy.md").write_text("# Policy\n")
    with pytest.raises(LookupError, match=r"docs/policy\.md has no section 'privileges'"):
        main(["--directory", str(tmp_path), "--check"])


def test_the_settings_example_is_valid(tmp_path: Path) -> None:
    """A reader who copies the example would begin with an error."""
    file = tmp_path / "signproxy.yaml"
    file.write_text(EXAMPLE)
    settings = load_settings(file, {})
    assert settings.policy.path == str(tmp_path / "policy")
    assert EXAMPLE in blocks("settings.md", "yaml")


def test_the_policy_example_is_valid() -> None:
    """A reader who copies the example would begin with an error."""
    (policy,) = blocks("policy.md", "yaml")
    (lines,) = blocks("policy.md", "json")
    files = {"policy.yaml": f"{policy}\ninventories: [big.ndjson]\n".encode(), "big.ndjson": lines.encode()}
    state = MemoryPolicySource(files).load(1)
    catalog = state.catalogs["lake"]
    assert state.remote_signing
    assert catalog.remote_signing
    assert sorted(catalog.namespaces) == ["sales", "sales\x1feu"]
    assert sorted(table.name for table in catalog.tables()) == ["items", "orders", "returns"]


@pytest.mark.parametrize(
    "entry",
    (
        PolicyDocument,
        StorageEntry,
        EndpointEntry,
        CatalogEntry,
        TableEntry,
        VolumeEntry,
        GrantEntry,
        PrincipalEntry,
        OptIns,
    ),
)
def test_every_key_of_a_policy_is_described(entry: type[msgspec.Struct]) -> None:
    """A key would exist that is not documented."""
    page = (DOCS / "policy.md").read_text()
    keys = [field.encode_name for field in msgspec.structs.fields(entry)]
    assert keys
    assert [key for key in keys if not re.search(rf"[`{{\[ ]{re.escape(key)}[`:]", page)] == []


def test_every_reason_is_described() -> None:
    """An operator would look up a code in vain."""
    page = (DOCS / "reasons.md").read_text()
    for reason in Reason:
        spec = reason.value
        assert f"| `{spec.code}` | {spec.status} |" in page
        assert spec.meaning
        assert spec.remedy or reason is Reason.ALLOWED
    for check in Check:
        assert f"## {check.value}. {check.name.capitalize()}: " in page


def test_every_operation_is_described_once() -> None:
    """An operation would be signed that the documentation does not name."""
    rows = list(rows_of_signed())
    signed = [operation for operation in Operation if not operation.forward_only]
    assert [row.operation for row in rows] == signed
    assert {row.operation for row in rows if row.opt_in} == {
        Operation.GET_OBJECT_TAGGING,
        Operation.PUT_OBJECT_TAGGING,
        Operation.LIST_OBJECT_VERSIONS,
        Operation.LIST_MULTIPART_UPLOADS,
    }
    page, _, forwarded = (DOCS / "operations-table.md").read_text().partition("## Through the S3 listener")
    for operation in signed:
        # A copy shares its request with the write that it would be without the header.
        assert page.count(f"| {operation.s3_name} |") == 1
        assert forwarded.count(f"| {operation.s3_name} |") == 1


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A reader would end nowhere."""
    for target in _LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
