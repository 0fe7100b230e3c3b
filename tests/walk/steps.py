"""Note every call that a request makes in the product, in order.

`sys.setprofile` tells of each call of a Python function on this thread. A call counts where the function stands below
`signproxy/`: frames of libraries and of the tests do not count, nor does the thread that writes the audit trail. A
coroutine or a generator counts once, when it is called, and not each time it goes on. A comprehension is a part of the
function that it stands in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import signproxy

_PRODUCT = Path(signproxy.__file__).parent
_PARTS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>"})


class Step(NamedTuple):
    """A call of a function."""

    file: str
    """Below `signproxy/`."""
    function: str
    """Its module below `signproxy`, its class and its name."""

    @property
    def room(self) -> str:
        """The package, or the module beside the packages, that it belongs to."""
        return self.file.partition("/")[0].removesuffix(".py")


class Counts(NamedTuple):
    """How long a way is."""

    calls: int
    files: int
    file_switches: int
    """Calls that are in another file than the call before them."""
    room_switches: int


class Walk(NamedTuple):
    """The calls of one request."""

    steps: tuple[Step, ...]

    @property
    def counts(self) -> Counts:
        """What the test compares with the record."""
        files, rooms = [step.file for step in self.steps], [step.room for step in self.steps]
        return Counts(len(files), len(set(files)), _switches(files), _switches(rooms))

    @property
    def functions(self) -> list[str]:
        """Each function once, in the order in which they are first called."""
        return list(dict.fromkeys(step.function for step in self.steps))


class Profile:
    """Notes the calls of this thread while it is on."""

    def __init__(self, package: Path = _PRODUCT) -> None:
        self._package = f"{package}/"
        self._steps: list[Step] = []
        self._known: dict[tuple[str, str], Step | None] = {}

    @property
    def walk(self) -> Walk:
        """What was noted."""
        return Walk(tuple(self._steps))

    @contextmanager
    def on(self) -> Iterator[None]:
        """Note every call of the block, and of whatever the event loop runs while the block waits."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or _goes_on(frame):
            return
        # Not by the code itself: equal ones of two files are one key.
        key = code.co_filename, code.co_qualname
        if key not in self._known:
            self._known[key] = self._step_of(code)
        step = self._known[key]
        if step is not None:
            self._steps.append(step)

    def _step_of(self, code: CodeType) -> Step | None:
        if not code.co_filename.startswith(self._package) or code.co_name in _PARTS:
            return None
        file = code.co_filename.removeprefix(self._package)
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return Step(file, f"{module}.{code.co_qualname}")


def _goes_on(frame: FrameType) -> bool:
    """Whether a coroutine or a generator is resumed, of which the interpreter tells as of a call.

    It tells when it is at an instruction RESUME. The argument of that is 0 at the beginning of a function alone:
    https://docs.python.org/3.11/library/dis.html#opcode-RESUME
    """
    return bool(frame.f_code.co_code[frame.f_lasti + 1] & 3)


def _switches(names: list[str]) -> int:
    return sum(one != other for one, other in pairwise(names))
