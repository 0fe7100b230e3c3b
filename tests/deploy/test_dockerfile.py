"""The image holds the locked packages and the product, runs as nobody, and is sent nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.dockerfile import REPOSITORY, context, dockerfile, instructions, stages

HADOLINT = Path(sys.executable).with_name("hadolint")


def lint(text: str) -> str:
    """Return what hadolint says."""
    done = subprocess.run(
        [HADOLINT, "--no-color", "-"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_hadolint_finds_nothing() -> None:
    """Known slips: an unpinned package, a shell that hides a failed command, a user that is root."""
    text = (REPOSITORY / "Dockerfile").read_text()
    # No finding is waved through.
    assert "hadolint ignore" not in text
    assert lint(text) == ""
    assert "DL3002" in lint(text.replace("USER 65532:65532", "USER root"))


def test_the_base_is_pinned_by_tag_and_by_nothing_of_ours() -> None:
    """`latest` is another Python next month; a registry's host is not that of every user."""
    build, final = dockerfile()
    assert build.base == final.base
    name, _, tag = final.base.partition(":")
    # The release before has OpenSSL 3.0, with which a GET over TLS costs more.
    assert re.fullmatch(r"3\.11(\.\d+)?-slim-trixie", tag)
    assert name == "python"


def test_only_what_is_locked_is_installed() -> None:
    """A package that is not in the lock is whatever the index serves on the day."""
    build, final = dockerfile()
    installs = [
        part for step in build.all("RUN") for part in step.rest.split("&&") if "pip " in part and " install " in part
    ]
    assert len(installs) == 3
    for part in installs:
        local = "--no-index" in part and "--no-deps" in part
        assert local or ("--require-hashes" in part and "-r requirements/" in part)
    assert "pip install" not in " ".join(step.rest for step in final.all("RUN"))


def test_the_last_stage_runs_as_nobody_and_says_what_it_is() -> None:
    """Kubernetes cannot tell from a name that a user is not root; a shell as process 1 swallows SIGTERM."""
    final = dockerfile()[-1]
    assert re.fullmatch(r"([1-9]\d*):([1-9]\d*)", final.last("USER").rest)
    assert final.last("ENTRYPOINT").words == ["signproxy"]
    assert final.last("CMD").words == ["serve"]
    assert '["signproxy", "healthcheck"]' in final.last("HEALTHCHECK").rest
    # The health check's own command is a CMD inside it: the exec form too.
    assert final.last("HEALTHCHECK").rest.startswith("CMD [")
    assert set(final.last("LABEL").pairs) == {
        f"org.opencontainers.image.{name}"
        for name in ("title", "description", "licenses", "source", "version", "revision")
    }
    # Nothing is written: bytecode is made when the image is.
    assert final.last("ENV").pairs["PYTHONDONTWRITEBYTECODE"] == "1"
    assert not final.all("VOLUME")


def test_no_layer_holds_a_secret() -> None:
    """What was once in a layer stays there for every user that pulls it."""
    for stage in dockerfile():
        assert not stage.all("ADD")
        names = {name for word in ("ARG", "ENV") for step in stage.all(word) for name in step.pairs}
        malloc = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_"}
        assert names <= malloc | {"VERSION", "REVISION", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
        assert stage.all("COPY")


def test_the_builder_is_sent_what_is_copied_and_nothing_else() -> None:
    """A key, a history or an environment that lies around would be sent along, and might be copied some day."""
    sent = set(context())
    build = dockerfile()[0]
    sources = {Path(word) for step in build.all("COPY") for word in step.words[:-1]}
    assert {Path("signproxy"), Path("requirements/run.txt"), Path("pyproject.toml")} <= sources
    for source in sources:
        assert source in sent or any(source in path.parents for path in sent), source
    assert {path for path in sent if not any(source in (path, *path.parents) for source in sources)} == set()
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "signproxy"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True,
    ).stdout.split()  # fmt: skip
    # What git does not know is what lies around; what is deleted and not committed yet is not sent.
    present = {name for name in tracked if (REPOSITORY / name).exists()}
    assert {str(path) for path in sent if path.parts[0] == "signproxy"} == present


def test_what_lies_around_is_not_sent(tmp_path: Path) -> None:
    """The list of what is sent must not be one of what happened to be there."""
    shutil.copy(REPOSITORY / ".dockerignore", tmp_path)
    stray = (
        ".env",
        ".git/config",
        "signproxy/x/__pycache__/a.pyc",
        "signproxy/b.pyc",
        "requirements/test.txt",
        "k.pem",
    )
    for name in (*stray, "signproxy/x/a.py", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert {str(path) for path in context(tmp_path)} == {"signproxy/x/a.py", "pyproject.toml"}


@pytest.mark.parametrize(
    ("text", "word", "flags", "rest"),
    (
        ("RUN a \\\n  # why\n  && b", "RUN", {}, "a   && b"),
        ("COPY --from=build --chown=1:1 /a /b", "COPY", {"from": "build", "chown": "1:1"}, "/a /b"),
        ('entrypoint ["a", "b c"]', "ENTRYPOINT", {}, '["a", "b c"]'),
    ),
)
def test_a_step_is_read_as_builders_read_it(text: str, word: str, flags: dict[str, str], rest: str) -> None:
    """The image test would run something else than a builder does."""
    (step,) = instructions(text)
    assert (step.word, step.flags, step.rest) == (word, flags, rest)


def test_stages_know_their_base() -> None:
    """The final stage would be run on the build's files, compilers and all."""
    first, second = stages("ARG P=python:1\nFROM ${P} AS one\nRUN a\nFROM ${P}\nCOPY --from=one /a /b\n")
    assert (first.name, first.base, second.name, second.base) == ("one", "python:1", "", "python:1")
    with pytest.raises(ValueError, match="before the first FROM"):
        stages("RUN a\nFROM b\n")
