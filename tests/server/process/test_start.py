"""What a start does not load, and that what it saves is there where it is needed."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from signproxy.server.process.lean import lean_imports
from tests.identity.rig import KeyServer
from tests.identity.test_fetch import certificate

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

UNUSED = (
    # Of other ways to get credentials, and of other programs.
    *("boto3", "botocore", "prometheus_client", "pyspark"),
    # Of the first log line, the first token and the first key set that is fetched.
    *("cryptography", "jwt", "rich", "structlog", "signproxy.identity.fetch", "signproxy.identity.jwks"),
    # Of mistyped names and of files of AWS' tools.
    *("configparser", "difflib", "pkgutil"),
)


def modules_after(code: str, **environment: str) -> set[str]:
    """Run code in a fresh interpreter; return what it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]))"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_what_a_start_may_not_need_is_not_imported() -> None:
    """Each of them would be waited for at every start, and held by every idle sidecar."""
    modules = modules_after("import signproxy.server.process.serve, signproxy.credentials.static")
    assert "aiohttp.web" in modules
    assert modules.isdisjoint(UNUSED)


def test_an_address_of_loopback_is_bound_without_the_tables_for_names_in_other_scripts() -> None:
    """Every idle sidecar would hold them, beside the one address that it listens on."""
    code = "from signproxy.server.process.sockets import bind_tcp\nfor each in bind_tcp('127.0.0.1', 0): each.close()"
    modules = modules_after(code)
    assert "signproxy.server.process.sockets" in modules
    assert modules.isdisjoint({"encodings.idna", "stringprep"})


def test_a_server_that_only_signs_does_not_hold_what_forwards() -> None:
    """Each sidecar without the S3 listener would hold its 2 MiB, for nothing."""
    modules = modules_after("import signproxy.server.process.serve, signproxy.server.process.worker")
    assert "signproxy.gate.forward" in modules
    assert [name for name in modules if name.startswith(("signproxy.forward.", "signproxy.server.s3.service"))] == []


def test_the_first_log_line_brings_no_coloured_console(tmp_path: Path) -> None:
    """Where rich is installed for something else, each start would pay 4 MiB for colours that JSON does not have."""
    for package in ("rich", "better_exceptions"):
        (tmp_path / f"{package}.py").write_text("")
    code = "from signproxy.telemetry import log; log.get_logger('x').info('first')"
    modules = modules_after(code, PYTHONPATH=str(tmp_path))
    assert "structlog" in modules
    assert modules.isdisjoint({"rich", "better_exceptions"})
    # It is not kept from any other.
    assert "rich" in modules_after(f"{code}\nimport rich", PYTHONPATH=str(tmp_path))


def test_a_server_imports_its_libraries_without_reading_certificates(tmp_path: Path) -> None:
    """A fifth of the start would be spent on certificates that are not asked for."""
    settings = tmp_path / "signproxy.yaml"
    settings.write_text("policy: {path: missing}")
    code = f"""
import os, ssl, sys
read = []
load = ssl.SSLContext.load_default_certs
def watched(context, *purpose):
    read.append([os.environ.get(name) for name in {VARIABLES!r}])
    load(context, *purpose)
ssl.SSLContext.load_default_certs = watched
from signproxy.config.load import SettingsSource
from signproxy.errors import Invalid
from signproxy.server import serve
source = SettingsSource({str(settings)!r})
try:
    serve(source, source.load())
except Invalid:
    assert "aiohttp.web" in sys.modules
    assert all(each == [os.devnull] * 2 for each in read), read
    ssl.create_default_context()
    assert len(read) and read[-1] == ["mine", None], read
    sys.exit(7)
"""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "SSL_CERT_FILE": "mine"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 7, done.stderr


@pytest.mark.parametrize("given", ({}, {"SSL_CERT_FILE": "a"}, {"SSL_CERT_FILE": "a", "SSL_CERT_DIR": ""}))
def test_the_environment_is_as_it_was_even_after_a_failure(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key sets would be fetched while no authority, or the wrong one, is trusted."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)

    def fail() -> None:
        with lean_imports():
            assert [os.environ[name] for name in VARIABLES] == [os.devnull] * 2
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    gc.unfreeze()
    assert dict(os.environ) == before


@pytest.mark.parametrize("enabled", (True, False))
def test_collection_goes_on_after_the_imports_where_it_did_before(enabled: bool) -> None:
    """A server that never collects grows; one whose operator turned collection off keeps its word."""
    try:
        if not enabled:
            gc.disable()
        with lean_imports():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
        assert gc.get_freeze_count()
    finally:
        gc.enable()
        gc.unfreeze()


FETCH = """
import asyncio, sys
from signproxy.server.process.lean import lean_imports
with lean_imports():
    import aiohttp.web
from signproxy.identity.fetch import Trust, fetch
from signproxy.identity.key_url import parse_key_url
from signproxy.identity.key_url import KeysUnusable
try:
    asyncio.run(fetch(parse_key_url(sys.argv[1]), Trust(ca_file=sys.argv[2])))
except KeysUnusable as problem:
    sys.exit(3 if "CERTIFICATE_VERIFY_FAILED" in str(problem) else str(problem))
"""


@pytest.mark.parametrize(
    ("system", "own", "code"),
    (
        (True, False, 0),
        (False, True, 0),
        # A stranger's certificate.
        (False, False, 3),
    ),
)
async def test_key_sets_are_fetched_from_whom_system_or_settings_trust(
    system: bool, own: bool, code: int, tmp_path: Path
) -> None:
    """A server would start quickly and then refuse every token of an issuer, or believe the keys of any."""
    ca_file, key_file = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca_file, key_file)
    async with KeyServer(b'{"keys":[]}', tls=context) as server:
        trusted = {"SSL_CERT_FILE": str(ca_file) if system else os.devnull, "SSL_CERT_DIR": os.devnull}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FETCH, server.url, str(ca_file) if own else ""), env={**os.environ, **trusted}
        )
        assert await process.wait() == code
