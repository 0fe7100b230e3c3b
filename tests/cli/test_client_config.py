"""`signproxy client-config`: what it prints is read back as its reader reads it, and works as it stands."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from signproxy.cli import main
from signproxy.cli.clients import Client, Connection, Mode, Site, configuration, packages, spark_conf
from signproxy.cli.clients.formats import FORMATS, Format
from tests.cli import conftest
from tests.cli.commands import client_config
from tests.cli.conftest import ENDPOINT, TOKEN

ROOT = Path(__file__).parents[2]
CATALOG_URI = "https://catalog.example/api/catalog"
DIRECT = ("--mode", "direct", "--catalog-uri", CATALOG_URI)
SITE = Site(
    catalog="lake",
    public_url="http://127.0.0.1:8181",
    region="eu-central-1",
    s3_endpoint=ENDPOINT,
    path_style=True,
)
_CATALOG = "  lake: {storages: [main], remote_signing: true, tables: upstream}"
POLICY = conftest.POLICY.replace("  lake: {storages: [main], remote_signing: true}", _CATALOG)
UPSTREAM = f"upstreams:\n  lake: {{uri: {CATALOG_URI}}}\n"

_SAID = {"application": "night's \\ 'load' & \"more\" $HOME", "query_id": "q-1"}
SAID = ("--application", _SAID["application"], "--query-id", _SAID["query_id"])


@pytest.fixture
def installation(installation: Path) -> Path:
    """Return the settings file of an installation with a catalog behind it."""
    installation.write_text(installation.read_text() + UPSTREAM)
    (installation.parent / "policy.yaml").write_text(POLICY)
    return installation


def refused(installation: Path, capsys: pytest.CaptureFixture[str], *words: str, code: int = 1) -> str:
    assert main(["client-config", "--config", str(installation), *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    return err


def expected(client: Client, mode: Mode, token: str = "") -> dict[str, str]:
    uri = CATALOG_URI if mode is Mode.DIRECT else ""
    connection = Connection(client=client, site=SITE, mode=mode, catalog_uri=uri, token=token, **_SAID)
    if client is not Client.SPARK:
        return configuration(connection)
    return spark_conf(connection)


# -- what is printed, read back as its reader does -------------------------------------------------------------------


def _run(text: str, directory: Path, wrapped: str = "") -> list[str]:
    """Run a printed script in a shell, with a program in its path that says what it was given."""
    program = directory / "spark-submit"
    program.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\nenv\n')
    program.chmod(0o755)
    script = directory / "script.sh"
    script.write_text(f"set -eu\n{text}\n{wrapped}\n")
    done = subprocess.run(
        ["/bin/sh", str(script), "job.py", "a b"],
        env={"PATH": f"{directory}:{os.environ['PATH']}", "SIGNPROXY_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.splitlines()


def _spark_properties(text: str, _directory: Path) -> dict[str, str]:
    """Read as Java's Properties does: comments, a key up to white space, backslashes as escapes."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [re.split(r"\s+", line, maxsplit=1) for line in lines]
    conf = {key: re.sub(r"\\(.)", r"\1", value) for key, value in pairs}
    assert len(conf) == len(pairs)
    return conf


def _spark_command(text: str, directory: Path) -> dict[str, str]:
    lines = _run(text, directory)
    assert lines[: lines.index("job.py")][0] == "--packages"
    assert lines[lines.index("job.py") :][:2] == ["job.py", "a b"]
    assert TOKEN not in lines[: lines.index("job.py")]
    conf = {"spark.jars.packages": lines[1]}
    for flag, pair in zip(lines[2 : lines.index("job.py") : 2], lines[3 : lines.index("job.py") : 2], strict=True):
        assert flag == "--conf"
        key, _, value = pair.partition("=")
        conf[key] = value
    return conf


def _executed(text: str, name: str, **names: object) -> dict[str, object]:
    module = ModuleType(name)
    module.__dict__.update(names)
    kept = {key: sys.modules.get(key) for key in (name, name.partition(".")[0])}
    sys.modules |= {name: module, name.partition(".")[0]: ModuleType(name.partition(".")[0])}
    try:
        scope: dict[str, object] = {}
        exec(compile(text, "printed", "exec"), scope)  # noqa: S102 - it is what users do with it
    finally:
        for key, before in kept.items():
            if before is None:
                del sys.modules[key]
            else:
                sys.modules[key] = before
    return scope


