"""Settings: file, environment and flags merge in this order, and every fault is named where it was made."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from signproxy.config import Settings, load_settings
from signproxy.config.load import MAX_FILE_BYTES
from signproxy.config.settings import AuditSinkKind, LogLevel, Loop
from signproxy.errors import SettingsInvalid

MINIMAL = {"SIGNPROXY__POLICY__PATH": "policy"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "signproxy.yaml"


def faults_of(file: Path | None, environ: dict[str, str], flags: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(file, environ, flags)
    prefix = f"{file}: "
    return [str(finding).replace(prefix, "") for finding in caught.value.findings]


def test_the_environment_alone_is_enough() -> None:
    """A container without a mounted settings file could not start."""
    settings = load_settings(None, MINIMAL)
    assert settings.policy.path == "policy"
    assert settings.listen.host == "127.0.0.1"
    assert settings.listen.port == 8181
    assert settings.advertised_url == "http://127.0.0.1:8181"


def test_flags_win_over_environment_over_file_over_defaults(file: Path) -> None:
    """An operator who overrides a value for one start would get the old one."""
    file.write_text("listen: {port: 1, keepalive_seconds: 20}\nlog: {level: error}\npolicy: {path: p}\n")
    environ = {"SIGNPROXY__LISTEN__PORT": "2", "SIGNPROXY__LOG__LEVEL": "debug", "UNRELATED": "x"}
    settings = load_settings(file, environ, {"listen.port": "3"})
    assert (settings.listen.port, settings.log.level, settings.listen.keepalive_seconds) == (3, LogLevel.DEBUG, 20)
    assert settings.loop is Loop.AUTO


@pytest.mark.parametrize(
    ("variable", "text", "path", "value"),
    (
        ("LISTEN__REUSE_PORT", "true", "listen.reuse_port", True),
        ("AUDIT__QUEUE", "500", "audit.queue", 500),
        ("PUBLIC_URL", "https://sign.example", "public_url", "https://sign.example"),
        ("LOOP", "asyncio", "loop", Loop.ASYNCIO),
        # Text stays text, whatever it looks like.
        ("AUDIT__PATH", "007", "audit.path", "007"),
        ("CREDENTIALS__MODULES", "one, two,", "credentials.modules", ("one", "two")),
        ("CREDENTIALS__MODULES", "[one, 'tw,o']", "credentials.modules", ("one", "tw,o")),
        ("CREDENTIALS__MODULES", "", "credentials.modules", ()),
    ),
)
def test_a_variable_is_read_as_its_setting_wants_it(variable: str, text: str, path: str, value: object) -> None:
    """A number, switch or list could not be set from a pod's environment."""
    environ = MINIMAL | {f"SIGNPROXY__{variable}": text}
    if variable == "AUDIT__PATH":
        environ["SIGNPROXY__AUDIT__SINK"] = "file"
    got: object = load_settings(None, environ)
    for step in path.split("."):
        got = getattr(got, step)
    assert got == value


def test_lists_of_sections_come_as_yaml() -> None:
    """A static token could not be declared without a file."""
    environ = MINIMAL | {
        "SIGNPROXY__IDENTITY__STATIC_TOKENS": f"[{{sha256: {'ab' * 32}, principal: etl, roles: [writer]}}]"
    }
    (token,) = load_settings(None, environ).identity.static_tokens
    assert (token.principal, token.roles, token.catalogs) == ("etl", ("writer",), None)


def test_names_of_the_file_are_found_in_upper_case(file: Path) -> None:
    """Kubernetes variables have neither dashes nor dots: the issuer `Main-IdP` would be declared twice."""
    file.write_text(
        "policy: {path: p}\n"
        "identity: {issuers: {Main-IdP.eu: {issuer: a, audiences: [b], discovery: true}}}\n"
        "credentials: {providers: {s3-keys: {class: static, properties: {access_key_id: A}}}}\n"
    )
    environ = {
        "SIGNPROXY__IDENTITY__ISSUERS__MAIN_IDP_EU__AUDIENCES": "x,y",
        "SIGNPROXY__CREDENTIALS__PROVIDERS__S3_KEYS__PROPERTIES__SECRET_ACCESS_KEY": "s",
    }
    settings = load_settings(file, environ)
    assert list(settings.identity.issuers) == ["Main-IdP.eu"]
    assert settings.identity.issuers["Main-IdP.eu"].audiences == ("x", "y")
    assert settings.credentials.providers["s3-keys"].properties == {"access_key_id": "A", "secret_access_key": "s"}


def test_a_new_name_is_made_in_lower_case() -> None:
    """A provider that exists in the environment alone could not be bound."""
    prefix = "SIGNPROXY__CREDENTIALS__PROVIDERS__MAIN__"
    environ = MINIMAL | {
        f"{prefix}CLASS": "static",
        f"{prefix}PROPERTIES__ACCESS_KEY_ID": "AKIA",
        "SIGNPROXY__STORAGES__LAKE__CREDENTIALS": "main",
        "SIGNPROXY__STORAGES__LAKE__HOSTS": "s3.local:9000",
    }
    settings = load_settings(None, environ)
    assert settings.credentials.providers["main"].class_ == "static"
    assert settings.storages["lake"].hosts == ("s3.local:9000",)


