"""Run the real stores that signproxy is tested against, all behind one seam."""

from tests.e2e.stores.seam import DOMAIN, RunningStore, StoreKind, Traits
from tests.e2e.stores.seaweedfs import SEAWEEDFS
from tests.e2e.stores.swift import SWIFT
from tests.e2e.stores.versitygw import VERSITYGW

STORES = (VERSITYGW, SWIFT, SEAWEEDFS)

__all__ = ["DOMAIN", "SEAWEEDFS", "STORES", "SWIFT", "VERSITYGW", "RunningStore", "StoreKind", "Traits"]
