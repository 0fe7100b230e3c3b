"""Build the image as its Dockerfile says, without a container engine: this machine's system stands in for the base.

Each stage is an overlay over `/`, with this Python as `/usr/local`, as the official image has it. Nothing of the
machine is changed; what the repository and the home directory hold is not seen.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.deploy.dockerfile import REPOSITORY, Instruction, Stage, context, dockerfile
from tests.e2e.image.namespace import Namespace, contained, namespace

BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_PASSED_ON = ("PIP_", "SSL_", "REQUESTS_")
"""How this machine reaches its package index; builders hand proxies through in the same way."""

_NOTED = {"LABEL", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
"""What changes no file."""

_PREPARE = """\
set -eu
at=$1 prefix=$2 python=$3 work=$4
mkdir -p $at/upper $at/work $at/root $at/local-upper $at/local-work
mount -t overlay overlay -o lowerdir=/,upperdir=$at/upper,workdir=$at/work $at/root
mount -t tmpfs tmpfs $at/root/tmp
mount -t proc proc $at/root/proc
mount --rbind /dev $at/root/dev
case $prefix in
/usr | /usr/local) ;;
*) mount -t overlay overlay -o lowerdir=$prefix,upperdir=$at/local-upper,workdir=$at/local-work $at/root/usr/local ;;
esac
for hidden in "$work" "${HOME:-/root}"; do
    case $hidden in /usr* | /) ;; *) mkdir -p $at/root$hidden && mount -t tmpfs tmpfs $at/root$hidden ;; esac
done
chroot $at/root sh -c "
    test -e /usr/local/bin/$python || ln -s $prefix/bin/$python /usr/local/bin/$python
    ln -sf $python /usr/local/bin/python
    ldconfig"
"""


@dataclass(slots=True)
class Built:
    """A stage after its steps: where its files are, and what it says of how it is run."""

    root: Path
    environ: dict[str, str]
    directory: str = "/"
    user: str = ""
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Image:
    """The last stage, in the namespace that holds it."""

    where: Namespace
    last: Built

    def run(self, *command: str, environ: Mapping[str, str] | None = None) -> str:
        """Run a command in the image as its user, and return what it prints."""
        return self.where.run(
            *contained(
                self.last.root,
                command,
                {**self.last.environ, "HOME": "/", **(environ or {})},
                user=self.last.user,
                directory=self.last.directory,
            )
        )


@contextmanager
def built(directory: Path) -> Iterator[Image]:
    """Build the image below a directory until the block ends."""
    sent = directory / "context"
    for path in context():
        (sent / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / path, sent / path)
    layers = directory / "layers"
    layers.mkdir()
    with namespace() as where:
        where.run("mount", "-t", "tmpfs", "tmpfs", layers)
        stages: dict[str, Built] = {}
        last = None
        for number, stage in enumerate(dockerfile()):
            last = stages[stage.name] = _stage(where, layers / str(number), stage, sent, stages)
        assert last is not None
        yield Image(where, last)


def _stage(where: Namespace, at: Path, stage: Stage, sent: Path, stages: Mapping[str, Built]) -> Built:
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    where.run("sh", "-s", at, sys.base_prefix, python, REPOSITORY, stdin=_PREPARE)
    made = Built(at / "root", {"PATH": BASE_PATH})
    arguments: dict[str, str] = {}
    for step in stage.steps:
        match step.word:
            case "RUN":
                around = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
                environ = {**around, **_proxies(), "HOME": "/root", **arguments, **made.environ}
                where.run(*contained(made.root, ["/bin/sh", "-c", step.rest], environ, directory=made.directory))
            case "COPY":
                source = stages[step.flags["from"]].root if "from" in step.flags else sent
                _copy(where, step, source, made)
            case "WORKDIR":
                made.directory = str(PurePosixPath(made.directory) / step.rest)
                where.run("mkdir", "-p", _below(made.root, made.directory))
            case "ENV":
                for name, value in step.pairs.items():
                    made.environ[name] = value.replace("$PATH", made.environ["PATH"])
            case "ARG":
                arguments |= step.pairs
            case "USER":
                made.user = step.rest
            case word if word in _NOTED:
                _note(step, made)
            case word:
                raise ValueError(f"{word} is not understood here")
    return made


def _note(step: Instruction, made: Built) -> None:
    if step.word == "ENTRYPOINT":
        made.entrypoint = step.words
    elif step.word == "CMD":
        made.command = step.words
    elif step.word == "HEALTHCHECK":
        made.healthcheck = Instruction("CMD", {}, step.rest.removeprefix("CMD ")).words


def _copy(where: Namespace, step: Instruction, source: Path, made: Built) -> None:
    *names, target = step.words
    to = _below(made.root, str(PurePosixPath(made.directory) / target))
    into = target.endswith("/") or len(names) > 1
    for name in names:
        path = _below(source, name)
        # A directory gives its content, a file itself; both keep no owner.
        where.run("mkdir", "-p", to if into else to.parent)
        placed = ("-t", str(to), str(path)) if into else ("-T", str(path), str(to))
        where.run("cp", "-R", "--preserve=mode,timestamps,links", *placed)


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _proxies() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
