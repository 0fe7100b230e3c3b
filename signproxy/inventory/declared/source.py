"""Load the policy from where it is kept, as often as asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from signproxy.errors import Finding
from signproxy.inventory.declared.build import CheckBindings, build_state
from signproxy.inventory.declared.snapshot import read_consistently
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage


def accept_bindings(_: Mapping[str, Storage]) -> Iterable[Finding]:
    """Find no fault with any storage: for judging a policy without settings."""
    return ()


class FilePolicySource:
    """A policy in one file, or in all files of a directory, with inventories beside them.

    A load keeps nothing in globals. Its million small values are invisible to the garbage collector, so it
    neither switches the collector off nor freezes what it made; the code that swaps states may.
    """

    def __init__(
        self, path: Path, check_bindings: CheckBindings = accept_bindings, *, single_issuer: bool = False
    ) -> None:
        self._path = path
        self._build = partial(build_state, check_bindings=check_bindings, single_issuer=single_issuer)

    def load(self, epoch: int) -> PolicyState:
        """Return the policy as the files say now. Raise PolicyInvalid."""
        return read_consistently(self._path, partial(self._build, epoch=epoch))
