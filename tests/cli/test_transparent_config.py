"""`signproxy client-config` for clients that sign by themselves: read as they read it, and never with a secret."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from signproxy.cli import main
from signproxy.cli.clients.formats import Format
from signproxy.cli.clients.token import TokenSource
from signproxy.cli.clients.transparent import S3Site, Transparent
from signproxy.cli.clients.transparent_forms import FORMS, page
from signproxy.cli.main import COMMANDS
from tests.cli import conftest
from tests.cli.commands import client_config
from tests.cli.conftest import TOKEN

URL = "http://127.0.0.1:8182"
SITE = S3Site(
    catalog="lake",
    s3_url="https://s3.sign.example",
    public_url="https://sign.example",
    region="eu-central-1",
    bucket="acme-lake",
    catalog_uri="https://sign.example/catalogs/lake",
)
EVERYTHING = [(client, form) for client, forms in FORMS.items() for form in forms]
_ids = [f"{client.value}-{form.value}" for client, form in EVERYTHING]
BEHIND = "upstreams: {lake: {uri: 'https://catalog.example'}}\n"
KEYS = {"AWS_ACCESS_KEY_ID": "SPK1A", "AWS_SECRET_ACCESS_KEY": "geheim", "AWS_SESSION_TOKEN": "spk1.a.b"}


@pytest.fixture
def installation(installation: Path) -> Path:
    """Return the settings file of an installation with an S3 listener."""
    installation.write_text(installation.read_text() + "s3: {enabled: true, keys: {max_seconds: 900}}\n" + BEHIND)
    return installation


def refused(installation: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["client-config", "--config", str(installation), *words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    return err


def commands(text: str) -> list[list[str]]:
    """Return the words of each `signproxy keys issue` that a page tells of."""
    found = re.findall(r"signproxy keys issue [^\n]*?--format [a-z-]+", text)
    return [shlex.split(command) for command in found]


# -- what every page says --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "form"), EVERYTHING, ids=_ids)
def test_no_page_holds_a_secret(
    client: Transparent, form: Format, installation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed is pasted into tickets and wikis."""
    (tmp_path / "token").write_text(TOKEN)
    words = ["--client", client.value, "--format", form.value, "--token-file", str(tmp_path / "token")]
    text = client_config(installation, capsys, *words)
    assert TOKEN not in text
    assert conftest.SECRET not in text


