"""A reload of one process: what was read at one moment is what answers from the next request on."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import time
from typing import Any
from weakref import ref

import pytest

from signproxy.catalog.upstreams import Upstreams
from signproxy.config.load import SettingsSource
from signproxy.credentials.store import CredentialStore
from signproxy.errors import Finding, SettingsInvalid
from signproxy.model import Principal
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.sealing import SealingSecret
from signproxy.server.process.build import emulated_keys
from signproxy.server.process.generation import Scope
from signproxy.server.process.sockets import bind_tcp
from signproxy.server.process.worker import Worker
from tests.forward.upstream import Upstream, serve
from tests.product import ACCESS_KEY, SECRET, token_of
from tests.server.s3.door import POLICY, REGION, Answer, answer_of, request
from tests.server.s3.rig import Client
from tests.waiting import until

OBJECT = "/data/wh/t1/data/"


def _identity(shown_by: str) -> dict[str, Any]:
    """Return settings by which the token of a name is that of the reader."""
    digest = hashlib.sha256(token_of(shown_by).encode()).hexdigest()
    return {"static_tokens": [{"sha256": digest, "principal": "reader"}]}


class Started:
    """A worker, its files, and the store behind it."""

    def __init__(self, directory: Path, upstream: Upstream) -> None:
        self.upstream = upstream
        self.policy = directory / "policy.yaml"
        self.policy.write_text(POLICY % upstream.port)
        self._settings = directory / "settings.yaml"
        keys = {"access_key_id_env": "TEST_KEY", "secret_access_key_env": "TEST_SECRET"}
        self._sections: dict[str, Any] = {
            "listen": {"port": 0},
            "admin": {"port": 0},
            "policy": {"path": "policy.yaml"},
            "identity": _identity("reader"),
            "credentials": {"providers": {"keys": {"class": "static", "properties": keys}}},
            "storages": {"main": {"credentials": "keys", "hosts": [f"127.0.0.1:{upstream.port}"]}},
            "audit": {"sink": "file", "path": "audit.ndjson"},
            "s3": {"enabled": True, "port": 0, "identities": ["emulated", "bearer"]},
        }
        self.write()
        self.source = SettingsSource(str(self._settings))
        self.worker: Worker
        self.epoch = 1

    def write(self, **sections: dict[str, Any]) -> None:
        """Rewrite sections of the settings file."""
        self._sections |= sections
        self._settings.write_text(json.dumps(self._sections))

    async def reload(self, **s3: Any) -> None:
        """Take over the files, with other settings of the S3 listener."""
        self.write(s3=self._sections["s3"] | s3)
        self.epoch += 1
        await self.worker.prepare(self.epoch, Scope.ALL)
        await self.worker.commit()

    async def connect(self) -> Client:
        return await Client.connect(self.worker.s3_addresses[0])

    async def ask(self, client: Client, name: str, who: str = "reader") -> Answer:
        """Read an object with a bearer token."""
        await client.send(request("GET", f"{OBJECT}{name}", who=who))
        return await answer_of(client)

    async def ask_signed(self, client: Client, region: str) -> Answer:
        """Read an object with a key that was issued here, and a signature for a region."""
        worker = self.worker
        seals = worker.generation.seals(worker._process.secret)
        keys = emulated_keys(worker.settings.s3, seals, worker._authenticator)
        reader = worker._authenticator.authenticate(token_of("reader"))
        assert keys is not None
        assert isinstance(reader, Principal)
        key = keys.issue(reader, None, 600.0, time())
        date, host, path = amz_date(int(time())), "127.0.0.1", f"{OBJECT}a"
        signing = SigningKey(key.access_key_id, key.secret_access_key, region)
        payload = "UNSIGNED-PAYLOAD"
        headers = {
            "Host": host,
            "Authorization": signing.authorization("GET", host, path, "", (), payload, date, key.session_token),
            "x-amz-date": date,
            "x-amz-content-sha256": payload,
            "x-amz-security-token": key.session_token,
        }
        await client.send(request("GET", path, who=None, headers=headers))
        return await answer_of(client)


@asynccontextmanager
async def started(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Started]:
    monkeypatch.setenv("TEST_KEY", ACCESS_KEY)
    monkeypatch.setenv("TEST_SECRET", SECRET)
    monkeypatch.chdir(directory)
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(Upstream(serve))
        found = Started(directory, upstream)
        worker = found.worker = await Worker.start(found.source, 0, 1, stack, SealingSecret.random())
        await worker.listen(bind_tcp("127.0.0.1", 0), bind_tcp("127.0.0.1", 0))
        stack.push_async_callback(worker.finish)
        yield found


@pytest.mark.parametrize("changed", ({"upstream": {"connections": 7}}, {"limits": {"idle_seconds": 41}}))
async def test_other_limits_towards_stores_come_into_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    """A reload that fails holds up every revoke after it."""
    async with started(tmp_path, monkeypatch) as site:
        client = await site.connect()
        assert (await site.ask(client, "a")).status == 200
        pool = site.worker._s3._pool  # type: ignore[union-attr]
        await site.reload(**changed)
        assert site.worker._s3._pool is not pool  # type: ignore[union-attr]
        assert (await site.ask(client, "b")).status == 200
        await client.close()


async def test_a_region_that_a_reload_brings_is_signed_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of a storage that was moved would be refused until the reload after the next."""
    async with started(tmp_path, monkeypatch) as site:
        client = await site.connect()
        assert (await site.ask_signed(client, REGION)).status == 200
        site.policy.write_text(site.policy.read_text().replace(REGION, "mars-north-1"))
        await site.reload()
        assert (await site.ask_signed(client, "mars-north-1")).status == 200
        assert (await site.ask_signed(client, REGION)).status == 400
        await client.close()


