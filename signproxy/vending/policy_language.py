"""Say what a store makes of a session policy: stores that enforce one read it in their own ways."""

from __future__ import annotations

import msgspec

from signproxy.s3.storage import Storage, StorageKind


class PolicyLanguage(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows of the language of policies; by default what Amazon's does."""

    partition: str = "aws"
    escapes: bool = True
    """It knows `${*}`, `${?}` and `${$}`. SeaweedFS and MinIO do not: they would refuse what stands there escaped, and
    take what does not for a pattern."""
    tells_case: bool = True
    """It tells capital from small letters. To SeaweedFS a policy for `t1` is one for `T1` too."""
    denies_sessions: bool = True
    """It can be told that a session asks for no further one. SeaweedFS has to be: it would give a session without a
    policy. MinIO knows no such action, and gives a session none."""
    judges_prefix: bool = True
    """It compares `s3:prefix` with the prefix that it lists, and with nothing else. To MinIO a second `prefix` will do,
    or a header of that name: it would list the whole bucket."""


def language_of(
    storage: Storage,
    *,
    escapes: bool = False,
    tells_case: bool = False,
    denies_sessions: bool = True,
    judges_prefix: bool = False,
) -> PolicyLanguage:
    """Return the language of a storage; the rest is the operator's word for a store that is not Amazon's."""
    if storage.kind is not StorageKind.AWS:
        return PolicyLanguage(
            escapes=escapes, tells_case=tells_case, denies_sessions=denies_sessions, judges_prefix=judges_prefix
        )
    for start, partition in (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov")):
        if storage.region.startswith(start):
            return PolicyLanguage(partition=partition)
    return PolicyLanguage()
