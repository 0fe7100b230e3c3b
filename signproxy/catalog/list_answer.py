"""Leave out of an upstream's lists what their reader may not see."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from signproxy.catalog.names import name_problem, namespace_problem
from signproxy.errors import Reason, Refused
from signproxy.model import NAMESPACE_SEPARATOR

MAX_TOKEN = 8192
"""Characters of a page token, which a client sends back in a query."""

_AT_ONCE = 16
"""Names that are judged before others may have their turn."""

T = TypeVar("T")

Visible = Callable[[str, str | None], bool]
"""Whether a table or view, or (the name is None) a namespace, may be seen."""


class _Identifier(msgspec.Struct, frozen=True, gc=False):
    """A table or view."""

    namespace: tuple[str, ...]
    name: str


class ListPage(msgspec.Struct, frozen=True, gc=False, rename="kebab"):
    """Both of the specification's lists; each has one of the two. A page that is filtered may be short, or empty."""

    identifiers: list[_Identifier] | UnsetType | None = UNSET
    namespaces: list[tuple[str, ...]] | UnsetType | None = UNSET
    next_page_token: str | UnsetType | None = UNSET


_decode = msgspec.json.Decoder(ListPage).decode
_encode = msgspec.json.Encoder().encode


def list_answer(upstream: bytes, visible: Visible) -> Generator[None, None, bytes]:
    """Return a list of namespaces, tables or views without what is not visible. Raise Refused (UPSTREAM_INVALID).

    Others have their turn between some names and the next ones.
    """
    told = read_list_page(upstream, "a list")
    token = told.next_page_token
    if isinstance(token, str) and len(token) > MAX_TOKEN:
        raise Refused(Reason.UPSTREAM_INVALID, f"a page token of {len(token)} characters")
    identifiers, namespaces = told.identifiers, told.namespaces
    if identifiers:
        identifiers = yield from _kept(identifiers, lambda each: _is_seen(visible, each.namespace, each.name))
    if namespaces:
        namespaces = yield from _kept(namespaces, lambda each: _is_seen(visible, each, None))
    return _encode(ListPage(identifiers=identifiers, namespaces=namespaces, next_page_token=token))


def read_list_page(upstream: bytes, what: str) -> ListPage:
    """Return a page of a list. Raise Refused (UPSTREAM_INVALID), which says what was read."""
    try:
        return _decode(upstream)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(Reason.UPSTREAM_INVALID, f"{what}: {error}") from None


def _kept(named: list[T], is_seen: Callable[[T], bool]) -> Generator[None, None, list[T]]:
    kept: list[T] = []
    for start in range(0, len(named), _AT_ONCE):
        kept += filter(is_seen, named[start : start + _AT_ONCE])
        yield
    return kept


def _is_seen(visible: Visible, levels: tuple[str, ...], name: str | None) -> bool:
    namespace = NAMESPACE_SEPARATOR.join(levels)
    # What no call could name is not shown: it would be judged as something else than it is.
    if namespace_problem(namespace) or namespace.count(NAMESPACE_SEPARATOR) >= len(levels):
        return False
    if name is not None and name_problem(name):
        return False
    return visible(namespace, name)
