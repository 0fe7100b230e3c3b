"""What the status page says of upstreams' inventories, and of what is kept of them."""

from __future__ import annotations

import msgspec

from signproxy.server.status.report import InventoryReport
from signproxy.server.status.status import joined_upstreams
from signproxy.server.status.troubles import upstream_troubles
from tests.server.status.reports import HOUR, NOW, UPSTREAM, worker

WELL = InventoryReport(NOW - HOUR, 12, (), "")


def told(*inventories: InventoryReport | None, sightings: str = "") -> list[tuple[str, tuple[str, ...]]]:
    workers = [
        worker(
            number,
            upstreams=(msgspec.structs.replace(UPSTREAM, inventory=inventory),),
            sightings_problem=sightings,
        )
        for number, inventory in enumerate(inventories)
    ]
    return [(str(trouble), trouble.details) for trouble in upstream_troubles(joined_upstreams(workers), workers, NOW)]


def test_an_inventory_that_is_there_is_no_trouble() -> None:
    """An operator who is told of everything reads nothing."""
    assert told(None, None) == []
    assert told(WELL, WELL) == []


def test_one_that_grows_old_is_told_before_it_counts_for_nothing() -> None:
    """New tables would be refused from one minute to the next."""
    failed = InventoryReport(NOW - HOUR, 12, (), "upstream_unauthorized: status 401")
    ((what, details),) = told(failed, WELL)
    assert what == "the inventory of catalog lake was begun 60 min ago; the next one failed"
    assert details == ("upstream_unauthorized: status 401",)
    # Before the first one the readiness says it.
    assert told(InventoryReport(0.0, 3, (), "status 401")) == []


def test_tables_that_cannot_be_loaded_are_named() -> None:
    """Their places are free as long as the tables are not repaired."""
    ((what, details),) = told(InventoryReport(NOW, 12, ("lake.sales.broken",), ""))
    assert what == "the upstream of catalog lake lists tables that it cannot load"
    assert details == ("lake.sales.broken",)


def test_what_is_not_kept_is_told_once_for_all_workers() -> None:
    """After the next restart first seen would be first believed, against the settings."""
    assert told(WELL, WELL, sightings="the file is full") == [
        ("what is learned of places is not kept", ("the file is full",))
    ]


def test_of_several_workers_the_oldest_inventory_counts() -> None:
    """The worker that fell behind is the one to look at."""
    older = InventoryReport(NOW - 2 * HOUR, 9, (), "down")
    reports = [
        worker(number, upstreams=(msgspec.structs.replace(UPSTREAM, inventory=inventory),))
        for number, inventory in enumerate((WELL, older, None))
    ]
    (upstream,) = joined_upstreams(reports)
    assert upstream.inventory == older
