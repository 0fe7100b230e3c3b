"""The page on sessions says what the code does, and what it shows works."""

from __future__ import annotations

import json
import re
from pathlib import Path

from signproxy.config import load_settings
from signproxy.errors import Reason
from signproxy.vending.mints import MAX_SESSIONS
from signproxy.vending.session_policy import MAX_CHARACTERS, session_policy
from tests.e2e.stores.install import SEAWEEDFS_VERSION
from tests.vending.scopes import AMAZON, AWS_LANGUAGE, READ_WRITE, scope
from tests.vending.vending_cases import OF_VENDING

TEXT = (Path(__file__).parents[2] / "docs/sessions.md").read_text()


def _block(kind: str) -> str:
    return TEXT.partition(f"```{kind}\n")[2].partition("```")[0]


def test_the_settings_that_are_shown_load(tmp_path: Path) -> None:
    """They are copied."""
    file = tmp_path / "settings.yaml"
    file.write_text(_block("yaml"))
    (tmp_path / "policy").mkdir()
    assert load_settings(file, {}).storages["lake"].sts.tags == {"caller": "{principal}"}


def test_the_policy_that_is_shown_is_the_one_that_is_used() -> None:
    """An operator compares it with what the role and the store's log have."""
    used = session_policy(scope("lake/wh/orders", access=READ_WRITE), AMAZON, AWS_LANGUAGE)
    assert json.loads(_block("json")) == json.loads(used)


def test_every_reason_is_told_of() -> None:
    """A caller that gets none of the keys is told by one of these."""
    known = {reason.code for reason in Reason}
    told = {word for word in re.findall(r"`(s[a-z]+_[a-z_]+)`", TEXT) if word.startswith(("session", "scope"))}
    assert told <= known
    assert told == {reason.code for reason in OF_VENDING}


def test_the_numbers_are_those_of_the_code() -> None:
    """A limit that is told wrongly is looked for in the wrong place."""
    assert f"{MAX_CHARACTERS:,} characters" in TEXT
    assert f"{MAX_SESSIONS:,} places" in TEXT
    assert f"SeaweedFS {SEAWEEDFS_VERSION}" in TEXT
