"""Run MinIO's own client, one command after the other, and keep what it says in words that do not depend on where."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.e2e.forward.foreign.comparison import DONE, Step
from tests.e2e.forward.signer import Endpoint
from tests.e2e.stores import mc

TIMEOUT = 120.0

_VOLATILE = frozenset(
    """
    Date HostID ID Message RequestID Resource Server X-Amz-Id-2 X-Amz-Request-Id bucketName duration expiry id
    lastModified message modTime requestID share speed time timestamp total totalCount totalSize transferred until
    updatedAt versionID versionId
    """.split()
)
"""What is another one each time: clocks, ids that a store draws, counts of what runs side by side, words for people."""

_PROGRESS = re.compile(r"\r? [0-9.]{1,9} [KMG]?i?B / \?(?: {1,4}[0-9.]{1,9} [KMG]?i?B/s)? ?[\r\n]*")
"""Of a pipe, as often as there was time for."""
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Said:
    """What a command said and how it ended."""

    command: str
    code: int
    lines: tuple[str, ...]

    @property
    def works(self) -> bool:
        """Whether it did what it was asked to; some commands fail and end with 0."""
        return not self.code and not any('"status": "error"' in line for line in self.lines)

    def __str__(self) -> str:
        return f"mc {self.command}: {self.code}\n    " + "\n    ".join(self.lines)


_CODE = re.compile(r'"Code": "(\w+)"')


def as_step(said: Said) -> Step:
    """Return what has to be equal both ways: how the command ended, and each line that it wrote."""
    codes = sorted({code for line in said.lines for code in _CODE.findall(line)})
    outcome = DONE if said.works else ", ".join((f"exit {said.code}", *codes))
    return Step(said.command, outcome, "\n".join(said.lines))


@dataclass(slots=True)
class McSession:
    """A client with a configuration of its own, on one bucket."""

    endpoint: Endpoint
    bucket: str
    home: Path
    said: list[Said] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Write the configuration: in the variable MC_HOST_s, the colon in a key of Swift's would part it."""
        endpoint = self.endpoint
        alias = {
            "url": endpoint.origin,
            "accessKey": endpoint.access_key,
            "secretKey": endpoint.secret,
            "sessionToken": endpoint.session_token,
            "api": "s3v4",
            "path": "on",
        }
        config = self.home / ".mc" / "config.json"
        config.parent.mkdir()
        config.write_text(json.dumps({"version": "10", "aliases": {"s": alias}}))

    def run(self, *words: str, content: bytes = b"") -> None:
        """Run a command, which may fail; `@` stands for the bucket, `~` for the directory of files."""
        command = [self._placed(word) for word in words]
        done = subprocess.run(
            (mc.install(), "--config-dir", self.home / ".mc", "--disable-pager", "--quiet", "--json", *command),
            cwd=self.home,
            env=self._environment(),
            input=content,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        lines = _PROGRESS.sub("", done.stdout.decode(errors="replace")).splitlines()
        self.said.append(Said(" ".join(words), done.returncode, tuple(sorted(map(self._same, lines)))))

    def _placed(self, word: str) -> str:
        if word.startswith("@"):
            return f"s/{self.bucket}{word[1:]}"
        return f"{self.home / 'files'}{word[1:]}" if word.startswith("~") else word

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "NO_PROXY": "127.0.0.1",
            "MC_REGION": self.endpoint.region,
        }

    def _same(self, line: str) -> str:
        try:
            told = json.loads(line)
        except ValueError:
            return self._plain(line)
        return self._plain(json.dumps(_without_volatile(told), sort_keys=True))

    def _plain(self, text: str) -> str:
        for known, name in (
            (self.bucket, "BUCKET"),
            (self.endpoint.authority, "STORE"),
            (quote(self.endpoint.access_key, safe=""), "KEY"),
            (str(self.home), "HOME"),
        ):
            text = text.replace(known, name)
        return _ID.sub("ID", text)


def _without_volatile(told: Any) -> Any:
    match told:
        case dict():
            return {name: _without_volatile(value) for name, value in told.items() if name not in _VOLATILE}
        case list():
            # MinIO keeps the parts of a policy in no order.
            return sorted((_without_volatile(value) for value in told), key=json.dumps)
        case _:
            return told


Commands = Callable[[McSession], None]


