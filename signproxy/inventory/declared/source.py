"""Load the policy from where it is kept, as often as asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from signproxy.errors import Finding
from signproxy.inventory.declared.build import CheckBindings, build_state
from signproxy.inventory.declared.snapshot import MemorySnapshot, read_consistently
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage


class PolicySource(Protocol):
    """Where a policy comes from. `load` may run in a worker thread beside a serving event loop."""

    def load(self, epoch: int) -> PolicyState:
        """Return the policy as it stands now. Raise PolicyInvalid; the caller keeps what it has."""
        ...


def accept_bindings(_: Mapping[str, Storage]) -> Iterable[Finding]:
    """Find no fault with any storage: for judging a policy without settings."""
    return ()


class FilePolicySource:
    """A policy in one file, or in all files of a directory, with inventories beside them.

    A load keeps nothing in globals. Its million small values are invisible to the garbage collector, so it
    neither switches the collector off nor freezes what it made; the code that swaps states may.
    """

    __slots__ = ("_check_bindings", "_path", "_single_issuer")

    def __init__(
        self, path: Path, check_bindings: CheckBindings = accept_bindings, *, single_issuer: bool = False
    ) -> None:
        self._path = path
        self._check_bindings = check_bindings
        self._single_issuer = single_issuer

    def load(self, epoch: int) -> PolicyState:
        """Return the policy as the files say now. Raise PolicyInvalid."""
        return read_consistently(
            self._path,
            lambda snapshot: build_state(
                snapshot, epoch=epoch, check_bindings=self._check_bindings, single_issuer=self._single_issuer
            ),
        )


class MemoryPolicySource:
    """The same policy language without files: for tests, and for programs that embed signproxy."""

    __slots__ = ("_check_bindings", "_files", "_single_issuer")

    def __init__(
        self,
        files: Mapping[str, bytes] | str,
        check_bindings: CheckBindings = accept_bindings,
        *,
        single_issuer: bool = False,
    ) -> None:
        self._check_bindings = check_bindings
        self._single_issuer = single_issuer
        self._files: Mapping[str, bytes] = {}
        self.replace(files)

    def replace(self, files: Mapping[str, bytes] | str) -> None:
        """Let the next load see other files; text stands for a single policy file."""
        self._files = {"policy.yaml": files.encode()} if isinstance(files, str) else dict(files)

    def load(self, epoch: int) -> PolicyState:
        """Return the policy as the files say now. Raise PolicyInvalid."""
        return build_state(
            MemorySnapshot(self._files),
            epoch=epoch,
            check_bindings=self._check_bindings,
            single_issuer=self._single_issuer,
        )