@pytest.mark.parametrize(("client", "form"), EVERYTHING, ids=_ids)
def test_every_page_says_how_a_key_is_issued(
    client: Transparent, form: Format, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client would have to be given a key, and no message says where one comes from."""
    words = ["--client", client.value, "--format", form.value, "--token-variable", "MY_TOKEN"]
    (command,) = commands(client_config(installation, capsys, *words))
    assert command[:3] == ["signproxy", "keys", "issue"]
    options = dict(zip(command[3::2], command[4::2], strict=True))
    assert (options["--url"], options["--catalog"]) == ("http://127.0.0.1:8181", "lake")
    assert options["--token-env"] == "MY_TOKEN"
    # The command is one that there is, with options that it takes.
    assert command[1] in COMMANDS
    assert main([*command[1:-1], "aws-config"]) == 0
    assert "[profile signproxy]" in capsys.readouterr().out


@pytest.mark.parametrize(("client", "form"), EVERYTHING, ids=_ids)
def test_every_page_leads_to_the_listener(
    client: Transparent, form: Format, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client would go to the store itself, or to where requests are signed."""
    text = client_config(installation, capsys, "--client", client.value, "--format", form.value)
    configuration = "\n".join(line for line in text.splitlines() if not line.startswith(("#", "--")))
    if client.known.needs_catalog:
        # Where objects are, the facade tells them with each table.
        assert "http://127.0.0.1:8181/catalogs/lake" in configuration
    else:
        assert "127.0.0.1:8182" in configuration
        assert "eu-central-1" in configuration
    assert conftest.ENDPOINT not in text
    assert "127.0.0.1 is each machine's own" in text
    secure = "\n".join(page(client, SITE, form, TokenSource()))
    assert ("https://sign.example/catalogs/lake" if client.known.needs_catalog else "s3.sign.example") in secure
    assert "each machine's own" not in secure
    assert "http://" not in secure


@pytest.mark.parametrize(("client", "form"), EVERYTHING, ids=_ids)
def test_notes_fit_a_terminal(client: Transparent, form: Format) -> None:
    """A note that runs out of the window is not read to its end."""
    lines = [line for line in page(client, SITE, form, TokenSource()) if line.startswith(form.comment)]
    assert len(lines) >= 3
    assert max(len(line) for line in lines if "signproxy keys issue" not in line) <= 110


@pytest.mark.parametrize("client", Transparent)
def test_a_client_is_told_how_long_its_key_lives(
    client: Transparent, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job would end in the middle, without a reason in sight."""
    text = client_config(installation, capsys, "--client", client.value)
    assert ("lives for 900 s at most, and is not renewed" in text) is not client.known.renews
    assert ("and again before one ends" in text) is client.known.renews


# -- what is printed, read back as its reader does -------------------------------------------------------------------


def _profile_of(text: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    (section,) = parser.sections()
    return parser[section]


@pytest.mark.parametrize("client", (Transparent.AWSCLI, Transparent.BOTO3))
def test_sdks_read_their_profile(client: Transparent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK would use another endpoint, or keys that lie around."""
    import botocore.session

    (tmp_path / "config").write_text("\n".join(page(client, SITE, Format.INI, TokenSource("/run/token"))))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    session = botocore.session.Session(profile="signproxy")
    found = session.get_scoped_config()
    assert found["region"] == "eu-central-1"
    assert found["endpoint_url"] == "https://s3.sign.example"
    assert found["s3"] == {"addressing_style": "path", "signature_version": "s3v4"}
    session.set_credentials("SPK1A", "geheim", "spk1.a.b")
    made = session.create_client("s3", region_name="us-east-1")
    # In this region SDKs go on presigning with version 2, which is not understood here.
    url = made.generate_presigned_url("get_object", Params={"Bucket": "b", "Key": "k"})
    assert "X-Amz-Signature=" in url
    assert shlex.split(found["credential_process"])[-2:] == ["--format", "process"]
    assert "/run/token" in found["credential_process"]


def test_boto3_makes_the_client_that_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that does not run is found out by the user who pastes it."""
    key = {"Version": 1, "AccessKeyId": "SPK1A", "SecretAccessKey": "geheim", "SessionToken": "spk1.a.b"}
    (tmp_path / "key").write_text(json.dumps(key))
    (tmp_path / "config").write_text(f"[profile signproxy]\ncredential_process = cat {tmp_path}/key\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    there: dict[str, Any] = {}
    exec("\n".join(page(Transparent.BOTO3, SITE, None, TokenSource())), there)  # noqa: S102 - what is printed is run
    client = there["s3"]
    assert client.meta.endpoint_url == "https://s3.sign.example"
    assert client.meta.region_name == "eu-central-1"
    assert client.meta.config.s3["addressing_style"] == "path"
    assert client.meta.config.signature_version == "s3v4"


def _python(client: Transparent, name: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run printed Python code with a library that only remembers what it is given."""
    for variable, value in KEYS.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setitem(sys.modules, name, module)
    there: dict[str, Any] = {}
    exec("\n".join(page(client, SITE, Format.PYTHON, TokenSource())), there)  # noqa: S102 - what is printed is run
    return there


def test_polars_is_given_the_key_of_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars would look for keys of its own, and find others."""
    monkeypatch.setenv("SIGNPROXY_TOKEN", "geheim")
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", _Recorded("pyiceberg.catalog"))
    options = _python(Transparent.POLARS, "polars", ModuleType("polars"), monkeypatch)["storage_options"]
    assert options == {
        "aws_access_key_id": "SPK1A",
        "aws_secret_access_key": "geheim",
        "aws_session_token": "spk1.a.b",
        "aws_endpoint_url": "https://s3.sign.example",
        "aws_region": "eu-central-1",
        "aws_virtual_hosted_style_request": "false",
    }
    plain = "\n".join(page(Transparent.POLARS, _plain(), Format.PYTHON, TokenSource()))
    assert "'aws_allow_http': 'true'" in plain


class _Recorded(ModuleType):
    """A library of which every call is kept."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.called: list[tuple[object, ...]] = []

    def connect(self) -> _Recorded:
        return self

    def load_catalog(self, *words: object, **named: object) -> _Recorded:
        self.called.append((*words, named))
        return self

    def execute(self, statement: str) -> None:
        self.called.append(("execute", statement))

    def install_extension(self, name: str) -> None:
        self.called.append(("install", name))

    def load_extension(self, name: str) -> None:
        self.called.append(("load", name))


def test_duckdb_reads_the_key_of_the_variables_and_needs_no_further_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """`credential_chain` needs an extension that a closed network does not have, and a secret outlives its key."""
    monkeypatch.setenv("SIGNPROXY_TOKEN", "to'ken")
    library = _Recorded("duckdb")
    _python(Transparent.DUCKDB, "duckdb", library, monkeypatch)
    assert library.called == [
        ("install", "httpfs"),
        ("load", "httpfs"),
        ("execute", "SET s3_endpoint = 's3.sign.example'"),
        ("execute", "SET s3_region = 'eu-central-1'"),
        ("execute", "SET s3_url_style = 'path'"),
        ("execute", "SET s3_use_ssl = true"),
        ("execute", "INSTALL avro"),
        ("execute", "LOAD avro"),
        ("execute", "INSTALL iceberg"),
        ("execute", "LOAD iceberg"),
        ("execute", "CREATE OR REPLACE SECRET signproxy (TYPE iceberg, TOKEN 'to''ken')"),
        (
            "execute",
            "ATTACH 'lake' AS \"lake\" (TYPE iceberg, ENDPOINT 'https://sign.example/catalogs/lake', SECRET signproxy)",
        ),
    ]


def test_duckdbs_statements_say_the_same() -> None:
    """The two forms would lead to two places."""
    text = "\n".join(page(Transparent.DUCKDB, SITE, Format.SQL, TokenSource()))
    statements = [line for line in text.splitlines() if not line.startswith("--")]
    assert all(line.endswith(";") for line in statements)
    assert statements[:6] == [
        "INSTALL httpfs;",
        "LOAD httpfs;",
        "SET s3_endpoint = 's3.sign.example';",
        "SET s3_region = 'eu-central-1';",
        "SET s3_url_style = 'path';",
        "SET s3_use_ssl = true;",
    ]
    assert statements[-2] == "CREATE OR REPLACE SECRET signproxy (TYPE iceberg, TOKEN getenv('SIGNPROXY_TOKEN'));"
    assert "credential_chain" not in text
    from_file = "\n".join(page(Transparent.DUCKDB, SITE, Format.SQL, TokenSource(file="/run/token")))
    assert '-- export SIGNPROXY_TOKEN="$(cat /run/token)"' in from_file
    plain = "\n".join(page(Transparent.DUCKDB, _plain(), Format.SQL, TokenSource()))
    assert "SET s3_use_ssl = false;" in plain
    assert "ATTACH" not in plain


@pytest.mark.parametrize("client", (Transparent.PYARROW, Transparent.DAFT, Transparent.POLARS))
def test_the_catalog_is_loaded_with_the_token_of_the_variable(
    client: Transparent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the catalog these clients know of no table; with another address than the facade's, of no listener."""
    monkeypatch.setenv("SIGNPROXY_TOKEN", "geheim")
    monkeypatch.setitem(sys.modules, "daft", ModuleType("daft"))
    monkeypatch.setitem(sys.modules, "polars", ModuleType("polars"))
    library = _Recorded("pyiceberg.catalog")
    monkeypatch.setitem(sys.modules, "pyiceberg", ModuleType("pyiceberg"))
    _python(client, "pyiceberg.catalog", library, monkeypatch)
    told = {"type": "rest", "uri": "https://sign.example/catalogs/lake", "token": "geheim"}
    assert library.called == [("lake", told)]


@pytest.mark.parametrize("client", (Transparent.ICEBERG_GO, Transparent.ICEBERG_RUST))
def test_libraries_are_told_the_catalog_alone(client: Transparent) -> None:
    """An S3 endpoint of their own would win over the one that the facade tells."""
    text = "\n".join(page(client, SITE, None, TokenSource()))
    assert _properties(text, "=") == {"type": "rest", "uri": "https://sign.example/catalogs/lake"}
    assert "the variable SIGNPROXY_TOKEN holds" in text
    assert "the file /run/token holds" in "\n".join(page(client, SITE, None, TokenSource(file="/run/token")))


@pytest.mark.parametrize("client", [client for client in Transparent if client.known.needs_catalog])
def test_clients_of_catalogs_need_one(
    client: Transparent, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing would tell them where the S3 listener is, and their keys went to the store."""
    installation.write_text(installation.read_text().replace(BEHIND, ""))
    told = refused(installation, capsys, "--client", client.value)
    assert "upstreams.lake: this key is missing: nothing is behind the facade" in told


def _properties(text: str, separator: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [re.split(separator, line, maxsplit=1) for line in lines]
    assert len({key for key, _ in pairs}) == len(pairs)
    return {key: value for key, value in pairs}  # noqa: C416 - to a checker lists of two are no pairs


def test_trino_finds_its_keys_by_the_profile_of_its_environment() -> None:
    """A key in its file would end, and Trino with it."""
    text = "\n".join(page(Transparent.TRINO, SITE, None, TokenSource()))
    assert _properties(text, "=") == {
        "fs.native-s3.enabled": "true",
        "s3.endpoint": "https://s3.sign.example",
        "s3.region": "eu-central-1",
        "s3.path-style-access": "true",
    }
    assert "AWS_PROFILE=signproxy" in text
    assert "aws-access-key" not in text


def test_comet_reads_through_s3a_with_the_key_of_the_variables() -> None:
    """Spark would go to AWS, or look for keys elsewhere."""
    conf = _properties("\n".join(page(Transparent.COMET, _plain(), None, TokenSource())), r"\s+")
    assert all(key.startswith("spark.hadoop.fs.s3") for key in conf)
    assert conf["spark.hadoop.fs.s3a.endpoint"] == URL
    assert conf["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert conf["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith(".EnvironmentVariableCredentialsProvider")


def test_rclone_has_a_remote_that_takes_its_key_from_the_environment() -> None:
    """Rclone would ask for a key, or send none."""
    remote = _profile_of("\n".join(page(Transparent.RCLONE, SITE, None, TokenSource())))
    assert dict(remote) == {
        "type": "s3",
        "provider": "Other",
        "env_auth": "true",
        "region": "eu-central-1",
        "endpoint": "https://s3.sign.example",
        "force_path_style": "true",
    }


def test_a_shell_gets_the_key_into_its_variables(tmp_path: Path) -> None:
    """s5cmd would run without a key, or with one that could not be issued."""
    program = tmp_path / "signproxy"
    exports = "\n".join(f"echo export {name}={value}" for name, value in KEYS.items())
    program.write_text(f"#!/bin/sh\n{exports}\n")
    program.chmod(0o755)
    script = "\n".join(page(Transparent.S5CMD, SITE, None, TokenSource()))

    def run() -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/sh", "-ec", f"{script}\nenv"],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        return done.returncode, done.stdout

    code, shown = run()
    assert code == 0
    for name, value in KEYS.items():
        assert f"{name}={value}" in shown
    assert "S3_ENDPOINT_URL=https://s3.sign.example" in shown
    program.write_text("#!/bin/sh\nexit 1\n")
    assert run()[0] != 0


# -- what cannot be configured ---------------------------------------------------------------------------------------


def _plain() -> S3Site:
    return S3Site(
        catalog="lake", s3_url=URL, public_url="http://127.0.0.1:8181", region="eu-central-1", bucket="acme-lake"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    (
        (("--set", "s3.enabled=false"), "settings: s3.enabled: is off; DuckDB cannot have its requests signed"),
        (("--set", "s3.identities=bearer"), "settings: s3.identities: lacks `emulated`"),
        (("--set", "s3.port=0"), "settings: s3.public_url: this key is missing"),
        (
            ("--set", "s3.host=0.0.0.0", "--set", "s3.allow_remote=true"),
            "settings: s3.public_url: this key is missing; clients cannot be sent to 0.0.0.0",
        ),
        (("--catalog", "lak"), "--catalog: the policy has no catalog 'lak' (did you mean 'lake'?)"),
        (("--storage", "mian"), "--storage: catalog 'lake' has no storage 'mian' (did you mean 'main'?)"),
        (("--format", "yaml"), "--format: 'yaml' is no form that duckdb takes: sql, python"),
        (("--mode", "direct"), "--mode: goes with clients that have their requests signed; DuckDB signs by itself"),
        (("--as", "x"), "--as: goes with clients that have their requests signed"),
        (("--query-id", "x"), "--query-id: goes with clients"),
        (("--spark-version", "4.1"), "--spark-version: goes with clients"),
    ),
)
def test_what_cannot_be_configured_is_told(
    words: tuple[str, ...], told: str, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client would be refused for it with each request, in words that say less."""
    assert told in refused(installation, capsys, "--client", "duckdb", *words)


def test_clients_are_sent_to_the_listeners_public_url(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a cluster they would look for it on their own machine."""
    words = ["--set", "s3.public_url=https://s3.sign.example/", "--set", "s3.port=0"]
    text = client_config(installation, capsys, "--client", "boto3", *words)
    assert "endpoint_url='https://s3.sign.example'," in text


def test_every_client_of_the_reference_is_there(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A client that is named on the page could not be configured."""
    for client in Transparent:
        assert f"{client.known.title}: catalog lake" in client_config(installation, capsys, "--client", client.value)
        assert client.known.why
