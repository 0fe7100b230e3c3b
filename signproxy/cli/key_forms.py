"""Write an S3 key in the form that its reader takes, or how the reader gets one by itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

import msgspec

from signproxy.cli.clients.token import DEFAULT_VARIABLE, TokenSource
from signproxy.cli.key_request import Key


class KeyForm(Enum):
    """The forms of `signproxy keys issue`."""

    ENV = "env"
    JSON = "json"
    AWS_CONFIG = "aws-config"
    PROCESS = "process"


class KeyEndpoint(msgspec.Struct, frozen=True):
    """What a client has to know beside its key."""

    url: str = ""
    region: str = ""


def command(url: str, token: TokenSource, asked: Mapping[str, str], form: KeyForm) -> list[str]:
    """Return the command that issues such a key; the token is never a part of it. What is asked for may be empty."""
    words = ["signproxy", "keys", "issue", "--url", url]
    given = {
        "--token-file": token.file,
        "--token-env": "" if token.file or token.variable == DEFAULT_VARIABLE else token.variable,
        **asked,
        "--format": form.value,
    }
    for option, value in given.items():
        if value:
            words += [option, value]
    return words


def variables(key: Key, endpoint: KeyEndpoint) -> Iterator[str]:
    """Yield the lines of a shell that give the key to whatever looks for AWS' variables."""
    yield f"export AWS_ACCESS_KEY_ID={shlex.quote(key.access_key_id)}"
    yield f"export AWS_SECRET_ACCESS_KEY={shlex.quote(key.secret_access_key)}"
    if key.session_token:
        yield f"export AWS_SESSION_TOKEN={shlex.quote(key.session_token)}"
    else:
        # That of another key would be sent along.
        yield "unset AWS_SESSION_TOKEN"
    if endpoint.region:
        yield f"export AWS_REGION={shlex.quote(endpoint.region)}"
    if endpoint.url:
        yield f"export AWS_ENDPOINT_URL_S3={shlex.quote(endpoint.url)}"


def members(key: Key) -> dict[str, object]:
    """Return the key as the server told it."""
    return _named(key, "access-key-id", "secret-access-key", "session-token", "expires-at")


def process(key: Key) -> dict[str, object]:
    """Return the key as a `credential_process` of AWS' SDKs has to print it."""
    return {"Version": 1, **_named(key, "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")}


def _named(key: Key, *names: str) -> dict[str, object]:
    return {name: part for name, part in zip(names, key, strict=True) if part}


def profile(name: str, words: Sequence[str], endpoint: KeyEndpoint) -> Iterator[str]:
    """Yield a profile of `~/.aws/config` that gets its keys from a command, anew before each of them ends."""
    yield f"[profile {name}]"
    yield f"credential_process = {shlex.join(words)}"
    if endpoint.region:
        yield f"region = {endpoint.region}"
    if endpoint.url:
        yield f"endpoint_url = {endpoint.url}"
    yield "s3 ="
    yield "    addressing_style = path"
    # URLs would be presigned with version 2 otherwise, in the region us-east-1.
    yield "    signature_version = s3v4"