@pytest.mark.parametrize("step", (CredentialStore, Upstreams))
async def test_a_reload_that_fails_in_a_late_step_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: type
) -> None:
    """A token would be believed, or a grant withdrawn, by a generation that was never accepted."""
    async with started(tmp_path, monkeypatch) as site:
        client = await site.connect()
        rooms = site.worker._house.rooms
        site.write(identity=_identity("writer"))
        site.policy.write_text(site.policy.read_text().replace("reader: {roles: [readers]}", "reader: {roles: []}"))
        with monkeypatch.context() as broken:
            broken.setattr(step, "prepare", _fails)
            with pytest.raises(SettingsInvalid):
                await site.reload()
        # What the supervisor may still say to a worker that could not prepare.
        await site.worker.commit()
        assert site.worker._house.rooms is rooms
        assert [(await site.ask(client, "a", who)).status for who in ("reader", "writer")] == [200, 403]
        await site.reload()
        # The struck token is none any more, and the new one is of a caller that the new policy does not know.
        assert [(await site.ask(client, "a", who)).status for who in ("reader", "writer")] == [403, 403]
        reasons = [refusal.reason for refusal in site.worker._recorder.refusals()]
        assert reasons[:2] == ["principal_unknown", "token_malformed"]
        await client.close()


async def _fails(*_: object, **__: object) -> None:
    raise SettingsInvalid([Finding("settings.yaml", "upstreams", "cannot be used")])


async def test_a_policy_that_was_replaced_is_kept_by_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million tables would stay in memory for each reload, as long as a client is connected and silent."""
    async with started(tmp_path, monkeypatch) as site:
        client = await site.connect()
        for name in "abc":
            assert (await site.ask(client, name)).status == 200
        replaced = ref(site.worker.generation.state)
        site.policy.write_text(site.policy.read_text() + "\n")
        await site.reload()
        # A thread that loaded it may still be about to let go of it.
        await until(lambda: gc.collect() >= 0 and replaced() is None)
        await client.close()
