"""The page on server credentials says what the code does, and what it shows works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from signproxy.config import load_settings
from signproxy.credentials import assume_role, chain, static
from signproxy.credentials.failure import FailureKind
from signproxy.credentials.registry import ProviderRegistry
from signproxy.credentials.slot import RefreshResult
from signproxy.server.process import build

PAGE = Path(__file__).parents[2] / "docs/credentials.md"
TEXT = PAGE.read_text()


def section(name: str) -> str:
    """Return what stands below a heading, up to the next one."""
    return re.split(r"\n#+ ", TEXT.partition(f"# {name}\n")[2])[0]


@pytest.mark.parametrize(
    ("name", "known"),
    (("`static`", static._KNOWN), ("`chain`", chain._KNOWN), ("`assume-role`", assume_role._KNOWN)),
)
def test_every_property_is_described_and_no_other(name: str, known: tuple[str, ...]) -> None:
    """A property would exist without a word about it, or be looked for in vain."""
    described = [
        each
        for cell in re.findall(r"^\| (`[^|]*`) \|", section(name), re.MULTILINE)
        for each in re.findall(r"`(\w+)`", cell)
    ]
    assert sorted(described) == sorted(known)


def test_every_method_problem_and_result_is_described() -> None:
    """An operator looks for the word that stands in the log."""
    for method in chain.METHODS:
        assert f"`{method}`" in section("`chain`")
    problems = section("When that fails")
    assert [kind for kind in FailureKind if not re.search(rf"^\|.*`{kind.value}`.*\|", problems, re.MULTILINE)] == []
    assert [result for result in RefreshResult if f"`{result.value}`" not in problems] == []


async def test_the_example_works(tmp_path: Path) -> None:
    """A reader who copies it would begin with an error."""
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "signproxy.yaml").write_text(example)
    settings = load_settings(tmp_path / "signproxy.yaml", {})
    registry = ProviderRegistry()
    (binding,) = build.bindings(settings)
    for spec in (binding.provider, *binding.buckets.values()):
        await registry.get(spec, binding.storage)
    await registry.aclose()
    assert set(yaml.safe_load(example)["credentials"]["providers"]) == {"pod", "lake-role", "hr-keys"}


def test_the_measurement_runs() -> None:
    """A figure that cannot be measured again is a claim."""
    (script,) = re.findall(r"<<'END'\n(.*?)END\n", TEXT, re.DOTALL)
    environment = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", script, "static"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        cwd=PAGE.parents[1],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^static: \d+ ms, \d+\.\d MiB$", done.stdout, re.MULTILINE)) == 20
