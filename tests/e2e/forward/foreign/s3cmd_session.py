"""Run s3cmd, one command after the other, and keep what it says in words that do not depend on where or when."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.forward.foreign import install
from tests.e2e.forward.foreign.comparison import DONE, Step
from tests.e2e.forward.mc_session import Said
from tests.e2e.forward.signer import Endpoint

TIMEOUT = 120.0

# What is another value each time, and why.
_VOLATILE = (
    # Clocks of the store and of this machine, and how long a transfer took.
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z?)?"), "TIME"),
    (re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"), "TIME"),
    (re.compile(r"in [\d.]+ seconds?[^\n\[]*"), "in TIME"),
    (re.compile(r"[\d.]+ [kMG]?B/s"), "SPEED"),
    # It keeps the times of the file in a header; each run writes its files anew.
    (re.compile(r"\b([acm]time):[\d.]+"), r"\1:TIME"),
    # A signed URL names the key of its endpoint and the second in which it was made.
    (re.compile(r"(Expires|Signature|AWSAccessKeyId)=[^&\s]*"), r"\1="),
    (re.compile(r"(X-Amz-(?:Credential|Date|Signature))=[^&\s]*"), r"\1="),
    # Files are found in the order of the file system, which differs between two directories.
    (re.compile(r"\[\d+ of \d+\]"), "[NUMBER]"),
)
_REFUSAL = re.compile(r"(S3 error: \d+ \(\w+\)).*")
"""What S3 promises is the status and the code; the message is the store's own."""


def plain(text: str) -> str:
    """Take out of a text what is another value each time."""
    for pattern, name in _VOLATILE:
        text = pattern.sub(name, text)
    return text


def as_step(said: Said) -> Step:
    """Return what has to be equal both ways: how the command ended, and each line that it wrote."""
    lines = [_REFUSAL.sub(r"\1", line) for line in said.lines]
    codes = sorted({found[1] for line in lines if (found := _REFUSAL.search(line))})
    outcome = ", ".join((f"exit {said.code}", *codes)) if said.code else DONE
    return Step(said.command, outcome, "\n".join(lines), "\n".join(said.lines) if codes else "")


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
        return plain(text)


USE: tuple[tuple[str, ...], ...] = (
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
)  # fmt: skip

CLEAN_UP: tuple[tuple[str, ...], ...] = (
    ("del", "@/moved"), ("del", "@/none"), ("del", "--recursive", "--force", "@/a/"), ("ls", "--recursive", "@"),
    ("del", "--recursive", "--force", "@"), ("ls", "--recursive", "@"), ("rb", "@"), ("ls", "@"),
)  # fmt: skip
