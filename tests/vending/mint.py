"""Be the STS of a store, in memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from signproxy.errors import Refused
from signproxy.vending.vended import VendedKeys, VendScope
from signproxy.vending.vending import Minting
from tests.product import Product


class Mint:
    """A store's STS."""

    def __init__(self) -> None:
        self.asked: list[VendScope] = []
        self.refuses: Refused | None = None
        self.life = 900.0
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens while it makes keys."""

    async def vend(self, scope: VendScope) -> VendedKeys:
        self.asked.append(scope)
        self.meanwhile()
        if self.refuses is not None:
            raise self.refuses
        return VendedKeys(
            access_key_id="ASIAEXAMPLE00000MINT",
            secret_access_key="minted",
            session_token="minted-token",
            expires_at=time.time() + self.life,
            session_name="sp-writer-1",
            policy_digest="d" * 64,
        )


def minting(product: Product, mint: Mint, *, bound: bool = True) -> None:
    """Have the store's STS make the keys; `bound` ones end with the token of their caller."""
    rooms = product.house.rooms
    vend, config = rooms.api.vending, rooms.api.config
    storages = frozenset({"main"})
    made = Minting(mint, storages, product.catalogs.learned, storages if bound else frozenset())
    vending = vend.vending._replace(issuing=None, minting=made)
    facade = None if config.facade is None else replace(config.facade, vending=vending)
    api = rooms.api._replace(vending=vend._replace(vending=vending), config=config._replace(facade=facade))
    product.house.swap(rooms._replace(api=api))
