"""Write policies for tests: a sound one, and what to add to it."""

from __future__ import annotations

from signproxy.errors import PolicyInvalid
from signproxy.policy.state import PolicyState
from tests.policies import MemoryPolicySource

BASE = """
remote_signing: true
storages:
  aws: {kind: aws, region: us-east-1, buckets: [lake, cold]}
catalogs:
  lake: {storages: [aws], roots: ["s3://lake/wh", "s3://cold"], remote_signing: true}
catalog_roles: {lake: [analyst, loader]}
principal_roles: {analysts: {lake: [analyst]}}
principals: {corp/alice: {roles: [analysts]}}
"""
TABLE = '- {namespace: sales, name: orders, location: "s3://lake/wh/orders"}\n'


def load(*texts: str, single_issuer: bool = False, **inventories: str) -> PolicyState:
    """Return the state of these policy files; a keyword `x` is the inventory `x.ndjson`."""
    files = {f"{number}.yaml": text.encode() for number, text in enumerate(texts)}
    files |= {f"{name}.ndjson": text.encode() for name, text in inventories.items()}
    return MemoryPolicySource(files, single_issuer=single_issuer).load(1)


def faults(*texts: str, single_issuer: bool = False, **inventories: str) -> list[str]:
    """Return what is wrong with these policy files, as an operator reads it."""
    try:
        load(*texts, single_issuer=single_issuer, **inventories)
    except PolicyInvalid as invalid:
        return [str(finding) for finding in invalid.findings]
    return []
