"""Run s3cmd, one command after the other, and keep what it says in words that do not depend on where or when."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.forward.foreign import install
from tests.e2e.forward.mc_session import Said
from tests.e2e.forward.signer import Endpoint

TIMEOUT = 120.0

# Clocks, speeds, and what the store draws anew each time.
_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z?)?"), "TIME"),
    (re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"), "TIME"),
    (re.compile(r"in [\d.]+ seconds?[^\n]*"), "in TIME"),
    (re.compile(r"(?:atime|ctime|mtime|gid|uid|gname|uname|mode):[^/\n]*/?"), ""),
    (re.compile(r"[\d.]+ [kMG]?B/s"), "SPEED"),
    (re.compile(r"(Expires|Signature|AWSAccessKeyId|X-Amz-[A-Za-z-]+)=[^&\s]*"), r"\1="),
)
_PROGRESS = re.compile(r"^ ?\d+ of \d+ .*$|^.*\[\d+ of \d+\].*$|^WARNING: .*[Rr]etry.*$", re.MULTILINE)


@dataclass(slots=True)
class S3cmdSession:
    """A client with a configuration of its own, on one bucket."""

    endpoint: Endpoint
    bucket: str
    home: Path
    said: list[Said] = field(default_factory=list)

    def __post_init__(self) -> None:
        endpoint = self.endpoint
        (self.home / "s3cfg").write_text(
            "[default]\n"
            f"access_key = {endpoint.access_key}\n"
            f"secret_key = {endpoint.secret}\n"
            f"access_token = {endpoint.session_token}\n"
            f"host_base = {endpoint.authority}\n"
            f"host_bucket = {endpoint.authority}\n"
            f"bucket_location = {endpoint.region}\n"
            "use_https = False\n"
            "signature_v2 = False\n"
            "max_retries = 1\n"
            "progress_meter = False\n"
            "multipart_chunk_size_mb = 5\n"
        )

    def run(self, *words: str) -> Said:
        """Run a command, which may fail; `@` stands for the bucket, `~` for the directory of files."""
        command = [self._placed(word) for word in words]
        done = subprocess.run(
            (str(install.s3cmd()), "-c", str(self.home / "s3cfg"), *command),
            cwd=self.home,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), "TZ": "UTC", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
        text = self._plain(done.stdout.decode(errors="replace"))
        lines = tuple(sorted(line.strip() for line in text.splitlines() if line.strip()))
        said = Said(" ".join(words), done.returncode, lines)
        self.said.append(said)
        return said

    def _placed(self, word: str) -> str:
        if word.startswith("@"):
            return f"s3://{self.bucket}{word[1:]}"
        return f"{self.home / 'files'}{word[1:]}" if word.startswith("~") else word

    def _plain(self, text: str) -> str:
        for known, name in ((self.bucket, "BUCKET"), (self.endpoint.authority, "STORE"), (str(self.home), "HOME")):
            text = text.replace(known, name)
        for pattern, name in _VOLATILE:
            text = pattern.sub(name, text)
        return _PROGRESS.sub("", text)


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("put", "~/plain.txt", "@/plain.txt"),
    ("put", "--mime-type=text/x", "--add-header=x-amz-meta-a:b c", "~/plain.txt", "@/attributes"),
    ("put", "--recursive", "~/", "@/a/"),
    ("put", "~/large", "@/large"),
    ("put", "~/none", "@/none"),
    ("ls", "@"), ("ls", "@/a/"), ("ls", "--recursive", "@"), ("ls", "@/none"),
    ("du", "@"), ("info", "@/plain.txt"), ("info", "@/attributes"), ("info", "@/none"), ("info", "@"),
    ("get", "@/large", "~/../large-back"), ("get", "--continue", "@/large", "~/../large-back"),
    ("get", "@/none", "~/../none"), ("get", "--recursive", "@/a/", "~/../back/"),
    ("sync", "~/", "@/sync/"), ("sync", "~/", "@/sync/"), ("sync", "--delete-removed", "@/sync/", "~/../synced/"),
    ("cp", "@/plain.txt", "@/copied"), ("cp", "@/large", "@/large-copied"), ("cp", "@/none", "@/none-copied"),
    ("mv", "@/copied", "@/moved"), ("cp", "--recursive", "@/a/", "@/c/"),
    # It takes what a HEAD answers and sends it back, headers that are not the client's among it.
    ("modify", "--add-header=x-amz-meta-k:v", "@/moved"), ("info", "@/moved"),
    ("modify", "--mime-type=text/y", "@/attributes"), ("info", "@/attributes"),
    ("modify", "--recursive", "--add-header=Cache-Control:no-store", "@/c/"), ("info", "@/c/plain.txt"),
    ("modify", "--remove-header=x-amz-meta-a", "@/attributes"), ("info", "@/attributes"),
    ("settagging", "@/moved", "k=v"), ("gettagging", "@/moved"), ("deltagging", "@/moved"),
    ("multipart", "@"), ("signurl", "@/moved", "+60"), ("setacl", "--acl-private", "@/moved"),
    ("getpolicy", "@"), ("getlifecycle", "@"), ("accesslog", "@"), ("payer", "@"),
    ("del", "@/moved"), ("del", "@/none"), ("del", "--recursive", "--force", "@/a/"), ("ls", "--recursive", "@"),
    ("del", "--recursive", "--force", "@"), ("ls", "--recursive", "@"), ("rb", "@"), ("ls", "@"),
)  # fmt: skip