class _Builder:
    def __init__(self) -> None:
        self.conf: dict[str, str] = {}

    def config(self, key: str, value: str) -> _Builder:
        assert key not in self.conf
        self.conf[key] = value
        return self

    def getOrCreate(self) -> dict[str, str]:  # noqa: N802 - Spark's own name
        return self.conf


def _spark_builder(text: str, _directory: Path) -> dict[str, str]:
    scope = _executed(text, "pyspark.sql", SparkSession=SimpleNamespace(builder=_Builder()))
    conf = scope["spark"]
    assert isinstance(conf, dict)
    return conf


def _pyiceberg_call(text: str, _directory: Path) -> dict[str, str]:
    def load_catalog(name: str, **properties: str) -> dict[str, str]:
        assert name == "lake"
        return properties

    scope = _executed(text, "pyiceberg.catalog", load_catalog=load_catalog)
    properties = scope["catalog"]
    assert isinstance(properties, dict)
    return properties


def _pyiceberg_file(text: str, _directory: Path) -> dict[str, str]:
    document = yaml.safe_load(text)
    assert document["max-workers"] == 1
    properties: dict[str, str] = document["catalog"]["lake"]
    return properties


def _pyiceberg_variables(text: str, directory: Path) -> dict[str, str]:
    """Read as PyIceberg does: lower case, `__` for a dot, `_` for a dash; its headers are looked up in any case."""
    properties = {}
    for line in _run(text, directory, "env"):
        name, _, value = line.partition("=")
        if name.startswith("PYICEBERG_CATALOG__"):
            _, catalog, key = name.lower().split("__", maxsplit=2)
            assert catalog == "lake"
            properties[key.replace("__", ".").replace("_", "-")] = value
    assert properties.pop("token") == TOKEN
    return properties


def _flink_statement(text: str, _directory: Path) -> dict[str, str]:
    statement = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    found = re.fullmatch(r"CREATE CATALOG `lake` WITH \(\n(.*)\n\);", statement, re.DOTALL)
    assert found is not None
    rows = [re.fullmatch(r"  '((?:[^']|'')+)' = '((?:[^']|'')+)'", row) for row in found[1].split(",\n")]
    return {row[1]: row[2].replace("''", "'") for row in rows if row is not None}


def _json(text: str, _directory: Path) -> dict[str, str]:
    properties: dict[str, str] = json.loads(text)
    return properties


