"""Make the sessions and clients of AWS' own library, which the credential providers use.

Certificates are believed as AWS' tools do it: `AWS_CA_BUNDLE`, else the authorities that botocore brings. Session
services are asked through `HTTPS_PROXY`, unless `NO_PROXY` names them; metadata services are never asked through one.

botocore is imported by the functions: a process with static keys does not pay for it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from botocore.config import Config
    from botocore.loaders import Loader
    from botocore.session import Session

CONNECT_SECONDS = 3.0
READ_SECONDS = 5.0
"""A session service answers within one second. The credential store repeats what failed, so botocore does not."""


def aws_session(profile: str) -> Session:
    """Return a new session: nothing of what an earlier one found is reused. It logs nothing."""
    import logging  # noqa: PLC0415 - only needed here

    from botocore.session import Session  # noqa: PLC0415 - see the module's docstring

    # Their debug lines hold whole answers, secrets included; what an operator needs of them is in our own errors.
    for library in ("botocore", "urllib3"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    session = Session(profile=profile or None)
    session.register_component("data_loader", _loader())
    session.set_default_client_config(_config())
    return session


def session_service(
    session: Session, endpoint: str, access_key_id: str, secret_access_key: str, session_token: str
) -> BaseClient:
    """Return a client of the session service: Amazon's in the session's region, or the one at an endpoint."""
    from botocore.config import Config  # noqa: PLC0415 - see the module's docstring

    return session.create_client(
        "sts",
        endpoint_url=endpoint or None,
        aws_access_key_id=access_key_id,
        aws_secret_access_key=secret_access_key,
        aws_session_token=session_token or None,
        # The settings alone say where these signatures go, not a variable or a shared file.
        config=_config().merge(Config(ignore_configured_endpoint_urls=True)),
    )


def ask_metadata_directly(fetcher: object) -> None:
    """Let one of botocore's readers of instance metadata ask without a proxy.

    Through a proxy of the environment it would get the credentials of the proxy's machine, and send it the token.
    """
    from botocore.httpsession import URLLib3Session  # noqa: PLC0415 - see the module's docstring

    vars(fetcher)["_session"] = URLLib3Session(proxies={}, timeout=vars(fetcher)["_timeout"])


def _config() -> Config:
    """Return how long clients wait, and that they ask once."""
    from botocore.config import Config  # noqa: PLC0415 - see the module's docstring

    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
        # The mode `auto`, which a variable or a profile can set, asks instance metadata through the proxy.
        defaults_mode="legacy",
        user_agent_extra="signproxy",
    )


@cache
def _loader() -> Loader:
    """Return the reader of botocore's descriptions of services.

    It keeps what it read: to read 1 MB again takes five times as long as all the rest of a refresh.
    """
    from botocore.loaders import Loader  # noqa: PLC0415 - see the module's docstring

    return Loader()
