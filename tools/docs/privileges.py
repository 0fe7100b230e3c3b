"""Write the table of privileges for the page about policies."""

from __future__ import annotations

from signproxy.policy.privileges import PRIVILEGES, Privilege
from tools.docs.markdown import code, codes, table


def privileges() -> str:
    """Return each privilege with everything that a grant of it satisfies."""
    rows = [
        (code(name), codes(str(other.name) for other in Privilege if mask & other and other.name != name))
        for name, mask in PRIVILEGES.items()
    ]
    return table(("a grant of", "satisfies as well"), rows)
