"""Take the client properties from where users find them: the README, and what signproxy advertises."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from urllib.request import Request, urlopen

from tests.e2e.clients.drive import CATALOG, Lake

_README = (Path(__file__).parents[3] / "README.md").read_text()
_HOST = "http://127.0.0.1:8181"
_TOKEN = "…"


def pyiceberg_properties(lake: Lake) -> dict[str, str]:
    """Return what the README passes to `load_catalog`, with host, token and region of this run."""
    ((block,),) = [re.findall(r"```python\n(load_catalog\(.*?)```", _README, re.DOTALL)]
    call = ast.parse(block.strip(), mode="eval").body
    assert isinstance(call, ast.Call)
    properties: dict[str, str] = {}
    for keyword in call.keywords:
        value = ast.literal_eval(keyword.value)
        properties |= value if keyword.arg is None else {keyword.arg: value}
    return _here(properties, lake)


def java_properties(lake: Lake) -> dict[str, str]:
    """Return the properties of the README's Spark catalog, with host, token and region of this run."""
    found = re.findall(rf"^spark\.sql\.catalog\.{CATALOG}\.(\S+) +(\S+)$", _README, re.MULTILINE)
    return _here(dict(found), lake)


def advertised_properties(lake: Lake) -> dict[str, str]:
    """Return what `GET /v1/config` tells a client that asks for remote signing, and a token."""
    headers = {"X-Iceberg-Access-Delegation": "remote-signing", "Authorization": f"Bearer {lake.server.token}"}
    with urlopen(Request(f"{lake.url}/catalogs/{CATALOG}/v1/config", headers=headers), timeout=30) as answer:
        config = json.load(answer)
    return {**config["defaults"], **config["overrides"], "token": lake.server.token}


def store_properties(lake: Lake) -> dict[str, str]:
    """Return what a store that is not AWS needs besides, for both clients."""
    return {
        "s3.endpoint": lake.store.origin,
        "s3.path-style-access": "true",
        "s3.region": lake.store.region,
        "client.region": lake.store.region,
    }


def _here(properties: dict[str, str], lake: Lake) -> dict[str, str]:
    assert properties["token"] == _TOKEN
    assert any(value.startswith(_HOST) for value in properties.values())
    return {
        name: lake.server.token if name == "token" else value.replace(_HOST, lake.url)
        for name, value in properties.items()
        if not name.endswith("region")
    }
