"""Declare the profiles by which SDKs are given keys from an endpoint on loopback, as they are in a container."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from signproxy.config.addresses import is_loopback
from signproxy.config.fields import Text
from signproxy.config.s3 import MAX_KEY_SECONDS, S3Identity
from signproxy.documents import child

if TYPE_CHECKING:
    from signproxy.config.settings import Settings

MIN_CONTAINER_SECONDS = 1_800
"""botocore renews keys from 15 minutes before their end, and asks with each request of that time."""

_NAME = re.compile(r"[A-Za-z0-9_\-]{1,64}")


class ProfileAccess(Enum):
    """What the keys of a profile may do."""

    READ = "read"
    READ_WRITE = "read-write"


class ContainerProfile(msgspec.Struct, frozen=True):
    """Keys for the caller, good at the S3 listener for a catalog, a namespace or a table, within its rights."""

    catalog: Text
    namespace: str = ""
    """With dots between its levels; the whole catalog if empty."""
    table: str = ""
    """The whole namespace if empty."""
    access: ProfileAccess = ProfileAccess.READ
    """The most that the keys may do."""
    seconds: Annotated[int, Meta(ge=MIN_CONTAINER_SECONDS, le=MAX_KEY_SECONDS)] = 3_600
    """How long the keys live at most; they never outlive the token that is shown for them."""


class ContainerSettings(msgspec.Struct, frozen=True):
    """The endpoint of `AWS_CONTAINER_CREDENTIALS_FULL_URI`, on loopback alone; off without profiles."""

    profiles: dict[Text, ContainerProfile] = {}
    """Each under its name, which is the end of the path: `/v1/aws/container-credentials/<name>`."""


def container_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield path and problem of everything that keeps a profile from being served."""
    section, s3, listen = "container_credentials.profiles", settings.s3, settings.listen
    profiles = settings.container_credentials.profiles
    if not profiles:
        return
    if not s3.enabled or S3Identity.EMULATED not in s3.identities:
        yield section, "issued keys are good at the S3 listener alone; set s3.enabled, with `emulated` in s3.identities"
    if not listen.tcp or not is_loopback(listen.host):
        yield section, "SDKs ask by TCP, on loopback alone; set listen.tcp, and listen.host to 127.0.0.1"
    for name, profile in profiles.items():
        path = child(section, name)
        if not _NAME.fullmatch(name):
            yield path, f"{name!r} is no name; letters, digits, `-` and `_` are, 64 of them at most"
        if profile.table and not profile.namespace:
            yield f"{path}.table", "a table has a namespace; set it beside"
        if profile.namespace and not all(profile.namespace.split(".")):
            yield f"{path}.namespace", f"{profile.namespace!r} has an empty level"
        if profile.seconds > s3.keys.max_seconds:
            yield f"{path}.seconds", f"{profile.seconds} is more than s3.keys.max_seconds ({s3.keys.max_seconds})"
