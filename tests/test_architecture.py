"""Prove the rules of the design that no single module can break on its own."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.import_table import parse_rows, room_of

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = sorted((REPOSITORY / "signproxy").rglob("*.py"))
PURE = ("signproxy/errors.py", "signproxy/model.py", "signproxy/s3/", "signproxy/policy/")


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

# What opens a connection with TLS, time-outs and proxies that nothing in signproxy states.
CLIENTS = {
    "aiohttp.ClientSession", "aiohttp.TCPConnector", "aiohttp.UnixConnector", "aiohttp.request",
    "ssl.create_default_context", "ssl._create_unverified_context", "ssl.PROTOCOL_TLS_CLIENT",
    "urllib.request", "http.client", "urllib3", "requests", "httpx", "aiobotocore",
    "botocore.session", "botocore.config", "botocore.httpsession", "botocore.client",
}  # fmt: skip


def _clients_made(tree: ast.AST) -> set[str]:
    """Return what a module uses, when it runs, to make clients of its own."""
    checked = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    used: set[str] = set()
    for node in ast.walk(tree):
        if node in checked:
            continue
        if isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            used |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            used |= {"botocore.client"} if called.endswith(".create_client") else {called} & (CLIENTS - {"requests"})
        elif isinstance(node, ast.Attribute):
            used |= {ast.unparse(node)} & {"ssl.PROTOCOL_TLS_CLIENT"}
    return {name for name in CLIENTS if any(f"{each}.".startswith(f"{name}.") for each in used)}


@pytest.mark.parametrize("path", [path for path in SOURCES if "/outbound/" not in _name(path)], ids=_name)
def test_only_one_room_makes_http_clients(path: Path) -> None:
    """A new client would ask a proxy of the environment, wait for ever, or trust no authority in a serving process."""
    assert _clients_made(ast.parse(path.read_text())) == set()


@pytest.mark.parametrize(
    ("source", "found"),
    (
        ("import aiohttp\nasync def f():\n    async with aiohttp.ClientSession() as s: ...", {"aiohttp.ClientSession"}),
        ("from aiohttp import ClientSession", {"aiohttp.ClientSession"}),
        ("import aiohttp\naiohttp.TCPConnector(ssl=True)", {"aiohttp.TCPConnector"}),
        ("import urllib.request", {"urllib.request"}),
        ("from urllib import request", {"urllib.request"}),
        ("def f():\n    from http.client import HTTPSConnection", {"http.client"}),
        ("import ssl\nssl.create_default_context()", {"ssl.create_default_context"}),
        ("import ssl\nssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)", {"ssl.PROTOCOL_TLS_CLIENT"}),
        ("from botocore.session import Session", {"botocore.session"}),
        ("from botocore.config import Config", {"botocore.config"}),
        ("session.create_client('sts')", {"botocore.client"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from botocore.session import Session", set()),
        ("import aiohttp\ndef f(client: aiohttp.ClientSession) -> None: ...", set()),
        ("from signproxy.outbound.client import http_client", set()),
    ),
)
def test_a_client_of_its_own_is_seen(source: str, found: set[str]) -> None:
    """The rule above could not fail."""
    assert _clients_made(ast.parse(source)) == found


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
    pattern = re.compile("|".join(patterns))
    return [
        f"{_name(path)}:{number}: {line.strip()[:120]}"
        for path in paths
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
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
    """Whoever clones it has other mirrors, other paths, and was not there when it was made."""
    committed = _committed()
    assert len(committed) > 50
    assert _lines_with(patterns, committed) == []


def test_nothing_is_skipped_or_silenced_for_good() -> None:
    """A skipped test and an unfinished branch look like proof and are none."""
    assert _lines_with(SILENCED, [path for path in _committed() if path.suffix == ".py"]) == []


def test_a_module_reads_in_one_sitting() -> None:
    """Past 400 lines a module has two subjects, and a reviewer misses the second."""
    long = {_name(path): lines for path in SOURCES if (lines := len(path.read_text().splitlines())) > 400}
    assert long == {}


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_module_opens_with_a_sentence_on_its_subject(path: Path) -> None:
    """A stranger who looks for a rule reads the first lines of modules, nothing else."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert docstring.splitlines()[0].rstrip()[-1] in ".:?"


def _tests_without_docstring() -> list[str]:
    return [
        f"{_name(path)}: {node.name}"
        for path in sorted((REPOSITORY / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]


def test_every_test_says_what_breaks() -> None:
    """A failing test without a reason is repaired by changing the test."""
    assert _tests_without_docstring() == []


def test_every_directory_of_tests_is_a_package() -> None:
    """Two test modules of one name shadow each other unless their directories are packages."""
    directories = {path.parent for path in (REPOSITORY / "tests").rglob("*.py")}
    assert [_name(each) for each in sorted(directories) if not (each / "__init__.py").exists()] == []
