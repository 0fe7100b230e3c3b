"""Tell which client asks, and whether it asks for its requests to be signed.

What each generation reads of an answer; one answer serves all of them, since what one needs another ignores:

* Iceberg Java up to 1.11 goes to `s3.signer.uri` and `s3.signer.endpoint`, and repeats the endpoint's query.
* Iceberg Java from 1.12 goes to the `…/sign` route below its catalog's own `uri`, unless it is given `signer.*`, and
  repeats what `remote-signing-config` holds.
* PyIceberg goes where the older Java does, if `s3.signer` and `py-io-impl` say that it shall sign at all.
"""

from __future__ import annotations

from enum import Enum

DELEGATION_HEADER = "X-Iceberg-Access-Delegation"
_REMOTE_SIGNING = "remote-signing"

_JAVA = "apache iceberg "
_PYICEBERG = "pyiceberg/"


class IcebergClient(Enum):
    """Clients that are answered differently."""

    JAVA = "iceberg-java"
    PYICEBERG = "pyiceberg"
    """Its file systems are told apart by their settings alone: see `SignerGrant`."""
    OTHER = "other"


class Offer(Enum):
    """Who is told how to have requests signed."""

    ON_REQUEST = "on-request"
    """Clients that ask; iceberg-go, for one, refuses a table that offers it."""
    ALWAYS = "always"


def client_of(user_agent: str, client_version: str) -> IcebergClient:
    """Return the client by its `User-Agent` and `X-Client-Version`; PyIceberg sends the latter, too, to no use."""
    if user_agent[: len(_PYICEBERG)].lower() == _PYICEBERG:
        return IcebergClient.PYICEBERG
    if client_version[: len(_JAVA)].lower() == _JAVA:
        return IcebergClient.JAVA
    return IcebergClient.OTHER


def asks_for_signing(delegation: str) -> bool:
    """Whether the access-delegation header names remote signing."""
    return _REMOTE_SIGNING in (mode.strip() for mode in delegation.split(","))


def is_offered(offer: Offer, delegation: str) -> bool:
    """Whether a caller with this access-delegation header is told how to have requests signed."""
    return offer is Offer.ALWAYS or asks_for_signing(delegation)
