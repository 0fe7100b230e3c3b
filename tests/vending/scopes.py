"""Make scopes and storages for tests."""

from __future__ import annotations

from collections.abc import Generator

from signproxy.policy.location import Location
from signproxy.policy.table import MetadataLevel, Overwrite
from signproxy.s3.storage import OptIns, Storage, StorageKind, aws_endpoints
from signproxy.vending.policy_language import language_of
from signproxy.vending.vended import OtherPlaces, VendAccess, VendScope

REGION = "eu-west-1"
AMAZON = Storage("lake", StorageKind.AWS, REGION, ("lake", "cold"), aws_endpoints(REGION), literal_keys=True)
COMPATIBLE = Storage("weed", StorageKind.S3_COMPATIBLE, REGION, ("lake", "cold"), ())
AWS_LANGUAGE = language_of(AMAZON)
PLAIN = language_of(COMPATIBLE)

READ, READ_WRITE = VendAccess.READ, VendAccess.READ_WRITE
EVENT = "01KA0000000000000000000001"


class Alone:
    """An inventory with no other place near; or with one, which is found everywhere."""

    def __init__(self, found: str = "") -> None:
        self.found = found

    def meets(self, _location: Location) -> str:
        """Return it."""
        return self.found

    def resembles(self, _location: Location) -> Generator[None, None, str]:
        """Return it."""
        yield
        return self.found


ALONE = Alone()


def at(text: str) -> Location:
    """Return `bucket/path` as a location."""
    bucket, _, path = text.partition("/")
    return Location(bucket, path)


def scope(
    *places: str,
    access: VendAccess = READ,
    metadata: MetadataLevel = MetadataLevel.PROTECTED,
    metadata_places: tuple[str, ...] | None = None,
    others: Alone = ALONE,
    principal: str = "corp/alice",
    policy_epoch: int = 1,
    event_id: str = EVENT,
    storage: str = "lake",
    overwrite: Overwrite = Overwrite.ALLOWED,
    latest: float | None = None,
) -> VendScope:
    """Return a scope; its metadata lies where every table has it."""
    where = places or ("lake/wh/t1",)
    below = [f"{place}/metadata" for place in where] if metadata_places is None else metadata_places
    return VendScope(
        storage=storage,
        locations=tuple(map(at, where)),
        access=access,
        metadata=metadata,
        metadata_locations=tuple(map(at, below)),
        others=others,
        principal=principal,
        policy_epoch=policy_epoch,
        event_id=event_id,
        overwrite=overwrite,
        latest=latest,
    )


def storage_with(opt_ins: OptIns) -> Storage:
    """Return Amazon's storage with these opt-ins."""
    return Storage(
        "lake", StorageKind.AWS, REGION, ("lake", "cold"), aws_endpoints(REGION), opt_ins=opt_ins, literal_keys=True
    )


def resembled(places: OtherPlaces, location: Location) -> str:
    """Return whose place looks like a location, in one go."""
    looking = places.resembles(location)
    while True:
        try:
            next(looking)
        except StopIteration as end:
            return str(end.value)
