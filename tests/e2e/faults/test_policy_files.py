"""Policy files break, change and are swapped under load: what is in force stays whole, and a revoke bites at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.faults.conftest import POLL_SECONDS, Deploy
from tests.e2e.faults.deployment import Deployment, policy_of, replace
from tests.e2e.faults.load import SIGNED, load_on

pytestmark = pytest.mark.ci

FORBIDDEN = "403 ForbiddenException"
REVOKED = policy_of(("static/bob",))
"""The caller of the load has no role in it."""

FAILURES = 'signproxy_config_reload_total{result="failure"}'
SUCCESSES = 'signproxy_config_reload_total{result="success"}'

Break = Callable[[Deployment], None]


def _misspell(deployment: Deployment) -> None:
    deployment.write_policy(REVOKED | {"remote_sining": True})


def _truncate(deployment: Deployment) -> None:
    deployment.policy_file.write_text(json.dumps(REVOKED)[:700])


def _empty(deployment: Deployment) -> None:
    deployment.policy_file.write_text("")


def _remove(deployment: Deployment) -> None:
    deployment.policy_file.unlink()


def _lock(deployment: Deployment) -> None:
    deployment.policy_file.unlink()
    deployment.policy_file.mkdir()


@pytest.mark.parametrize(
    ("damage", "hint"),
    (
        pytest.param(_misspell, "remote_signing", id="an unknown key"),
        pytest.param(_truncate, "policy.yaml", id="cut short"),
        pytest.param(_empty, "policy.yaml", id="empty"),
        pytest.param(_remove, "policy", id="gone"),
    ),
)
def test_a_broken_policy_changes_nothing_and_its_repair_bites(
    deploy: Deploy, workers: int, damage: Break, hint: str
) -> None:
    """A slip of the editor must not stop every job, nor may the policy of the repair wait for a restart."""
    deployment = deploy(workers)
    with deployment.serve() as served, load_on(deployment) as load:
        damage(deployment)
        served.wait_until("it is refused", lambda: served.reloads("not accepted") > 0)
        assert hint in served.logged("reload not accepted")[-1]["finding"]
        load.wait_for(SIGNED, 20, since=time.monotonic())
        assert set(load.outcomes()) == {SIGNED}
        assert served.status("/readyz") == 200
        deployment.write_policy(REVOKED)
        served.wait_until("it is in force", lambda: served.reloads("accepted") > 0)
        accepted = time.monotonic()
        load.wait_for(FORBIDDEN, 20, since=accepted)
        # From the moment at which it counts as in force, on every worker.
        assert set(load.outcomes(accepted)) == {FORBIDDEN}
        assert not load.lost()
        assert (served.metric(FAILURES), served.metric(SUCCESSES)) == (1, 1)


def test_a_policy_is_not_believed_while_it_is_being_written(deploy: Deploy, workers: int) -> None:
    """The first half of a file is often a whole policy: one without grants, which would lock every caller out."""
    deployment = deploy(workers)
    text = yaml.safe_dump(policy_of(tables=200), sort_keys=False)
    assert text.index("grants:") > text.index("tables:")
    lines = text.splitlines(keepends=True)
    with deployment.serve() as served, load_on(deployment) as load:
        # As slow as a copy over a bad line: four looks fall into it.
        step = len(lines) // 20
        with deployment.policy_file.open("w") as file:
            for start in range(0, len(lines), step):
                file.writelines(lines[start : start + step])
                file.flush()
                time.sleep(POLL_SECONDS / 5)
        served.wait_until("it is in force", lambda: served.reloads("accepted") > 0)
        load.wait_for(SIGNED, 20, since=time.monotonic())
        assert set(load.outcomes()) == {SIGNED}


def test_every_swap_of_a_config_map_is_seen(deploy: Deploy, workers: int) -> None:
    """Kubernetes never writes a mounted file: it swaps a link beside it, and who watches the file sees one swap."""
    deployment = deploy(workers)
    volume = deployment.directory / "volume"
    volume.mkdir()
    (volume / "policy.yaml").symlink_to("..data/policy.yaml")
    _swap(volume, 0, policy_of())
    deployment.set("policy", {"path": str(volume / "policy.yaml")})
    with deployment.serve() as served, load_on(deployment) as load:
        for number, (policy, expected) in enumerate(
            ((REVOKED, FORBIDDEN), (policy_of(), SIGNED), (REVOKED, FORBIDDEN), (policy_of(), SIGNED)), 1
        ):
            _swap(volume, number, policy)
            served.wait_until("it is in force", lambda number=number: served.reloads("accepted") == number)  # type: ignore[misc]
            accepted = time.monotonic()
            load.wait_for(expected, 20, since=accepted)
            assert set(load.outcomes(accepted)) == {expected}, number
        _swap(volume, 5, {"nonsense": True})
        served.wait_until("it is refused", lambda: served.reloads("not accepted") > 0)
        healthy = time.monotonic()
        load.wait_for(SIGNED, 20, since=healthy)
        assert set(load.outcomes(healthy)) == {SIGNED}
        assert not load.lost()


def _swap(volume: Path, number: int, policy: dict[str, Any]) -> None:
    """Replace all files of a mounted volume as the kubelet does, and remove what was there before."""
    content = volume / f"..2026_11_18_{number}"
    content.mkdir()
    replace(content / "policy.yaml", json.dumps(policy))
    link, fresh = volume / "..data", volume / "..data_tmp"
    old = link.resolve() if link.is_symlink() else None
    fresh.symlink_to(content.name)
    fresh.rename(link)
    if old is not None:
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