def test_secrets_are_named_by_their_files() -> None:
    """A secret would have to stand in the pod's description, for every user that may list pods."""
    prefix = "SIGNPROXY__IDENTITY__ISSUERS__IDP__"
    environ = MINIMAL | {f"{prefix}ISSUER": "i", f"{prefix}AUDIENCES": "a", f"{prefix}SECRET_FILE": "/run/secret"}
    provider = "SIGNPROXY__CREDENTIALS__PROVIDERS__MAIN__"
    environ |= {f"{provider}CLASS": "a.b:C", f"{provider}PROPERTIES__SECRET_ACCESS_KEY_FILE": "/run/key"}
    settings = load_settings(None, environ)
    assert settings.identity.issuers["idp"].secret_file == "/run/secret"
    assert settings.credentials.providers["main"].properties == {"secret_access_key_file": "/run/key"}


def test_paths_of_the_file_are_relative_to_it(file: Path) -> None:
    """A settings file with its policy beside it would only work from one working directory."""
    file.write_text(
        "policy: {path: policies}\naudit: {sink: file, path: /var/log/audit}\n"
        "identity: {issuers: {i: {issuer: i, audiences: [a], key_file: keys/i.pem}}}\n"
        "credentials: {providers: {p: {class: 'a:B', properties: {file: s, x_file: t, y: u}}}}\n"
    )
    settings = load_settings(file, {})
    assert settings.policy.path == str(file.parent / "policies")
    assert settings.audit.path == "/var/log/audit"
    assert settings.identity.issuers["i"].key_file == str(file.parent / "keys/i.pem")
    assert settings.credentials.providers["p"].properties == {
        "file": str(file.parent / "s"),
        "x_file": str(file.parent / "t"),
        "y": "u",
    }
    # Given elsewhere, a path is relative to where the command runs.
    assert load_settings(file, {"SIGNPROXY__POLICY__PATH": "here"}).policy.path == "here"
    assert load_settings(file, {}, {"policy.path": "here"}).policy.path == "here"


@pytest.mark.parametrize(
    ("environ", "flags", "finding"),
    (
        (
            {"LISTN__PORT": "1"},
            {},
            "environment: SIGNPROXY__LISTN__PORT: unknown setting 'listn' (did you mean 'listen'?)",
        ),
        (
            {"LISTEN__PROT": "1"},
            {},
            "environment: SIGNPROXY__LISTEN__PROT: unknown setting 'listen.prot' (did you mean 'port'?)",
        ),
        (
            {"POLICY__XYZZY": "1"},
            {},
            "environment: SIGNPROXY__POLICY__XYZZY: unknown setting 'policy.xyzzy'; known keys: path",
        ),
        ({"LISTEN": "{port: 1}"}, {}, "environment: SIGNPROXY__LISTEN: listen is a section; name one of its keys"),
        ({"LISTEN__PORT__X": "1"}, {}, "environment: SIGNPROXY__LISTEN__PORT__X: listen.port has no keys"),
        ({"LISTEN__PORT": "x"}, {}, "environment: SIGNPROXY__LISTEN__PORT: a whole number expected, got text"),
        ({"LISTEN__PORT": ""}, {}, "environment: SIGNPROXY__LISTEN__PORT: a whole number expected, got nothing"),
        (
            {"LISTEN__PORT": "65536"},
            {},
            "environment: SIGNPROXY__LISTEN__PORT: 65536 is out of range: at least 0 and at most 65535",
        ),
        (
            {"LISTEN__HOST": "0.0.0.0"},
            {},
            (
                "environment: SIGNPROXY__LISTEN__HOST: '0.0.0.0' is beyond loopback, and not encrypted; "
                "set listen.tls or listen.allow_remote"
            ),
        ),
        ({}, {"log.levle": "info"}, "command line: log.levle: unknown setting 'log.levle' (did you mean 'level'?)"),
        (
            {},
            {"log.level": "inf"},
            "command line: log.level: 'inf' is none of debug, info, warning, error (did you mean 'info'?)",
        ),
        # The flag overrides the variable, so the flag is at fault.
        (
            {"LOG__LEVEL": "info"},
            {"log.level": "trace"},
            "command line: log.level: 'trace' is none of debug, info, warning, error",
        ),
        (
            {"IDENTITY__STATIC_TOKENS": "[{sha256: x, principal: p}]"},
            {},
            "environment: SIGNPROXY__IDENTITY__STATIC_TOKENS: is not of the form ^[0-9a-f]{64}$",
        ),
        (
            {"LOG__LEVEL": "info", "log__level": "debug", "LOG__Level": "debug"},
            {},
            "environment: SIGNPROXY__log__level: sets the same as SIGNPROXY__LOG__LEVEL",
        ),
    ),
)
def test_a_fault_outside_the_file_names_variable_or_flag(
    environ: dict[str, str], flags: dict[str, str], finding: str
) -> None:
    """An operator would search the file for a fault that is in the deployment."""
    prefixed = MINIMAL | {f"SIGNPROXY__{name}": value for name, value in environ.items()}
    assert finding in faults_of(None, prefixed, flags)


