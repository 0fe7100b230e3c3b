"""Read what is known of each class of finding before anything is found: `findings.toml` says how it is written."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

import msgspec

_OF_REQUESTS = """\
SELECT {shown}
FROM access_attribution a
WHERE array_contains(a.faults, '{code}'){{days}}
ORDER BY a.ts"""


class FindingSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is known of a class."""

    title: str
    what: str = ""
    severity: str = ""
    """Empty where each finding has its own."""
    fix: str = ""
    fixes: Mapping[str, str] = {}
    """Instead of it, where that depends on what was found."""
    subject: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    sql: str = ""
    dated: str = ""

    def query(self, code: str) -> str:
        """Return the query that shows the rows behind findings, with `{days}` in it."""
        columns = ("ts", "bucket", "key", "method", "status", *self.shown, "request_id")
        return self.sql or _OF_REQUESTS.format(code=code, shown=", ".join(f"a.{column}" for column in columns))


SPECS = msgspec.toml.decode(
    files("signproxy.pipeline").joinpath("findings.toml").read_bytes(), type=dict[str, FindingSpec]
)
"""By the code of the class."""
