"""Use AWS' own library so that it neither waits for long, nor logs, nor tells, what it should not.

botocore is imported by the functions: an operator with static keys does not pay for it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from signproxy.credentials.credentials import Credentials
from signproxy.credentials.failure import FailureKind, NotObtained, told
from signproxy.errors import ProviderInvalid
from signproxy.outbound.aws import ask_metadata_directly, aws_session, session_service
from signproxy.s3.storage import Storage, StorageKind

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from botocore.session import Session

PROCESS_SECONDS = 20.0
"""What a `credential_process` may take; less than the store waits for a provider, so that the reason is known."""

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")
_THROTTLED = ("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException", "SlowDown")
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9.]{0,63}")
_STATUS = re.compile(r"Received non 200 response (?P<status>\d{3}) ")
_STILL_EXPIRED = "refreshed credentials are still expired"


def session_for(storage: Storage, *, profile: str = "", region: str = "") -> Session:
    """Return a new botocore session: nothing of what an earlier one found is reused.

    The region is the given one, else botocore's own, else `AWS_REGION`, else the storage's if that is Amazon's.
    """
    session = aws_session(profile)
    if not region and session.get_config_variable("region") is None:
        region = os.environ.get("AWS_REGION", "") or (storage.region if storage.kind is StorageKind.AWS else "")
    if region:
        session.set_config_variable("region", region)
    session.set_config_variable("sts_regional_endpoints", "regional")
    return session


def session_client(storage: Storage, source: Credentials | None, *, region: str, endpoint: str) -> BaseClient:
    """Return a client of the session service that asks with these credentials; with none, only for what is not signed.

    It is Amazon's in a region (the given one, or as `session_for` finds it), or the one at an endpoint.
    """
    session = session_for(storage, region=region or (storage.region if endpoint else ""))
    if session.get_config_variable("region") is None:
        # botocore would take the global service, whose sessions other partitions and newer regions refuse.
        raise NotObtained(FailureKind.CONFIGURATION, "no region is known: set the property `region`")
    keys = ("", "", "") if source is None else (source.access_key_id, source.secret_access_key, source.session_token)
    return session_service(session, endpoint, *keys)


def found_by_chain(session: Session, methods: Iterable[str]) -> tuple[Credentials, str]:
    """Return what botocore's chain finds, and by which of its methods; only the given ones are tried, if any are."""
    from botocore.credentials import RefreshableCredentials  # noqa: PLC0415 - see the module's docstring

    resolver = session.get_component("credential_provider")
    # Before any is left out: a profile's `credential_source` uses providers that `methods` does not name.
    for provider in resolver.providers:
        _tame(provider)
    methods = tuple(methods)
    if methods:
        resolver.providers = [each for each in resolver.providers if each.METHOD in methods]
    tried = ", ".join(each.METHOD for each in resolver.providers)
    found = session.get_credentials()
    if found is None:
        raise NotObtained(FailureKind.NONE_FOUND, f"tried {tried}")
    frozen = found.get_frozen_credentials()
    expires_at = None
    # Strictly: were the attribute gone, a session would look as if it never ended.
    if isinstance(found, RefreshableCredentials) and found._expiry_time is not None:  # noqa: SLF001 - there is no other
        expires_at = found._expiry_time.timestamp()  # noqa: SLF001 - see above
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "", expires_at), found.method


def outcome(call: Callable[[], Credentials], secrets: Iterable[str] = ()) -> Credentials | NotObtained:
    """Return what the call returns, or why it failed.

    Returned, not raised: botocore's errors carry answers and requests, and would hang on ours as its context.
    """
    try:
        return call()
    except NotObtained as failure:
        return failure
    except ProviderInvalid as invalid:
        return NotObtained(FailureKind.MALFORMED, str(invalid))
    except Exception as error:  # noqa: BLE001 - a dozen libraries raise here, and each failure must be told safely
        return _failure(error, tuple(secrets))


