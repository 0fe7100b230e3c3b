"""Write the JSON Schema of the settings, for editors and for checks of charts."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from signproxy.config.settings import Settings
from tools.docs.fields import docstrings
from tools.docs.settings import structs

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_COMMENT = "Generated from the code by `python -m tools.docs`; do not edit."


def page() -> str:
    """Return the schema of a settings file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    """Return the schema: what each key takes, and that there are no others.

    What one setting demands of another is not in it; `signproxy check-config` knows that as well.
    """
    made = msgspec.json.schema(Settings)
    for _, kind in structs("", msgspec.inspect.type_info(Settings)):
        section = made["$defs"][kind.cls.__name__]
        section["additionalProperties"] = False
        words = docstrings(kind.cls)
        for field in kind.fields:
            key = section["properties"][field.encode_name]
            # A section's default is told at its own keys.
            if isinstance(key.get("default"), dict):
                del key["default"]
            if said := words.get(field.name):
                section["properties"][field.encode_name] = {"description": said, **key}
    return {"$schema": _DIALECT, "$comment": _COMMENT, "title": "Settings of signproxy", **made}