READERS: dict[tuple[Client, Format], Callable[[str, Path], dict[str, str]]] = {
    (Client.SPARK, Format.PROPERTIES): _spark_properties,
    (Client.SPARK, Format.SHELL): _spark_command,
    (Client.SPARK, Format.PYTHON): _spark_builder,
    (Client.SPARK, Format.JSON): _json,
    (Client.FLINK, Format.SQL): _flink_statement,
    (Client.FLINK, Format.JSON): _json,
    (Client.PYICEBERG, Format.PYTHON): _pyiceberg_call,
    (Client.PYICEBERG, Format.YAML): _pyiceberg_file,
    (Client.PYICEBERG, Format.SHELL): _pyiceberg_variables,
    (Client.PYICEBERG, Format.JSON): _json,
}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("client", "form"), READERS, ids=lambda value: value.value)
def test_every_form_is_read_as_the_same_configuration(
    client: Client,
    form: Format,
    mode: Mode,
    installation: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quote, a backslash or a name that the form reads otherwise is found out by the first job that fails."""
    monkeypatch.setenv("SIGNPROXY_TOKEN", TOKEN)
    more = DIRECT if mode is Mode.DIRECT else ()
    text = client_config(installation, capsys, "--client", client.value, "--format", form.value, *more, *SAID)
    assert TOKEN not in text
    found = READERS[client, form](text, tmp_path)
    if client is Client.SPARK and form is not Format.JSON:
        assert found.pop("spark.jars.packages") == ",".join(packages("1.12"))
    if client is Client.PYICEBERG:
        token = TOKEN if form is Format.PYTHON else ""
        # A token that stands nowhere else is in a variable.
        wanted = expected(client, mode, token)
    else:
        wanted = expected(client, mode, "env:SIGNPROXY_TOKEN")
    if form is Format.SHELL and client is Client.PYICEBERG:
        wanted = {key.lower(): value for key, value in wanted.items()}
    assert found == wanted


def test_every_form_has_a_reader() -> None:
    """A form that is never read back may hold anything."""
    assert [(client, form) for client, forms in FORMATS.items() for form in forms] == list(READERS)


# -- the token -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "form"), READERS, ids=lambda value: value.value)
def test_a_token_is_never_printed(
    client: Client, form: Format, installation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed is made to be pasted: into a file, a ticket, a chat."""
    file = tmp_path / "the token"
    file.write_text(TOKEN)
    words = ("--client", client.value, "--format", form.value, "--token-file", str(file))
    text = client_config(installation, capsys, *words)
    assert TOKEN not in text
    file.unlink()
    # Nor is it read: it lies where the client is.
    assert client_config(installation, capsys, *words) == text


@pytest.mark.parametrize(
    ("client", "form", "read"),
    (
        (Client.SPARK, Format.PYTHON, lambda found: found["spark.sql.catalog.lake.token"]),
        (Client.PYICEBERG, Format.PYTHON, lambda found: found["token"]),
    ),
)
def test_code_reads_the_token_from_its_file(
    client: Client,
    form: Format,
    read: Callable[[dict[str, str]], str],
    installation: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A projected token is a file; a job that wants it in a variable needs a wrapper."""
    file = tmp_path / "the 'token'"
    file.write_text(f"{TOKEN}\n")
    text = client_config(
        installation, capsys, "--client", client.value, "--format", form.value, "--token-file", str(file)
    )
    assert read(READERS[client, form](text, tmp_path)) == TOKEN


def test_a_shell_takes_the_token_from_its_file(
    installation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a command line every process of the machine could read it."""
    file = tmp_path / "the 'token' $HOME"
    file.write_text("another-token\n")
    words = ("--format", "shell", "--token-file", str(file))
    spark = _run(client_config(installation, capsys, "--client", "spark", *words), tmp_path)
    assert "SIGNPROXY_TOKEN=another-token" in spark
    assert "another-token" not in "\n".join(spark[: spark.index("job.py")])
    python = _run(client_config(installation, capsys, "--client", "pyiceberg", *words), tmp_path, "env")
    assert "PYICEBERG_CATALOG__LAKE__TOKEN=another-token" in python
    assert "PYICEBERG_MAX_WORKERS=1" in python


def test_the_token_may_have_a_variable_of_its_own(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two catalogs of two identities need two tokens."""
    text = client_config(installation, capsys, "--client", "spark", "--token-variable", "LAKE_TOKEN")
    assert "spark.sql.catalog.lake.token" in text
    assert "env:LAKE_TOKEN" in text
    assert "SIGNPROXY_TOKEN" not in text
    told = refused(installation, capsys, "--client", "spark", "--token-variable", "A-B")
    assert told == "signproxy: command line: --token-variable: 'A-B' is no name of a variable\n"
    told = refused(installation, capsys, "--client", "spark", "--token-file", "a\nb")
    assert "--token-file: 'a\\nb' is no name that can be printed" in told


def test_where_a_file_cannot_name_a_token_it_is_said_beside_it(
    installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file alone would be a catalog that answers 401."""
    words = ("--client", "pyiceberg", "--format", "yaml")
    text = client_config(installation, capsys, *words)
    assert '# export PYICEBERG_CATALOG__LAKE__TOKEN="$SIGNPROXY_TOKEN"' in text
    # A name that no variable can hold.
    text = client_config(installation, capsys, *words, "--as", "My.Lake", "--token-file", "/run/t")
    assert "# load_catalog('My.Lake', token=Path('/run/t').read_text().strip())" in text
    told = refused(installation, capsys, "--client", "pyiceberg", "--format", "shell", "--as", "My.Lake")
    assert "PyIceberg's variables cannot name a catalog 'My.Lake'" in told


# -- the whole of it -------------------------------------------------------------------------------------------------

SPARK = """\
# Spark with Iceberg 1.12: catalog lake, through signproxy.
# Iceberg takes the token from the variable SIGNPROXY_TOKEN of the process that opens the catalog.
# signproxy and the catalog are shown the same token; where it is not renewed, it must outlive the job.
# Set no `signer.uri` and no `s3.signer.uri` besides: they win over what the catalog's answers say.
# `s3.analytics-accelerator.enabled` must stay off: its S3 client is never signed.
# 127.0.0.1 is each machine's own: every process that reads or writes needs a signproxy beside it.
"""


def test_a_page_begins_with_what_saves_an_evening(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user who pastes the rest without it finds out when the job fails."""
    text = client_config(installation, capsys, "--client", "spark", "--catalog", "lake")
    assert text.startswith(SPARK)
    assert text.splitlines()[len(SPARK.splitlines())].startswith("spark.jars.packages ")


def test_packages_are_left_out_where_none_were_run(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A coordinate that was never resolved may be none."""
    for form in ("properties", "shell", "python"):
        text = client_config(installation, capsys, "--client", "spark", "--client-version", "1.10", "--format", form)
        assert "ackages" not in text
        assert "catalogs/lake" in text


_PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "docs/clients.md")}


@pytest.mark.parametrize("page", _PAGES)
def test_two_lines_are_those_that_are_printed(
    page: str, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first thing that a reader pastes would be of another version than the command."""
    text = _PAGES[page]
    spark = client_config(installation, capsys, "--client", "spark")
    (block,) = re.findall(r"^```\n(spark\.sql\.catalog\..*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(block.splitlines()) == 2
    for line in block.splitlines():
        assert line in spark.splitlines()
    (call,) = re.findall(r"```python\n(load_catalog\(.*?)```", text, re.DOTALL)
    told = _pyiceberg_call(
        f"from pyiceberg.catalog import load_catalog\ncatalog = {call}",
        installation.parent,
    )
    assert len(told) == 2
    assert told.items() <= expected(Client.PYICEBERG, Mode.FACADE).items()


def test_the_commands_of_the_page_are_accepted(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that was renamed would be found out by the reader."""
    (block,) = re.findall(r"```sh\n(.*?)```", _PAGES["docs/clients.md"], re.DOTALL)
    commands = block.replace("\\\n", " ").splitlines()
    assert len(commands) == 3
    for command in commands:
        name, *words = shlex.split(command)
        assert name == "signproxy"
        assert main([str(installation) if word == "signproxy.yaml" else word for word in words]) == 0
        assert "lake" in capsys.readouterr().out


@pytest.mark.parametrize("client", Client)
def test_a_page_fits_a_terminal(client: Client, installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A note that runs out of the window is not read to its end."""
    text = client_config(installation, capsys, "--client", client.value)
    begin = FORMATS[client][0].comment
    comments = [line for line in text.splitlines() if line.startswith(begin)]
    assert len(comments) > 4
    assert max(map(len, comments)) <= 110
    assert text.replace("\n", "").isprintable()


# -- what cannot be configured ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    (
        (("--catalog", "lak"), "command line: --catalog: the policy has no catalog 'lak' (did you mean 'lake'?)"),
        (("--catalog", "x"), "the policy has no catalog 'x'; known: lake"),
        (("--storage", "mian"), "command line: --storage: catalog 'lake' has no storage 'mian' (did you mean 'main'?)"),
        (("--format", "sql"), "--format: 'sql' is no form that spark takes: properties, shell, python, json"),
        (("--mode", "direct"), "--catalog-uri: is needed with --mode direct"),
        (("--spark-version", "4.2"), "--spark-version: Iceberg 1.12 was not run with Spark '4.2'; known: 3.5, 4.1"),
        (
            ("--client-version", "1.10", "--spark-version", "3.5"),
            "Iceberg 1.10 was not run with Spark '3.5'; known: none",
        ),
        (("--set", "listen.port=0"), "settings: public_url: this key is missing; listen.port 0 is another port"),
        (
            ("--set", "listen.host=0.0.0.0", "--set", "listen.allow_remote=true"),
            "public_url: this key is missing; clients cannot be sent to 0.0.0.0",
        ),
        (("--set", "policy.path=missing.yaml"), "missing.yaml"),
    ),
)
def test_what_cannot_be_configured_is_told(
    words: tuple[str, ...], told: str, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client would be refused for it with each request, in words that say less."""
    assert told in refused(installation, capsys, "--client", "spark", *words)


def test_a_spark_version_is_sparks(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be ignored, and the operator who gave it would think otherwise."""
    told = refused(installation, capsys, "--client", "pyiceberg", "--spark-version", "3.5")
    assert "--spark-version: goes with --client spark" in told


@pytest.mark.parametrize(
    ("before", "after", "words", "told"),
    (
        (
            "\nremote_signing: true\n",
            "\nremote_signing: false\n",
            (),
            "policy: remote_signing: remote signing is off for the whole system",
        ),
        (
            _CATALOG,
            "  lake: {storages: [main], tables: upstream}",
            (),
            "policy: catalogs.lake.remote_signing: remote signing is off for this catalog",
        ),
        (
            _CATALOG,
            _CATALOG.replace("}", ", kind: external}"),
            (),
            "policy: catalogs.lake.kind: external catalogs do not sign",
        ),
        (
            _CATALOG,
            f"{_CATALOG}\n  sand: {{storages: [main]}}",
            (),
            "command line: --catalog: is needed: the policy has no default catalog; known: lake, sand",
        ),
    ),
)
def test_what_the_policy_refuses_is_told_by_its_key(
    before: str,
    after: str,
    words: tuple[str, ...],
    told: str,
    installation: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each of the client's requests would be refused, and the operator asked why."""
    assert POLICY.count(before) == 1
    policy = POLICY.replace(before, after)
    if "default catalog" in told:
        # Where there are two, tables and grants have to say whose they are.
        policy = policy.partition("\ntables:")[0]
    (installation.parent / "policy.yaml").write_text(policy)
    assert told in refused(installation, capsys, "--client", "spark", *words)


_SECOND = """
  cold: {kind: aws, region: us-west-2, buckets: [cold-lake]}
  front:
    kind: s3-compatible
    region: r
    buckets: [front]
    endpoints: [{url: 'https://s3.example', styles: [virtual-host]}]
catalogs:
"""


def test_of_several_storages_one_is_named(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A client is told of one endpoint; the wrong one is another store, or another region."""
    policy = POLICY.replace("\ncatalogs:\n", _SECOND).replace("storages: [main]", "storages: [main, cold, front]")
    (installation.parent / "policy.yaml").write_text(policy)
    bound = "storages:\n  cold: {credentials: keys, hosts: [aws]}\n  front: {credentials: keys, hosts: [s3.example]}\n"
    installation.write_text(installation.read_text().replace("storages:\n", bound))
    told = refused(installation, capsys, "--client", "spark")
    assert "--storage: is needed: catalog 'lake' has 3 storages, and a client is told of one" in told
    assert "known: main, cold, front" in told

    def asked(client: str, storage: str) -> dict[str, str]:
        words = ("--client", client, "--format", "json", "--storage", storage)
        found: dict[str, str] = json.loads(client_config(installation, capsys, *words))
        return {key.removeprefix("spark.sql.catalog.lake."): value for key, value in found.items()}

    assert asked("spark", "main")["s3.endpoint"] == ENDPOINT
    cold = asked("spark", "cold")
    assert cold["client.region"] == "us-west-2"
    # AWS' endpoints are the client's to know.
    assert "s3.endpoint" not in cold
    assert "s3.path-style-access" not in cold
    front = asked("pyiceberg", "front")
    assert (front["s3.endpoint"], front["s3.force-virtual-addressing"]) == ("https://s3.example", "true")
    assert "s3.path-style-access" not in asked("spark", "front")


def test_the_catalog_is_found_by_a_prefix_too(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Clients know a catalog by the prefix that they were given."""
    policy = POLICY.replace(_CATALOG, _CATALOG.replace("}", ", prefixes: [opaque-1]}"))
    (installation.parent / "policy.yaml").write_text(policy)
    text = client_config(installation, capsys, "--client", "pyiceberg", "--catalog", "opaque-1")
    assert "http://127.0.0.1:8181/catalogs/lake" in text
    assert "opaque-1" not in text


def test_without_an_upstream_there_is_no_facade(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of the client's catalog calls would be answered 404."""
    installation.write_text(installation.read_text().replace(UPSTREAM, ""))
    (installation.parent / "policy.yaml").write_text(conftest.POLICY)
    told = refused(installation, capsys, "--client", "spark")
    assert "settings: upstreams.lake: this key is missing" in told
    assert "--mode direct" in told
    assert f"{CATALOG_URI}\n" in client_config(installation, capsys, "--client", "spark", *DIRECT)


def test_clients_are_sent_to_the_public_url(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a gateway listens on is not what its clients can reach."""
    text = client_config(installation, capsys, "--client", "flink", "--set", "public_url=https://sign.example/base/")
    assert "'uri' = 'https://sign.example/base/catalogs/lake'" in text
    assert "127.0.0.1:8181" not in text