def _failure(error: Exception, secrets: tuple[str, ...]) -> NotObtained:
    from botocore import exceptions  # noqa: PLC0415 - see the module's docstring
    from botocore.parsers import ResponseParserError  # noqa: PLC0415 - see the module's docstring

    name = type(error).__name__
    match error:
        case exceptions.ClientError():
            return _refusal(error, secrets)
        case exceptions.ConnectTimeoutError() | exceptions.ReadTimeoutError() | TimeoutError():
            return NotObtained(FailureKind.TIMEOUT, told(str(error), secrets))
        case exceptions.EndpointConnectionError() | exceptions.ConnectionClosedError() | exceptions.SSLError():
            return NotObtained(FailureKind.UNAVAILABLE, told(str(error), secrets))
        case exceptions.HTTPClientError() | exceptions.ConnectionError():
            # The text of the rest holds what some library wrote, such as a proxy's URL with its password.
            return NotObtained(FailureKind.UNAVAILABLE, name)
        case exceptions.CredentialRetrievalError():
            return _not_retrieved(error)
        case (
            exceptions.ProfileNotFound()
            | exceptions.ConfigNotFound()
            | exceptions.ConfigParseError()
            | exceptions.PartialCredentialsError()
            | exceptions.InvalidConfigError()
            | exceptions.BaseEndpointResolverError()
            | exceptions.InvalidRegionError()
            | exceptions.SSOError()
            | exceptions.LoginError()
        ):
            return NotObtained(FailureKind.CONFIGURATION, told(str(error), secrets))
        case OSError():
            return NotObtained(FailureKind.CONFIGURATION, told(f"{error.strerror}: {error.filename}", secrets))
        case RuntimeError() if _STILL_EXPIRED in str(error):
            return NotObtained(FailureKind.EXPIRED, "what was given has expired already")
        case ValueError() if str(error).startswith(("Auth token value", "Unsupported host")):
            return NotObtained(FailureKind.CONFIGURATION, told(str(error), secrets))
        case ResponseParserError() | ValueError() | KeyError() | TypeError():
            # Their text is what they could not read.
            return NotObtained(FailureKind.MALFORMED, name)
        case _:
            return NotObtained(FailureKind.FAILED, name)


def _refusal(error: Exception, secrets: tuple[str, ...]) -> NotObtained:
    response = getattr(error, "response", {})
    code = str(response.get("Error", {}).get("Code", ""))
    if not _CODE.fullmatch(code):
        code = "no code"
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    detail = f"{getattr(error, 'operation_name', '')}: {code} (HTTP {status})"
    if code in _THROTTLED or status == 429:
        return NotObtained(FailureKind.THROTTLED, detail, code)
    if code in _EXPIRED:
        return NotObtained(FailureKind.EXPIRED, detail, code)
    if code in _DENIED:
        # Names who may not do what on which role. Others repeat parameters, or the request that was signed.
        message = str(response.get("Error", {}).get("Message", ""))
        return NotObtained(FailureKind.DENIED, told(f"{detail}: {message}", secrets), code)
    if status >= 500:
        return NotObtained(FailureKind.UNAVAILABLE, detail, code)
    return NotObtained(FailureKind.REFUSED, detail, code)


def _not_retrieved(error: Exception) -> NotObtained:
    """Tell the method, and the status if there is one: the rest is the body of an answer, or a program's output."""
    known = getattr(error, "kwargs", {})
    method, status = str(known.get("provider", "")), _STATUS.search(str(known.get("error_msg", "")))
    if status is None:
        return NotObtained(FailureKind.UNAVAILABLE, method)
    kind = FailureKind.DENIED if status["status"] in ("401", "403") else FailureKind.UNAVAILABLE
    return NotObtained(kind, f"{method}: HTTP {status['status']}")


def _tame(provider: object) -> None:
    """Take from one of botocore's providers what a server cannot live with: waiting for ever, and a stretched expiry.

    There are no public switches. tests/credentials/test_chain.py fails if one of these names changes.
    """
    method = getattr(provider, "METHOD", "")
    if method == "custom-process":
        vars(provider)["_popen"] = _BoundedProcess
    elif method == "iam-role":
        # It would add up to 25 minutes to the life of credentials that are about to end, in the hope that the stores
        # do so too.
        fetcher = vars(provider)["_role_fetcher"]
        vars(fetcher)["_evaluate_expiration"] = _leave_expiry
        ask_metadata_directly(fetcher)
    elif method == "assume-role":
        own = vars(provider)
        own["_prompter"] = _no_prompt
        # What a profile's `credential_source` names: today the very providers of the chain, whichever are left in it.
        for source in own["_credential_sourcer"]._providers:  # noqa: SLF001 - see the docstring
            _tame(source)
        builder = own["_profile_provider_builder"]
        make = builder._create_process_provider  # noqa: SLF001 - see the docstring

        def made(profile: str) -> object:
            nested = make(profile)
            _tame(nested)
            return nested

        vars(builder)["_create_process_provider"] = made


def _leave_expiry(_credentials: object) -> None:
    """Do nothing."""


def _no_prompt(_text: str) -> NoReturn:
    raise NotObtained(FailureKind.CONFIGURATION, "the profile asks for an MFA code, which cannot be entered here")


class _BoundedProcess(subprocess.Popen[bytes]):
    """A program that is ended, with all that it started, if it takes too long."""

    def __init__(self, arguments: list[str], *, stdout: int, stderr: int) -> None:
        super().__init__(arguments, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True)

    def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:  # noqa: A002 - the name of the base class
        try:
            return super().communicate(input, PROCESS_SECONDS if timeout is None else timeout)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            for stream in (self.stdout, self.stderr):
                if stream is not None:
                    stream.close()
            self.wait()
            raise NotObtained(FailureKind.TIMEOUT, "credential_process") from None
