"""Changed files come into force by themselves, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from signproxy.config.load import SettingsSource
from signproxy.errors import Invalid
from signproxy.server.process.generation import Scope, load_generation
from tests.product import token_of
from tests.server.process.served import POLICY, Served, Start, serve

__all__ = ["serve"]

QUICKLY = ("--set", "reload.poll_seconds=0.05")
REVOKED = POLICY.replace("reader: {roles: [readers]}", "reader: {roles: []}")


def change_settings(served: Served, **sections: dict[str, Any]) -> None:
    """Rewrite sections of the settings file."""
    settings = json.loads(served.settings.read_text())
    for name, section in sections.items():
        settings[name] = settings.get(name, {}) | section
    served.settings.write_text(json.dumps(settings))


@pytest.mark.parametrize("workers", ("1", "2"))
def test_a_changed_policy_is_noticed(serve: Start, workers: str) -> None:
    """No operator can send a signal into a pod; a revoke must bite all the same."""
    served = serve(*QUICKLY, "--workers", workers)
    assert served.sign() == 200
    served.policy.write_text(REVOKED)
    served.wait_for("reload accepted")
    assert [served.sign() for _ in range(6)] == [403] * 6
    assert served.stop() == 0


def test_a_swapped_volume_is_noticed_each_time(serve: Start, tmp_path: Path) -> None:
    """Kubernetes swaps a link, not the file: a watch of the file goes deaf after the first time."""
    volume = tmp_path / "volume"

    def swap(number: int, policy: str) -> None:
        data = volume / f"..{number}"
        data.mkdir(parents=True)
        (data / "policy.yaml").write_text(policy)
        (volume / "..data_tmp").symlink_to(data.name)
        (volume / "..data_tmp").rename(volume / "..data")
        if not (volume / "policy.yaml").is_symlink():
            (volume / "policy.yaml").symlink_to("..data/policy.yaml")

    swap(0, POLICY)
    served = serve(*QUICKLY, "--set", f"policy.path={volume}")
    assert served.sign() == 200
    for number, (policy, status) in enumerate(((REVOKED, 403), (POLICY, 200), (REVOKED, 403)), start=1):
        swap(number, policy)
        served.wait_for("reload accepted", count=number)
        assert served.sign() == status
    assert served.stop() == 0


def test_a_broken_policy_stays_out_until_it_is_mended(serve: Start) -> None:
    """What an editor saved halfway must neither be served nor end the watching."""
    served = serve(*QUICKLY)
    assert served.sign() == 200
    served.policy.write_text(POLICY[:200])
    served.wait_for("reload not accepted")
    assert served.sign() == 200
    served.policy.write_text(REVOKED)
    served.wait_for("reload accepted")
    assert served.sign() == 403
    assert served.stop() == 0


def test_a_revoke_that_came_with_a_fault_bites_once_the_fault_is_mended(serve: Start) -> None:
    """What mends the fault is another file; the policy has not changed since, and must not be taken for unchanged."""
    served = serve(*QUICKLY)
    assert served.sign() == 200
    good = served.settings.read_text()
    served.settings.write_text("listne: {}")
    served.wait_for("reload not accepted")
    served.policy.write_text(REVOKED)
    served.wait_for("reload not accepted", count=2)
    assert served.sign() == 200
    served.settings.write_text(good)
    served.wait_for("reload accepted")
    assert served.sign() == 403
    assert served.stop() == 0


def test_a_token_that_is_struck_from_the_settings_is_refused(serve: Start) -> None:
    """A leaked token must not stay good until the operator can afford a restart."""
    served = serve(*QUICKLY)
    assert served.sign() == 200
    other = hashlib.sha256(token_of("somebody-else").encode()).hexdigest()
    change_settings(served, identity={"static_tokens": [{"sha256": other, "principal": "reader"}]})
    served.wait_for("reload accepted")
    assert served.sign() == 401
    assert served.stop() == 0


def test_what_only_a_start_reads_is_told(serve: Start) -> None:
    """An operator who changed the port must learn that it did not change."""
    served = serve(*QUICKLY)
    served.wait_for("serving")
    change_settings(served, drain={"timeout_seconds": 7}, audit={"queue": 5000})
    served.wait_for("reload accepted")
    assert "audit.queue" in served.wait_for("needs a restart")["change"]
    assert served.sign() == 200
    assert served.stop() == 0


def test_a_file_that_is_only_touched_changes_nothing(serve: Start) -> None:
    """A backup that touches every file must not make a million tables load anew."""
    served = serve(*QUICKLY)
    served.wait_for("serving")
    for _ in range(3):
        os.utime(served.policy)
    served.policy.write_text(REVOKED)
    served.wait_for("reload accepted")
    served.policy.write_text(POLICY)
    served.wait_for("reload accepted", count=2)
    assert [line["epoch"] for line in served.lines() if line["event"] == "reload accepted"] == [2, 3]
    assert served.stop() == 0


def write_configuration(directory: Path, **sections: dict[str, Any]) -> SettingsSource:
    """Return the source of a small configuration."""
    (directory / "policy.yaml").write_text(POLICY)
    settings: dict[str, Any] = {
        "policy": {"path": "policy.yaml"},
        "identity": {"static_tokens": [{"sha256": "0" * 64, "principal": "reader"}]},
        "credentials": {"providers": {"keys": {"class": "static", "properties": {"file": "keys"}}}},
        "storages": {"s": {"credentials": "keys", "hosts": ["127.0.0.1:9"]}},
    }
    (directory / "settings.yaml").write_text(json.dumps(settings | sections))
    return SettingsSource(str(directory / "settings.yaml"))


def test_a_rotated_key_does_not_load_the_policy_anew(tmp_path: Path) -> None:
    """The policy of a million tables takes a minute of a core."""
    first = load_generation(write_configuration(tmp_path), 1)
    second = load_generation(write_configuration(tmp_path, drain={"delay_seconds": 3}), 2, first, Scope.KEEP_POLICY)
    assert second.state is first.state
    assert second.settings.drain.delay_seconds == 3


def test_settings_that_a_policy_is_judged_by_load_it_anew(tmp_path: Path) -> None:
    """A storage that lost its binding must not go on being signed for because its policy file is the same."""
    first = load_generation(write_configuration(tmp_path), 1)
    changed = write_configuration(tmp_path, storages={"s": {"credentials": "keys", "hosts": ["elsewhere:9"]}})
    with pytest.raises(Invalid, match="not among these hosts"):
        load_generation(changed, 2, first, Scope.KEEP_POLICY)
