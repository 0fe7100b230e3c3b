"""Drive the command-line clients of S3: what each does with files, step by step."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

from tests.e2e.forward import install
from tests.e2e.forward.signer import Endpoint
from tests.e2e.stores import mc

COMMAND_TIMEOUT = 600.0
"""Seconds; 1 GiB takes 30 on two busy cores."""

SMALL = b"a small file\n" * 100
NAMES = ("plain.txt", "with blank.txt", "plus+and=é.txt", "deep/er/file.txt")


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a client works: an endpoint, a bucket, a directory, and a large file of known content."""

    endpoint: Endpoint
    bucket: str
    home: Path
    large: Path

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return what a client is started with: nothing of the machine may configure it."""
        endpoint = self.endpoint
        token = {"AWS_SESSION_TOKEN": endpoint.session_token} if endpoint.session_token else {}
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "NO_PROXY": "127.0.0.1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": endpoint.access_key,
            "AWS_SECRET_ACCESS_KEY": endpoint.secret,
            "AWS_REGION": endpoint.region,
            "AWS_DEFAULT_REGION": endpoint.region,
            **token,
            **more,
        }

    def run(self, command: Sequence[str | Path], **more: str) -> str:
        """Run a command that has to succeed; return what it prints."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.home,
            env=self.environment(more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"{command[1:]}: {done.returncode}\n{done.stderr.decode()[-3000:]}")
        return done.stdout.decode()

    def small(self) -> list[Path]:
        """Return small files with names that clients encode differently."""
        files = [self.home / "small" / name for name in NAMES]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(SMALL)
        return files

    def same(self, file: Path, other: Path) -> None:
        """Check that two files hold the same."""
        assert subprocess.run(("cmp", str(file), str(other)), check=False).returncode == 0, f"{other} differs"


Steps = Callable[[Desk], Iterator[str]]
"""Does one thing after the other, and names each once it is done."""


def aws(desk: Desk) -> Iterator[str]:
    """Use the AWS command line, with its own choice of checksums and part sizes."""
    base = (install.commands() / "aws", "--endpoint-url", desk.endpoint.origin)
    # As in the profile that signproxy prints: without it URLs for us-east-1 are presigned with version 2.
    config = desk.home / ".aws" / "config"
    config.parent.mkdir(exist_ok=True)
    config.write_text("[default]\ns3 =\n    addressing_style = path\n    signature_version = s3v4\n")
    s3, api = (*base, "s3"), (*base, "s3api")
    below = f"s3://{desk.bucket}/aws"
    files = desk.small()
    desk.run((*s3, "cp", "--recursive", "--quiet", files[0].parent, f"{below}/small"))
    yield "PUT"
    listed = desk.run((*s3, "ls", "--recursive", f"{below}/small/"))
    assert all(name in listed for name in NAMES), listed
    yield "list"
    back = desk.home / "aws-back"
    desk.run((*s3, "cp", "--recursive", "--quiet", f"{below}/small", back))
    for name in NAMES:
        desk.same(back / name, files[0].parent / name)
    yield "GET"
    desk.run((*s3, "cp", "--quiet", desk.large, f"{below}/large"))
    yield "multipart upload"
    desk.run((*s3, "cp", "--quiet", f"{below}/large", back / "large"))
    desk.same(back / "large", desk.large)
    yield "download in ranges"
    desk.run((*s3, "cp", "--quiet", f"{below}/large", f"{below}/copied"))
    yield "copy"
    url = desk.run((*s3, "presign", f"{below}/small/{NAMES[2]}", "--expires-in", "60")).strip()
    with urlopen(Request(url), timeout=30) as answer:
        assert answer.read() == SMALL
    yield "presigned URL"
    desk.run((*api, "head-object", "--bucket", desk.bucket, "--key", "aws/copied"))
    desk.run((*s3, "sync", "--quiet", files[0].parent, f"{below}/small"))
    desk.run((*s3, "rm", "--recursive", "--quiet", f"{below}/"))
    asked = ("--bucket", desk.bucket, "--prefix", "aws/", "--query", "KeyCount", "--output", "text")
    assert desk.run((*api, "list-objects-v2", *asked)).strip() in {"0", "None"}
    yield "delete"


