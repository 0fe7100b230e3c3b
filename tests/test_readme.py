"""What the README shows must work as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from signproxy.cli.main import COMMANDS
from signproxy.errors import Invalid
from tests.policies import MemoryPolicySource

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_policy_loads() -> None:
    """A reader pastes it; a policy that does not load is the first thing that a reader sees of the product."""
    (policy,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    state = MemoryPolicySource(policy, single_issuer=False).load(1)
    assert state.remote_signing
    table = state.catalogs["lake"].table("sales", "orders")
    assert table is not None
    # Without its first line nothing would be signed.
    assert (
        not MemoryPolicySource(policy.replace("remote_signing: true", "remote_signing: false", 1))
        .load(1)
        .remote_signing
    )
    with pytest.raises(Invalid, match="remote_signing"):
        MemoryPolicySource(policy.replace("remote_signing", "remote_singing", 1)).load(1)


def test_every_make_target_and_command_exists() -> None:
    """A command that is not there is found out by the reader."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`make ([a-z0-9-]+)`", README)) | set(
        re.findall(r"^make ([a-z0-9-]+)", README, re.MULTILINE)
    )
    assert targets >= {"run", "test", "e2e", "bench", "mutants"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    commands = set(re.findall(r"`signproxy ([a-z-]+)", README))
    assert commands >= {"serve", "check-config", "explain", "token", "demo"}
    assert commands <= set(COMMANDS)


def test_every_page_that_is_linked_exists() -> None:
    """A dead link in the first page costs the reader's trust in the others."""
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) >= 6
    for link in links:
        assert (ROOT / link).exists(), link


def test_every_page_of_the_documentation_is_linked() -> None:
    """A page that the first page does not name is found by no reader."""
    links = set(re.findall(r"\]\(([^)#]+)\)", README))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= links


def test_it_quotes_no_figure() -> None:
    """Figures stand in the benchmark page, which is made from the recorded results."""
    assert not re.search(r"\d+(\.\d+)? ?(µs|ms|MiB|req/s|times faster|x faster)", README)
