"""Read the Dockerfile and .dockerignore as a builder does: stages of instructions, and the files that it is sent."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

_CONTINUED = re.compile(r"\\\n")
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S+))?\s+")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its word, its flags, and the rest of the line."""

    word: str
    flags: dict[str, str]
    rest: str

    @property
    def words(self) -> list[str]:
        """The rest as a list: the exec form's members, or what blanks separate."""
        return list(json.loads(self.rest)) if self.rest.startswith("[") else self.rest.split()

    @property
    def pairs(self) -> dict[str, str]:
        """The rest as `NAME=value` pairs, without the quotes."""
        found = re.findall(r'([\w.]+)=("(?:[^"\\]|\\.)*"|\S*)', self.rest)
        return {name: value.strip('"') for name, value in found}


@dataclass(frozen=True, slots=True)
class Stage:
    """What begins with a FROM."""

    name: str
    base: str
    steps: tuple[Instruction, ...]

    def all(self, word: str) -> list[Instruction]:
        """Return the instructions of one kind."""
        return [step for step in self.steps if step.word == word]

    def last(self, word: str) -> Instruction:
        """Return the instruction that counts where only one does."""
        return self.all(word)[-1]


def instructions(text: str) -> list[Instruction]:
    """Return the instructions; a comment between continued lines is dropped, as builders do."""
    without_comments = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = []
    for line in _CONTINUED.sub("", without_comments).splitlines():
        if not line.strip():
            continue
        word, _, rest = line.strip().partition(" ")
        flags: dict[str, str] = {}
        rest = rest.strip()
        while match := _FLAG.match(rest):
            flags[match[1]] = match[2] or ""
            rest = rest[match.end() :]
        found.append(Instruction(word.upper(), flags, rest))
    return found


def stages(text: str) -> list[Stage]:
    """Return the stages, with the defaults of the arguments before the first of them put in."""
    defaults: dict[str, str] = {}
    found: list[tuple[str, str, list[Instruction]]] = []
    for step in instructions(text):
        if step.word == "FROM":
            base, *named = step.words
            for name, value in defaults.items():
                base = base.replace(f"${{{name}}}", value)
            found.append((named[1] if named else "", base, []))
        elif found:
            found[-1][2].append(step)
        elif step.word == "ARG":
            defaults |= step.pairs
        else:
            raise ValueError(f"{step.word} before the first FROM")
    return [Stage(name, base, tuple(steps)) for name, base, steps in found]


def dockerfile() -> list[Stage]:
    """Return the stages of the repository's Dockerfile."""
    return stages((REPOSITORY / "Dockerfile").read_text())


def context(directory: Path = REPOSITORY) -> Iterator[Path]:
    """Yield the files that a builder is sent, relative to the directory: the last line that fits a path decides."""
    lines = (directory / ".dockerignore").read_text().splitlines()
    rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    for where, below, names in os.walk(directory):
        here = Path(where).relative_to(directory)
        # An environment of a hundred thousand files is not walked for nothing.
        below[:] = [name for name in below if _entered(here / name, rules)]
        yield from (here / name for name in names if _sent(here / name, rules))


def _entered(path: Path, rules: list[str]) -> bool:
    return _sent(path, rules) or any(rule.startswith(f"!{path.as_posix()}/") for rule in rules)


def _sent(path: Path, rules: list[str]) -> bool:
    sent = True
    for rule in rules:
        if _fits(path, rule.removeprefix("!")):
            sent = rule.startswith("!")
    return sent


def _fits(path: Path, pattern: str) -> bool:
    """Whether a pattern names the path or a directory above it. `*` does not cross a slash, a leading `**/` may."""
    for candidate in (path, *path.parents):
        steps = candidate.parts
        wanted = pattern.split("/")
        if wanted[0] == "**":
            wanted = wanted[1:]
            steps = steps[-len(wanted) :]
        if len(steps) == len(wanted) and all(map(fnmatch.fnmatchcase, steps, wanted)):
            return True
    return False
