"""Run nginx: as the store that serves objects from memory, and as the plain proxy that is the floor of the forward way.

What it is told is what makes it fastest on this work, as found by trying: a slow floor flatters every peer. Buffers
of 1 MiB take a tenth less processor time than those of 256 KiB, and unbuffered answers two times as much.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from bench.process import BenchFailed, answers, children_of, output_of, running, wait_until

HEALTH = "/bench-is-ready"
"""A path that is in no bucket, answered by the server itself."""

_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_FOR_EVER = 10_000_000
"""Requests that a connection may serve: no client reconnects within a measurement."""


class Upstream(msgspec.Struct, frozen=True):
    """Where the objects of a bucket are."""

    bucket: str
    port: int
    scheme: str = "http"


def configuration(directory: Path, servers: str) -> str:
    """Return a configuration of one worker with all its files in a directory of its own."""
    # A master that is root gives its worker to another user, who could not read what this one wrote.
    user = "user root;\n" if os.geteuid() == 0 else ""
    temporary = "\n".join(f"  {name}_temp_path {directory}/{name};" for name in _TEMPORARY)
    return f"""\
{user}daemon off;
worker_processes 1;
error_log {directory}/error.log error;
pid {directory}/pid;
events {{ worker_connections 4096; }}
http {{
{temporary}
  access_log off;
  default_type binary/octet-stream;
  keepalive_timeout 600s;
  keepalive_requests {_FOR_EVER};
  server_tokens off;
{servers}}}
"""


def store_servers(objects: Path, *, plain: int, tls: int) -> str:
    """Return the servers of a store: any name below a bucket is the one small or the one large object, by its end.

    Every file is another one to a server that parses its name, and the same one to the cache of pages.
    """
    # The head and the content of a small object leave in one segment, as those of a store in the cloud do.
    return f"""\
  open_file_cache max=16 inactive=1h;
  open_file_cache_valid 1h;
  add_header x-amz-request-id 0123456789ABCDEF;
  add_header x-amz-id-2 c2lnbnByb3h5IG1lYXN1cmVzIHdoYXQgc2VydmluZyBjb3N0cywgaW4gb25lIHJ1bg==;
  add_header x-amz-server-side-encryption AES256;
  server {{
    listen 127.0.0.1:{plain} backlog=1024;
    listen 127.0.0.1:{tls} ssl backlog=1024;
    ssl_certificate {objects}/tls.crt;
    ssl_certificate_key {objects}/tls.key;
    ssl_protocols TLSv1.3;
    # What S3 chooses; left to themselves the proxies would ask for different ciphers.
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    output_buffers 2 512k;
    location = {HEALTH} {{ return 204; }}
    location ~ "\\.parquet$" {{ alias {objects}/small; sendfile off; output_buffers 2 32k; }}
    location ~ "\\.large$" {{ alias {objects}/large; sendfile on; sendfile_max_chunk 0; }}
    location ~ "\\.huge$" {{ alias {objects}/huge; sendfile on; sendfile_max_chunk 4m; }}
  }}
"""


def proxy_servers(port: int, upstreams: Sequence[Upstream], ca_file: Path) -> str:
    """Return the server of a proxy that hands on whatever it is asked, by bucket, and neither signs nor decides."""
    groups = "".join(
        f"  upstream {to.bucket} {{ server 127.0.0.1:{to.port}; keepalive 128; keepalive_requests {_FOR_EVER}; }}\n"
        for to in upstreams
    )
    locations = "".join(f"    location /{to.bucket}/ {{ proxy_pass {to.scheme}://{to.bucket}; }}\n" for to in upstreams)
    return f"""\
{groups}  server {{
    listen 127.0.0.1:{port} backlog=1024;
    client_max_body_size 0;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    proxy_request_buffering off;
    client_body_buffer_size 2m;
    proxy_max_temp_file_size 0;
    proxy_buffer_size 16k;
    proxy_buffers 4 1m;
    proxy_busy_buffers_size 2m;
    proxy_ssl_protocols TLSv1.3;
    proxy_ssl_verify on;
    proxy_ssl_trusted_certificate {ca_file};
    # It compares names only, no addresses.
    proxy_ssl_name localhost;
    location = {HEALTH} {{ return 204; }}
{locations}  }}
"""


@contextlib.contextmanager
def nginx(name: str, servers: str, port: int, scratch: Path, *, core: int | None) -> Iterator[tuple[int, ...]]:
    """Run nginx with these servers until the block ends; yield its processes."""
    directory = scratch / name
    directory.mkdir()
    written = directory / "nginx.conf"
    written.write_text(configuration(directory, servers))
    log = scratch / f"{name}.log"
    command = (require_nginx(), "-p", str(directory), "-e", "stderr", "-c", str(written))
    with running(command, core=core, log=log, env=_PLAIN) as process:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}{HEALTH}"), process, log)
        yield (process.pid, *children_of(process.pid))


def require_nginx() -> str:
    """Return the path of nginx, or say how to get it."""
    # Distributions put it where only administrators look.
    path = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if path is None:
        raise BenchFailed("nginx is missing: install it by name (apt-get install -y nginx-light)")
    return path


def openssl() -> str:
    """Return the TLS library that nginx runs with."""
    told = output_of([require_nginx(), "-V"])
    found = re.search(r"running with (OpenSSL \S+)", told) or re.search(r"built with (OpenSSL \S+)", told)
    if found is None:
        raise BenchFailed(f"nginx does not say which OpenSSL it has: {told[:300]}")
    return found[1]


_PLAIN: Mapping[str, str] = {"LC_ALL": "C"}
