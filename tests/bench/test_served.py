"""Hold that the benched handler is the served one, with everything on that a deployment has on."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import load, serve, sign_request
from bench.process import BenchFailed, call
from bench.serve import Deployment
from signproxy.config import load_settings
from signproxy.config.identity import Algorithm
from signproxy.config.settings import AuditSinkKind, Loop, OnAuditError
from signproxy.inventory.declared.source import FilePolicySource
from signproxy.s3.storage import Stamp


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with serve.deploy(tables=20) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def signer(deployment: Deployment) -> Iterator[load.Signer]:
    with deployment.serve(core=None) as signer:
        yield signer


def _ask(signer: load.Signer, token: str, **changes: object) -> tuple[int, dict[str, object]]:
    request = json.loads(sign_request.body(signer.template, signer.next_number()))
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    status, content = call("POST", signer.url, headers, json.dumps(request | changes).encode())
    return status, json.loads(content)


def test_the_benched_process_is_the_command_that_operators_run(deployment: Deployment, signer: load.Signer) -> None:
    """Figures of a stand-in would say nothing about what is deployed."""
    arguments = Path(f"/proc/{signer.pids[0]}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    assert arguments == [sys.executable, "-m", "signproxy", "serve", "--config", str(deployment.config)]


def test_the_settings_leave_nothing_off_that_costs_time(deployment: Deployment) -> None:
    """A figure without the audit file, the metrics or the stamp would be of another product."""
    settings = load_settings(deployment.config, {})
    assert (settings.audit.sink, settings.audit.path) == (AuditSinkKind.FILE, str(deployment.audit_file))
    assert settings.audit.on_error is OnAuditError.DENY
    assert settings.admin.enabled
    assert settings.loop is Loop.AUTO
    assert not settings.signing.client_cache
    (issuer,) = settings.identity.issuers.values()
    assert issuer.algorithms == (Algorithm.RS256,)
    assert issuer.key_file
    assert not settings.identity.static_tokens
    state = FilePolicySource(Path(settings.policy.path)).load(1)
    (catalog,) = state.catalogs.values()
    assert {storage.stamp for storage in catalog.storages.values()} == {Stamp.QUERY}


def test_the_policy_has_as_many_tables_as_the_page_says() -> None:
    """A policy of one table could hide a search."""
    with serve.deploy() as deployment:
        state = FilePolicySource(deployment.directory / "policy").load(1)
        assert len(state.catalogs["lake"].tables()) == serve.TABLES == 1000


def test_its_signatures_verify_and_carry_the_stamp(signer: load.Signer) -> None:
    """Wrong signatures are quick to make."""
    serve.check_signature(*load.sign_once(signer))


def test_a_signature_of_another_request_is_noticed(signer: load.Signer) -> None:
    """The check above would pass for anything."""
    asked, _ = load.sign_once(signer)
    _, answered = load.sign_once(signer)
    with pytest.raises((AssertionError, BenchFailed)):
        serve.check_signature(asked, answered.replace(b"Signature=", b"Signature=0"))


def test_the_token_is_an_rs256_token_whose_signature_counts(signer: load.Signer) -> None:
    """Without the check of signatures the remembered token would cost nothing the first time either."""
    head, claims, signature = signer.token.split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "=="))["alg"] == "RS256"
    other = "A" if signature[0] != "A" else "B"
    assert _ask(signer, signer.token)[0] == 200
    assert _ask(signer, f"{head}.{claims}.{other}{signature[1:]}")[0] == 401


def test_headers_are_checked(signer: load.Signer) -> None:
    """The check of headers is a good part of the work; switched off, the figure would be flattering."""
    assert _ask(signer, signer.token, headers={"x-amz-acl": ["public-read"]})[0] == 403


def test_keys_are_held_to_the_table(signer: load.Signer) -> None:
    """A decision that always allows is fast."""
    request = json.loads(signer.template)
    assert _ask(signer, signer.token, uri=request["uri"].replace("orders0000007", "orders0000008"))[0] == 403


def test_metrics_and_the_audit_file_hold_what_was_served(deployment: Deployment, signer: load.Signer) -> None:
    """The run would not notice that they were off."""
    load.sign_once(signer)
    serve.check_evidence(deployment, 1)
    with pytest.raises(BenchFailed, match="events"):
        serve.check_evidence(deployment, 10**9)