def files(home: Path) -> Iterator[Path]:
    """Write the files that the commands copy; two of them are sent in parts."""
    for name, size in (
        ("plain.txt", 1000), ("with blank.txt", 17), ("plus+and=é.txt", 1), ("deep/er/file.txt", 70_000),
        ("large", 20 * 1024 * 1024), ("larger", 17 * 1024 * 1024 + 1),
    ):  # fmt: skip
        file = home / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((name.encode() * (size // len(name.encode()) + 1))[:size])
        yield file


def objects(session: McSession) -> None:
    """Write, look, read, copy and remove."""
    run = session.run
    run("mb", "@")
    run("mb", "@")
    run("mb", "--ignore-existing", "@")
    run("cp", "--recursive", "~/", "@/a/")
    run("cp", "--attr", "key1=value1;key2=with blank", "--tags", "t=1&u=2", "~/plain.txt", "@/attributes")
    run("cp", "--storage-class", "STANDARD", "~/plain.txt", "@/class")
    run("cp", "--disable-multipart", "~/large", "@/whole")
    run("cp", "~/nothing", "@/nothing")
    run("put", "--part-size", "6MiB", "--parallel", "3", "~/large", "@/put")
    run("pipe", "@/piped", content=b"piped\n" * 1000)
    run("pipe", "@/piped-much", content=b"much\n" * 2_000_000)
    for words in (
        ("ls", "@"), ("ls", "--recursive", "@"), ("ls", "@/a/"), ("ls", "@/a/deep"), ("ls", "@/none"),
        ("ls", "--incomplete", "@"), ("ls", "--versions", "@"), ("ls", "--summarize", "--recursive", "@"),
        ("ls", "--storage-class", "STANDARD", "--recursive", "@"),
        ("tree", "@"), ("tree", "--files", "@"), ("du", "@"), ("du", "--depth", "2", "@"), ("du", "--versions", "@"),
        ("find", "@", "--name", "*.txt"), ("find", "@", "--larger", "1MiB"), ("find", "@", "--path", "*deep*"),
        ("find", "@", "--regex", "p.*t$"), ("find", "@", "--metadata", "key1=value1"), ("find", "@", "--tags", "t=1"),
        ("stat", "@"), ("stat", "@/attributes"), ("stat", "@/none"), ("stat", "--recursive", "@/a"),
        ("stat", "--no-list", "@/put"),
        ("cat", "@/a/plus+and=é.txt"), ("cat", "@/a/with blank.txt"), ("cat", "@/none"),
        ("cat", "--offset", "10", "@/attributes"), ("cat", "--tail", "7", "@/attributes"),
        ("cat", "--part-number", "2", "@/put"),
        ("head", "-n", "3", "@/piped"), ("head", "@/none"),
        ("diff", "@/a", "@/b"),
        ("mirror", "@/a", "~/../back"), ("mirror", "--overwrite", "--remove", "~/", "@/m"), ("mirror", "@/m", "@/n"),
        ("mirror", "--exclude", "*.txt", "@/m", "@/o"), ("get", "@/put", "~/../got"), ("get", "@/none", "~/../none"),
        ("cp", "@/attributes", "@/copied"), ("cp", "--recursive", "@/a/", "@/c/"), ("stat", "@/copied"),
        ("cp", "--attr", "key3=value3", "@/attributes", "@/changed"), ("stat", "@/changed"),
        ("cp", "@/put", "@/put-copied"), ("cp", "@/none", "@/none-copied"), ("mv", "@/copied", "@/moved"),
        ("mv", "--recursive", "@/c/", "@/d/"), ("ls", "--recursive", "@/c"), ("ls", "--recursive", "@/d"),
    ):  # fmt: skip
        run(*words)
    for words in (
        ("rm", "@/moved"), ("rm", "@/none"), ("rm", "--force", "@/none"), ("rm", "--recursive", "--force", "@/d/"),
        ("rm", "--incomplete", "--recursive", "--force", "@"), ("rm", "--recursive", "--dry-run", "--force", "@/m"),
        ("ls", "--recursive", "@"), ("rb", "@"), ("rb", "--force", "@"), ("ls", "@"), ("rb", "@"),
    ):  # fmt: skip
        run(*words)


ALGORITHMS = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")


def checksums(session: McSession) -> None:
    """Send bodies with checksums behind them, which some stores take from signproxy and not from this client."""
    run = session.run
    run("mb", "@")
    (session.home / "files" / "empty").write_bytes(b"")
    run("cp", "~/empty", "@/empty")
    for algorithm in ALGORITHMS:
        for name in ("plain.txt", "larger"):
            run("cp", "--checksum", algorithm, f"~/{name}", f"@/{algorithm}/{name}")
            run("cat", f"@/{algorithm}/plain.txt")
    run("rb", "--force", "@")


def properties(session: McSession) -> None:
    """Use what buckets and objects have besides their bytes: tags, policies, versions, locks."""
    run = session.run
    run("mb", "--with-lock", "@")
    run("cp", "~/plain.txt", "@/o")
    for words in (
        ("tag", "set", "@/o", "k=v&l=w"), ("tag", "list", "@/o"), ("tag", "remove", "@/o"), ("tag", "list", "@/o"),
        ("tag", "set", "@", "k=v"), ("tag", "list", "@"), ("tag", "remove", "@"), ("tag", "list", "@"),
        ("version", "info", "@"), ("version", "enable", "@"), ("version", "info", "@"), ("version", "suspend", "@"),
        ("cp", "~/large", "@/o"), ("ls", "--versions", "@"), ("stat", "--versions", "@/o"),
        ("undo", "@/o", "--dry-run", "--force"),
        ("retention", "info", "@/o"), ("retention", "set", "governance", "1d", "@/o"), ("retention", "info", "@/o"),
        ("retention", "clear", "@/o"), ("retention", "set", "--default", "governance", "1d", "@"),
        ("retention", "info", "--default", "@"), ("retention", "clear", "--default", "@"),
        ("legalhold", "set", "@/o"), ("legalhold", "info", "@/o"), ("legalhold", "clear", "@/o"),
        ("anonymous", "get", "@"), ("anonymous", "set", "download", "@"), ("anonymous", "get", "@"),
        ("anonymous", "get-json", "@"), ("anonymous", "links", "@"), ("anonymous", "set", "private", "@"),
        ("cors", "get", "@"), ("encrypt", "info", "@"), ("encrypt", "clear", "@"), ("event", "list", "@"),
        ("ilm", "rule", "list", "@"), ("ilm", "rule", "add", "--expire-days", "90", "@"), ("ilm", "rule", "list", "@"),
        ("ilm", "rule", "remove", "--all", "--force", "@"), ("replicate", "list", "@"),
        ("sql", "--query", "select count(*) from S3Object", "@/o"),
        ("rm", "--versions", "--force", "--recursive", "--bypass", "@"), ("rb", "--force", "@"),
    ):  # fmt: skip
        run(*words)


SCRIPTS: dict[str, Commands] = {"objects": objects, "properties": properties, "checksums": checksums}
