"""Write the JSON Schema of the lines of a segment, for readers of the trail with tools of their own."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from signproxy.audit.event import SCHEMA, AuditEvent
from signproxy.audit.segment import SegmentEnd, SegmentStart
from tools.docs.fields import docstrings

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_COMMENT = "Generated from the code by `python -m tools.docs`; do not edit."
_LINES = (AuditEvent, SegmentStart, SegmentEnd)
_EDGES = ("segment_start", "segment_end")


def page() -> str:
    """Return the schema of a line."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    """Return the schema. Fields may be added to a line without another version, so it forbids none."""
    _, sections = msgspec.json.schema_components(_LINES)
    for line in _LINES:
        section = sections[line.__name__]
        for name, text in docstrings(line).items():
            section["properties"][name]["description"] = text
    # Told apart by `kind` alone: an event is of none of the kinds of the two edges.
    event = sections[AuditEvent.__name__]
    event["properties"]["kind"] = {"$ref": "#/$defs/Kind", "not": {"enum": list(_EDGES)}}
    return {
        "$schema": _DIALECT,
        "$comment": _COMMENT,
        "title": f"A line of an audit segment, {SCHEMA}",
        "oneOf": [{"$ref": f"#/$defs/{line.__name__}"} for line in _LINES],
        "$defs": sections,
    }