def test_all_faults_are_told_at_once(file: Path) -> None:
    """Mending a file would take a start per fault."""
    file.write_text("listen: {prot: 1}\nlog: {level: loud}\nstorage: {}\n")
    assert faults_of(file, {}) == [
        "listen.prot: unknown key (did you mean 'port'?)",
        "log.level: 'loud' is none of debug, info, warning, error",
        "storage: unknown key (did you mean 'storages'?)",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    (
        (None, "cannot be read: No such file or directory"),
        (b"- a\n- b", "a mapping of sections expected, such as `listen:`"),
        (b"a: \xff", "is not UTF-8 text"),
        (b"a: [", "line 2: while parsing a flow node, did not find expected node content"),
        (b"#" * (MAX_FILE_BYTES + 1), f"larger than {MAX_FILE_BYTES} bytes: not a settings file"),
    ),
)
def test_an_unusable_file_is_named(file: Path, content: bytes | None, problem: str) -> None:
    """A wrong --config would end in a stack trace."""
    if content is not None:
        file.write_bytes(content)
    assert faults_of(file, {}) == [problem]


@pytest.mark.parametrize(("size", "told"), ((0, ""), (MAX_FILE_BYTES, f"larger than {MAX_FILE_BYTES} bytes")))
def test_a_pipe_is_read(file: Path, size: int, told: str) -> None:
    """Settings that are kept encrypted could not be passed on by what decrypts them: `--config <(sops …)`."""
    os.mkfifo(file)

    def write() -> None:
        with suppress(BrokenPipeError), file.open("wb") as pipe:
            pipe.write(b"policy: {path: p}\n" + b"#" * size)

    writer = threading.Thread(target=write)
    writer.start()
    if told:
        assert told in faults_of(file, {})[0]
    else:
        assert load_settings(file, {}).policy.path == str(file.parent / "p")
    writer.join()


def test_a_byte_order_mark_is_no_key(file: Path) -> None:
    """A file saved on Windows would have an unknown first key."""
    file.write_bytes(b"\xef\xbb\xbfpolicy: {path: p}\n")
    assert load_settings(file, {}).policy.path.endswith("p")


def test_defaults_are_settings() -> None:
    """What embeds signproxy could not begin from the defaults."""
    assert Settings().audit.sink is AuditSinkKind.STDOUT


@pytest.mark.parametrize(
    ("environ", "url"),
    (
        ({}, "http://127.0.0.1:8181"),
        ({"SIGNPROXY__LISTEN__HOST": "::1", "SIGNPROXY__LISTEN__PORT": "80"}, "http://[::1]:80"),
        ({"SIGNPROXY__PUBLIC_URL": "https://sign.example/base/"}, "https://sign.example/base"),
    ),
)
def test_the_advertised_url_leads_back(environ: dict[str, str], url: str) -> None:
    """Clients would be sent to an address that is none."""
    assert load_settings(None, MINIMAL | environ).advertised_url == url


def test_what_is_accepted_is_accepted_by_name() -> None:
    """One storage's risk would be taken for all."""
    environ = MINIMAL | {"SIGNPROXY__CREDENTIALS__PROVIDERS__P__CLASS": "static"}
    for name in ("A", "B"):
        environ |= {f"SIGNPROXY__STORAGES__{name}__CREDENTIALS": "p", f"SIGNPROXY__STORAGES__{name}__HOSTS": "h"}
    environ["SIGNPROXY__STORAGES__B__ACCEPT_UNCHECKED_HEADERS"] = "true"
    assert load_settings(None, environ).accepted_unsafe == frozenset({"b"})


def test_a_document_of_the_wrong_shape_is_told_and_nothing_else(file: Path) -> None:
    """Looking for file names in a list would end in a stack trace."""
    file.write_text(
        "identity: {issuers: [a]}\ncredentials: {providers: {p: {class: x, properties: [a]}}}\n"
        "audit: 7\npublic_url: {a: {b: c}}\n"
    )
    assert faults_of(file, {"SIGNPROXY__AUDIT__QUEUE": "500", "SIGNPROXY__IDENTITY__ISSUERS__X__ISSUER": "i"}) == [
        "identity.issuers.x.audiences: this key is missing",
        "credentials.providers.p.properties: a mapping expected, got a list",
        "public_url: text expected, got a mapping",
    ]
