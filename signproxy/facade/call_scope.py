"""Keep a token for one table from what has its name and is not that table: a view, or a later table."""

from __future__ import annotations

from signproxy.catalog.call import CallKind
from signproxy.errors import Reason, Refused
from signproxy.model import TableScope

_OF_VIEWS = frozenset(kind for kind in CallKind if "VIEW" in kind.name)


def check_call(scope: TableScope, kind: CallKind, uuid: str | None) -> None:
    """Refuse a catalog call that the token is not good for; `uuid` is of the table that has the name now.

    It is None where no table has the name, as before the commit of a staged one. Raise Refused (NOT_IN_SCOPE).
    """
    if kind in _OF_VIEWS:
        raise Refused(Reason.NOT_IN_SCOPE, f"the token is good for table {scope.name!r}, and for no view")
    if scope.uuid and uuid is not None and uuid != scope.uuid:
        raise Refused(
            Reason.NOT_IN_SCOPE, f"the token is good for {scope.name!r} ({scope.uuid}), which is {uuid!r} now"
        )
