"""Segments are shipped with the keys of a session, which end long before the process does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from signproxy.credentials.provider import Binding, ProviderSpec
from signproxy.credentials.registry import ProviderRegistry
from signproxy.credentials.store import CredentialStore
from signproxy.shipping.store import SegmentStore, ShippingFailed, Target, sums_of
from tests.audit.segment_rig import Life
from tests.credentials.services import key as key_pair
from tests.credentials.services import last_session, serving, sts
from tests.shipping.strict_store import BUCKET, REGION, strict_store

ROLE = "arn:aws:iam::123456789012:role/archive"
OWN = key_pair("own")


async def test_segments_are_shipped_with_the_session_of_an_assumed_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store takes a session's keys only with their token, and an archive ends with keys that are never renewed."""
    # Variables of the machine would put other keys below the role.
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    keys = {"access_key_id": OWN.key_id, "secret_access_key": OWN.secret, "session_token": OWN.token}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    life = Life(tmp_path / "spool")
    path = life.rotate()
    with serving(sts(callers=lambda: (OWN,))) as service:
        async with strict_store() as store:
            below = ProviderSpec("signproxy.credentials.static:StaticProvider", {"file": str(tmp_path / "keys.json")})
            role = {"role_arn": ROLE, "endpoint": service.url, "region": REGION}
            spec = ProviderSpec("signproxy.credentials.assume_role:AssumeRoleProvider", role, source=below)
            credentials = CredentialStore(ProviderRegistry())
            await credentials.start([store.storage], [Binding("lake", spec, (f"127.0.0.1:{store.port}",))])
            segments = SegmentStore(Target("lake", BUCKET), lambda: [store.storage], credentials.current_of_any)
            store.accepts(*_session())
            await segments.put("first", path, sums_of(path))
            await credentials.refresh()
            # The store knows the first session alone, and the keys of that one are not sent any more.
            with pytest.raises(ShippingFailed, match="403"):
                await segments.put("second", path, sums_of(path))
            store.accepts(*_session())
            await segments.put("second", path, sums_of(path))
            await segments.aclose()
            await credentials.aclose()
            assert list(store.objects) == ["first", "second"]
    assert last_session().role_arn == ROLE
    life.sink.close()


def _session() -> tuple[str, str, str]:
    session = last_session()
    return session.access_key_id, session.secret_access_key, session.session_token
