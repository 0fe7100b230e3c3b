"""What a fleet of executors costs a session service, by the requests that the service itself sees."""

from __future__ import annotations

import asyncio

from signproxy.vending.mints import SessionVendor
from tests.credentials.services import Service
from tests.vending.scopes import scope
from tests.vending.services import answering, session_service


async def test_a_fleet_that_starts_at_once_is_one_question_per_policy(service: Service) -> None:
    """A thousand executors load four tables each, and services throttle an account at a few dozen a second."""
    answering(service)
    vendor = SessionVendor({"lake": session_service(service)})
    tables = [scope(f"lake/wh/t{number}", event_id=f"e{number}") for number in range(4)]
    try:
        keys = await asyncio.gather(*(vendor.vend(table) for _ in range(1000) for table in tables))
        assert len(service.seen) == 4
        assert len({each.policy_digest for each in keys}) == 4
        # From now on nothing is asked.
        await asyncio.gather(*(vendor.vend(table) for _ in range(1000) for table in tables))
        assert len(service.seen) == 4
        # What another caller may do is another policy's matter, even where it says the same.
        await vendor.vend(scope("lake/wh/t0", principal="corp/bob"))
        assert len(service.seen) == 5
    finally:
        await vendor.aclose()
