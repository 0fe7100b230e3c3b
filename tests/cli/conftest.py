"""Give the command tests a small installation: settings, policy, credentials and an issuer."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

ENDPOINT = "http://127.0.0.1:9000"
TABLE = f"{ENDPOINT}/acme-lake/warehouse/sales/orders"
TOKEN = "k7Qm2Xw9Lr4Tn8Vb1Zc5Jd3Hs6Pf0GaY"
SECRET = "a-shared-secret-of-thirty-two-bytes!"

SETTINGS = f"""
policy: {{path: policy.yaml}}
identity:
  issuers:
    idp:
      issuer: https://idp.example
      audiences: [signproxy]
      algorithms: [HS256]
      secret_file: secret
      roles_claim: roles
      roles: [analyst]
  static_tokens:
    - {{sha256: {hashlib.sha256(TOKEN.encode()).hexdigest()}, principal: robot, roles: [etl]}}
credentials:
  providers:
    keys: {{class: static, properties: {{access_key_id_file: id, secret_access_key_file: key}}}}
storages:
  main: {{credentials: keys, hosts: ['127.0.0.1:9000']}}
"""

POLICY = f"""
remote_signing: true
storages:
  main:
    kind: s3-compatible
    region: eu-central-1
    buckets: [acme-lake]
    endpoints: [{{url: '{ENDPOINT}'}}]
    checks_unsigned_headers: true
    checks_payload_hash: true
catalogs:
  lake: {{storages: [main], remote_signing: true}}
catalog_roles: {{lake: [reader, writer]}}
principal_roles:
  analyst: {{lake: [reader]}}
  etl: {{lake: [reader, writer]}}
principals:
  idp/ann: {{roles: [analyst]}}
tables:
  - {{namespace: sales, name: orders, location: s3://acme-lake/warehouse/sales/orders}}
grants:
  - {{role: reader, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}}
  - {{role: writer, privileges: [TABLE_WRITE_DATA]}}
"""


@pytest.fixture(autouse=True)
def _quiet(quiet_environment: None) -> None:
    """No setting of the machine that runs the tests reaches a command."""


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """Return the settings file."""
    for name, text in {
        "signproxy.yaml": SETTINGS,
        "policy.yaml": POLICY,
        "secret": f"{SECRET}\n",
        "id": "AKIAIOSFODNN7EXAMPLE\n",
        "key": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY12\n",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "signproxy.yaml"
