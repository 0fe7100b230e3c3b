"""Write what Flink is configured with: a statement of its SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def statement(name: str, properties: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of CREATE CATALOG."""
    yield f"CREATE CATALOG `{name.replace('`', '``')}` WITH ("
    rows = [f"  {_quoted(key)} = {_quoted(value)}" for key, value in properties.items()]
    yield from (f"{row}," for row in rows[:-1])
    yield rows[-1]
    yield ");"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
