"""Write the generated parts of the documentation, or tell what differs: `python -m tools.docs [--check]`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from signproxy.cli.terminal import complain, say
from tools.docs import audit_event, clients, metrics, operations, privileges, reasons, schema, settings

DOCS = Path(__file__).parents[2] / "docs"

_NOTICE = "<!-- Generated from the code by `python -m tools.docs`; do not edit. -->\n\n"

PAGES: dict[str, Callable[[], str]] = {
    "audit-event.schema.json": audit_event.page,
    "metrics.md": metrics.page,
    "operations-table.md": operations.page,
    "reasons.md": reasons.page,
    "settings.md": settings.page,
    "settings.schema.json": schema.page,
}
"""Pages that are generated as a whole."""

SECTIONS: dict[str, dict[str, Callable[[], str]]] = {
    "policy.md": {"privileges": privileges.privileges},
    "clients.md": {
        "forms": clients.forms,
        "spark": clients.spark,
        "pyiceberg": clients.pyiceberg,
        "flink": clients.flink,
        "runtimes": clients.runtimes,
        "direct": clients.direct,
        "transparent": clients.transparent,
        "pyarrow": clients.pyarrow,
        "duckdb": clients.duckdb,
        "polars": clients.polars,
        "awscli": clients.awscli,
    },
}
"""Pages that are written by hand around generated sections."""

SAME = 0
DIFFERENT = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages; with --check, write nothing and name those that differ."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=main.__doc__, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="exit 1 if a page differs from the code")
    parser.add_argument("--directory", type=Path, default=DOCS, help="default: docs/ beside the package")
    options = parser.parse_args(argv)
    outdated = [
        name for name in (*PAGES, *SECTIONS) if _read(options.directory / name) != render(options.directory, name)
    ]
    for name in outdated:
        if options.check:
            complain(f"docs/{name} differs from the code; run `python -m tools.docs`")
        else:
            (options.directory / name).write_text(render(options.directory, name), encoding="utf-8")
            say(f"wrote {name}")
    return DIFFERENT if options.check and outdated else SAME


def render(directory: Path, name: str) -> str:
    """Return what a page should hold."""
    if name in PAGES:
        # JSON has no comments; the schema says it in a key.
        return f"{_NOTICE if name.endswith('.md') else ''}{PAGES[name]()}"
    text = _read(directory / name)
    for section, write in SECTIONS[name].items():
        begin, end = f"<!-- generated: {section} -->\n", f"<!-- end of {section} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if not pattern.search(text):
            raise LookupError(f"docs/{name} has no section {section!r}")
        before, after = pattern.split(text, maxsplit=1)
        text = before + begin + write() + end + after
    return text


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""
