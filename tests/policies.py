"""Policies without files, for tests that are about something else than how a policy is read."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import partial
from typing import BinaryIO

from signproxy.inventory.declared.build import CheckBindings, build_state
from signproxy.inventory.declared.snapshot import FileSnapshot
from signproxy.inventory.declared.source import accept_bindings
from signproxy.policy.state import PolicyState


class MemorySnapshot(FileSnapshot):
    """Files that only exist in memory."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)

    def documents(self) -> list[tuple[str, bytes]]:
        """Return name and content of each policy file, in the order of their names."""
        return [(name, content) for name, content in sorted(self._files.items()) if name.endswith((".yaml", ".yml"))]

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return name in self._files

    def inventory(self, name: str) -> BinaryIO:
        """Open a file."""
        return io.BytesIO(self._files[name])


class MemoryPolicySource:
    """The same policy language without files."""

    def __init__(
        self,
        files: Mapping[str, bytes] | str,
        check_bindings: CheckBindings = accept_bindings,
        *,
        single_issuer: bool = False,
    ) -> None:
        self._build = partial(build_state, check_bindings=check_bindings, single_issuer=single_issuer)
        self.replace(files)

    def replace(self, files: Mapping[str, bytes] | str) -> None:
        """Let the next load see other files; text stands for a single policy file."""
        self._files = {"policy.yaml": files.encode()} if isinstance(files, str) else dict(files)

    def load(self, epoch: int) -> PolicyState:
        """Return the policy as the files say now. Raise PolicyInvalid."""
        return self._build(MemorySnapshot(self._files), epoch=epoch)
