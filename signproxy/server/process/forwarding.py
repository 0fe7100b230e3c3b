"""Make the S3 listener where the settings ask for one: a sidecar that only signs does not hold what forwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from signproxy.config.settings import Settings
from signproxy.credentials.store import CredentialStore
from signproxy.gate.limits import Limits
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.server.process.lean import lasting_imports
from signproxy.server.process.rooms import House

if TYPE_CHECKING:
    from signproxy.server.s3.service import S3Service


def s3_service(
    settings: Settings,
    house: House,
    *,
    authenticator: Authenticator,
    credentials: CredentialStore,
    recorder: Recorder,
    limits: Limits,
) -> S3Service | None:
    """Return the service, which does not listen yet; None where it is off."""
    if not settings.s3.enabled:
        return None
    with lasting_imports():
        from signproxy.server.s3.service import S3Service  # noqa: PLC0415 - see the module's docstring

    return S3Service(
        settings.s3, house, authenticator=authenticator, credentials=credentials, recorder=recorder, limits=limits
    )