def s5cmd(desk: Desk) -> Iterator[str]:
    """Use s5cmd, which is written on the first Go SDK."""
    base = (install.commands() / "s5cmd", "--endpoint-url", desk.endpoint.origin)
    below = f"s3://{desk.bucket}/s5cmd"
    files = desk.small()
    desk.run((*base, "cp", f"{files[0].parent}/", f"{below}/small/"))
    yield "PUT"
    # Swift rounds times up to the next second, and s5cmd passes over what was written after it began to look.
    time.sleep(1.0)
    listed = desk.run((*base, "ls", f"{below}/small/*"))
    assert all(name in listed for name in NAMES), listed
    yield "list"
    back = desk.home / "s5cmd-back"
    desk.run((*base, "cp", f"{below}/small/*", f"{back}/"))
    for name in NAMES:
        desk.same(back / name, files[0].parent / name)
    yield "GET"
    desk.run((*base, "cp", "--part-size", "8", desk.large, f"{below}/large"))
    yield "multipart upload"
    desk.run((*base, "cp", "--part-size", "8", f"{below}/large", back / "large"))
    desk.same(back / "large", desk.large)
    yield "download in ranges"
    desk.run((*base, "cp", f"{below}/small/{NAMES[0]}", f"{below}/copied"))
    yield "copy"
    # One bulk delete.
    desk.run((*base, "rm", f"{below}/*"))
    yield "delete"


def rclone(desk: Desk) -> Iterator[str]:
    """Use rclone, which sends unsigned payloads with an MD5."""
    endpoint = desk.endpoint
    settings = {
        "RCLONE_CONFIG_S_TYPE": "s3",
        "RCLONE_CONFIG_S_PROVIDER": "Other",
        "RCLONE_CONFIG_S_ACCESS_KEY_ID": endpoint.access_key,
        "RCLONE_CONFIG_S_SECRET_ACCESS_KEY": endpoint.secret,
        "RCLONE_CONFIG_S_SESSION_TOKEN": endpoint.session_token,
        "RCLONE_CONFIG_S_ENDPOINT": endpoint.origin,
        "RCLONE_CONFIG_S_REGION": endpoint.region,
        # It would make the bucket otherwise.
        "RCLONE_CONFIG_S_NO_CHECK_BUCKET": "true",
        "RCLONE_CONFIG": "/dev/null",
    }
    base = (install.commands() / "rclone", "--s3-upload-cutoff", "8M", "--s3-chunk-size", "8M", "--retries", "1")
    below = f"s:{desk.bucket}/rclone"
    files = desk.small()
    folder = files[0].parent
    desk.run((*base, "copy", folder, f"{below}/small"), **settings)
    yield "PUT"
    listed = desk.run((*base, "lsf", "-R", f"{below}/small"), **settings)
    assert all(name in listed for name in NAMES), listed
    yield "list"
    back = desk.home / "rclone-back"
    desk.run((*base, "copy", f"{below}/small", back), **settings)
    for name in NAMES:
        desk.same(back / name, folder / name)
    desk.run((*base, "check", "--download", folder, f"{below}/small"), **settings)
    yield "GET"
    desk.run((*base, "copyto", desk.large, f"{below}/large"), **settings)
    yield "multipart upload"
    desk.run((*base, "copyto", "--multi-thread-cutoff", "8M", f"{below}/large", back / "large"), **settings)
    desk.same(back / "large", desk.large)
    yield "download in ranges"
    desk.run((*base, "copyto", f"{below}/small/{NAMES[2]}", f"{below}/copied"), **settings)
    yield "copy"
    desk.run((*base, "purge", below), **settings)
    yield "delete"


def mc_(desk: Desk) -> Iterator[str]:
    """Use MinIO's own client, which is one of its public test suites' clients, too."""
    endpoint = desk.endpoint
    parts = [quote(part, safe="") for part in (endpoint.access_key, endpoint.secret, endpoint.session_token) if part]
    settings = {"MC_HOST_s": f"http://{':'.join(parts)}@{endpoint.authority}", "MC_REGION": endpoint.region}
    base = (mc.install(), "--config-dir", desk.home / "mc", "--disable-pager", "--quiet")
    below = f"s/{desk.bucket}/mc"
    files = desk.small()
    folder = files[0].parent
    desk.run((*base, "cp", "--recursive", f"{folder}/", f"{below}/small/"), **settings)
    yield "PUT"
    listed = desk.run((*base, "ls", "--recursive", f"{below}/small/"), **settings)
    assert all(name in listed for name in NAMES), listed
    yield "list"
    assert desk.run((*base, "cat", f"{below}/small/{NAMES[2]}"), **settings).encode() == SMALL
    back = desk.home / "mc-back"
    desk.run((*base, "mirror", f"{below}/small/", back), **settings)
    for name in NAMES:
        desk.same(back / name, folder / name)
    desk.run((*base, "stat", f"{below}/small/{NAMES[0]}"), **settings)
    yield "GET"
    desk.run((*base, "cp", desk.large, f"{below}/large"), **settings)
    yield "multipart upload"
    desk.run((*base, "cp", f"{below}/large", back / "large"), **settings)
    desk.same(back / "large", desk.large)
    yield "download in ranges"
    desk.run((*base, "cp", f"{below}/small/{NAMES[2]}", f"{below}/copied"), **settings)
    yield "copy"
    desk.run((*base, "share", "download", "--expire", "1m", f"{below}/copied"), **settings)
    desk.run((*base, "rm", "--recursive", "--force", f"{below}/"), **settings)
    yield "delete"
