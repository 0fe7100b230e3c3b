"""Mark the ETags of answers that were changed, and take the mark off what a client sends back.

An answer differs from the upstream's by what was added to it: with the upstream's own tag, a client that kept an answer
made for other settings, or without signproxy, would go on using that.
"""

from __future__ import annotations

import re

MAX_TAG = 512
MAX_TAGS = 32
"""Of one header; a client keeps one answer of a table, or a few."""

_TAG = re.compile(r'(?P<weak>W/)?"(?P<opaque>[\x21\x23-\x7e]*)"')
_LIST = re.compile(r'\s*(?P<tag>(?:W/)?"[\x21\x23-\x7e]*")\s*(?:,|$)')
_MARK = ".sp-"


def marked(etag: str, variant: str) -> str | None:
    """Return the ETag of an answer that was made of one with `etag`; None where that is none."""
    found = _TAG.fullmatch(etag) if len(etag) <= MAX_TAG else None
    if found is None:
        return None
    return f'{found["weak"] or ""}"{found["opaque"]}{_MARK}{variant}"'


def unmarked(if_none_match: str, variant: str) -> str | None:
    """Return the `If-None-Match` for the upstream: the tags of answers that would be the same today.

    None where there are none; `*` is one, for it means any answer, those of other settings included.
    """
    tags: list[str] = []
    position = 0
    while position < len(if_none_match) and len(tags) < MAX_TAGS:
        found = _LIST.match(if_none_match, position)
        if found is None:
            return None
        position = found.end()
        end = f'{_MARK}{variant}"'
        if found["tag"].endswith(end):
            tags.append(f'{found["tag"][: -len(end)]}"')
    return ", ".join(tags) or None
