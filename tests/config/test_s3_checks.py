"""Settings of the transparent mode that contradict each other are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from signproxy.config import load_settings
from signproxy.config.advice import advice
from signproxy.errors import SettingsInvalid

POLICY = "policy: {path: p}\n"


def settings_text(s3: str) -> str:
    return f"{POLICY}s3: {{{s3}}}\n"


def faults_of(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> list[str]:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    try:
        load_settings(file, environ or {})
    except SettingsInvalid as invalid:
        return [str(finding).removeprefix(f"{file}: ") for finding in invalid.findings]
    return []


BEYOND = "is beyond loopback, and not encrypted; set s3.tls or s3.allow_remote"
POD = "enabled: true, identities: [pod], pod: {token_file: t"


@pytest.mark.parametrize(
    ("s3", "findings"),
    (
        ("enabled: true", []),
        # Off, it does not matter what else stands there, but for what other parts of the server rely on.
        ("host: 0.0.0.0, base_domains: [BAD], pod: {uids: [1]}", []),
        ("steer: true", ["s3.steer: leads nowhere: set s3.enabled"]),
        # addresses
        ("enabled: true, host: 10.0.0.1", [f"s3.host: '10.0.0.1' {BEYOND}"]),
        ("enabled: true, host: 10.0.0.1, allow_remote: true", []),
        ("enabled: true, host: 10.0.0.1, tls: {cert_file: c, key_file: k}", []),
        (
            "enabled: true, tls: {cert_file: c}",
            ["s3.tls.key_file: this key is missing; cert_file needs its private key"],
        ),
        ("enabled: true, port: 8181", ["s3.port: 8181 is listen.port too"]),
        ("enabled: true, port: 9181", ["s3.port: 9181 is admin.port too"]),
        ("enabled: true, port: 9181, host: 127.0.0.2", []),
        ("enabled: true, port: 8181, tcp: false, socket: x", []),
        ("enabled: true, tcp: false", ["s3.tcp: no client could connect; set s3.socket where tcp is false"]),
        (
            "enabled: true, tcp: false, socket: x, tls: {cert_file: c, key_file: k}",
            [
                "s3.tls.cert_file: has no effect with s3.tcp: false; Unix sockets speak no TLS",
                "s3.tls.key_file: has no effect with s3.tcp: false; Unix sockets speak no TLS",
            ],
        ),
        # base domains
        ("enabled: true, base_domains: [s3.example.com, localhost, a-b.c1]", []),
        *(
            (
                f"enabled: true, base_domains: ['{domain}']",
                [f"s3.base_domains[0]: {domain!r} is no host name in lower case, without port"],
            )
            for domain in (
                "S3.example",
                "s3.example:8182",
                ".s3.example",
                "s3.example.",
                "s3..example",
                "-a.b",
                "a_b.c",
                "*.s3.example",
                "127.0.0.1",
                "s3/example",
                "a" * 64,
                ".".join(["a" * 60] * 5),
            )
        ),
        ("enabled: true, base_domains: [a.b, a.b]", ["s3.base_domains[1]: 'a.b' stands there twice"]),
        (
            "enabled: true, base_domains: [a.b, x.a.b]",
            ["s3.base_domains[1]: 'x.a.b' lies below 'a.b', where its first part is a bucket"],
        ),
        ("enabled: true, base_domains: [a.b, xa.b]", []),
        # who is calling
        ("enabled: true, identities: []", ["s3.identities: no client could call; name one of emulated, bearer, pod"]),
        ("enabled: true, identities: [bearer, bearer]", ["s3.identities[1]: 'bearer' stands there twice"]),
        (f"{POD}}}", []),
        (f"{POD}}}, host: '::1'", []),
        (f"{POD}, uids: [0, 1000]}}, socket: x", []),
        (
            f"{POD}, uids: [0]}}",
            ["s3.pod.uids: has no effect without s3.socket: TCP does not tell whose process it is"],
        ),
        (
            "enabled: true, identities: [pod, bearer]",
            ["s3.pod.token_file: this key is missing; `pod` is whom this token names"],
        ),
        (
            "enabled: true, pod: {token_file: t, uids: [1]}, socket: x",
            [
                "s3.pod.token_file: has no effect without `pod` among s3.identities",
                "s3.pod.uids: has no effect without `pod` among s3.identities",
            ],
        ),
        # limits
        (
            "enabled: true, limits: {in_flight: 11, total_in_flight: 10}",
            ["s3.limits.in_flight: 11 is more than total_in_flight (10), which is for all callers together"],
        ),
        # steering
        ("enabled: true, steer: true", []),
        (
            "enabled: true, steer: true, identities: [bearer]",
            ["s3.steer: needs `emulated` among s3.identities: it signs with keys of that kind"],
        ),
        (
            "enabled: true, steer: true, tcp: false, socket: x",
            ["s3.public_url: this key is missing; clients cannot be steered to a Unix socket"],
        ),
        (
            "enabled: true, steer: true, host: 0.0.0.0, allow_remote: true",
            ["s3.public_url: this key is missing; clients cannot be steered to 0.0.0.0"],
        ),
        (
            "enabled: true, steer: true, port: 0",
            ["s3.public_url: this key is missing; clients cannot be steered to a port that is not known yet"],
        ),
        ("enabled: true, steer: true, port: 0, public_url: 'https://s3.example/'", []),
        *(
            (
                f"enabled: true, public_url: '{url}'",
                [f"s3.public_url: {url!r} is no http(s) URL without user, path, query and fragment"],
            )
            for url in (
                "s3.example",
                "ftp://s3.example",
                "https://u@s3.example",
                "https://s3.example/path",
                "https://s3.example?",
                "https://s3.example#",
                "https://",
                "https://a:0",
                "https://a:x",
                "https://[a",
                "https://é",
            )
        ),
    ),
)
def test_what_contradicts_itself_is_told(tmp_path: Path, s3: str, findings: list[str]) -> None:
    """A listener would start that serves no caller, or the wrong ones."""
    assert faults_of(tmp_path, settings_text(s3)) == findings


@pytest.mark.parametrize("host", ("10.0.0.1", "0.0.0.0", "::", "pod.example"))
def test_the_identity_of_the_pod_is_not_given_to_the_network(tmp_path: Path, host: str) -> None:
    """A client that reaches the port from another machine would act as the pod, with or without TLS."""
    for protected in ("allow_remote: true", "tls: {cert_file: c, key_file: k}"):
        (found,) = faults_of(tmp_path, settings_text(f"{POD}}}, host: '{host}', {protected}"))
        assert found.startswith(f"s3.host: {host!r} is beyond loopback: any caller that reaches it would be this pod")
    # A Unix socket alone is reached by this machine only, whatever the host says.
    assert faults_of(tmp_path, settings_text(f"{POD}}}, host: '{host}', tcp: false, socket: x")) == []


def test_two_listeners_do_not_share_a_unix_socket(tmp_path: Path) -> None:
    """The second one would find the path occupied only when it starts."""
    text = f"{POLICY}listen: {{socket: a}}\nadmin: {{socket: b}}\ns3: {{enabled: true, socket: %s}}\n"
    assert faults_of(tmp_path, text % "a") == ["s3.socket: is listen.socket too"]
    assert faults_of(tmp_path, text % "./b") == ["s3.socket: is admin.socket too"]
    assert faults_of(tmp_path, text % "c") == []


def test_user_ids_come_from_a_variable_as_well(tmp_path: Path) -> None:
    """Numbers in a list would be refused as text where a container's environment names them."""
    file = tmp_path / "s.yaml"
    file.write_text(settings_text(f"{POD}}}, socket: x"))
    assert load_settings(file, {"SIGNPROXY__S3__POD__UIDS": "0, 1000"}).s3.pod.uids == (0, 1000)
    assert faults_of(tmp_path, file.read_text(), {"SIGNPROXY__S3__POD__UIDS": "-1"})
    assert faults_of(tmp_path, file.read_text(), {"SIGNPROXY__S3__POD__UIDS": "root"})


def test_keys_that_no_other_sidecar_opens_are_worth_a_word(tmp_path: Path) -> None:
    """A key that one sidecar issued is refused by the next, and after a restart, without a reason in sight."""
    file = tmp_path / "s.yaml"

    def said(s3: str) -> list[str]:
        file.write_text(settings_text(s3))
        return [finding.what for finding in advice(load_settings(file, {})) if "secret" in finding.where[-1]]

    assert said("enabled: true") == [
        "without one, issued S3 keys are nothing to this sidecar after a restart, and to any other"
    ]
    assert said("enabled: true, identities: [bearer]") == []
    assert said("enabled: false") == []


@pytest.mark.parametrize(
    ("s3", "url"),
    (
        ("enabled: true", "http://127.0.0.1:8182"),
        ("enabled: true, host: '::1'", "http://[::1]:8182"),
        ("enabled: true, tls: {cert_file: c, key_file: k}", "https://127.0.0.1:8182"),
        ("enabled: true, public_url: 'https://s3.example/'", "https://s3.example"),
    ),
)
def test_clients_are_sent_where_the_listener_is(tmp_path: Path, s3: str, url: str) -> None:
    """A steered request would have no receiver."""
    file = tmp_path / "s.yaml"
    file.write_text(settings_text(s3))
    assert load_settings(file, {}).s3.advertised_url == url


@pytest.mark.parametrize(
    ("s3", "url"),
    (
        ("enabled: true", "http://127.0.0.1:8182"),
        ("enabled: true, host: '0.0.0.0', allow_remote: true, public_url: 'http://s3.example'", "http://s3.example"),
        ("enabled: true, tcp: false, socket: /run/s3, public_url: 'http://s3.example'", "http://s3.example"),
        ("enabled: true, host: '0.0.0.0', allow_remote: true", ""),
        ("enabled: true, host: '::', allow_remote: true", ""),
        ("enabled: true, port: 0", ""),
        ("enabled: true, tcp: false, socket: /run/s3", ""),
        ("enabled: false, public_url: 'http://s3.example'", ""),
        ("enabled: false", ""),
    ),
)
def test_clients_are_told_an_address_that_leads_there_or_none(tmp_path: Path, s3: str, url: str) -> None:
    """Where it is not known how the listener is reached, an address that leads elsewhere would be sent keys."""
    file = tmp_path / "s.yaml"
    file.write_text(settings_text(s3))
    settings = load_settings(file, {})
    assert settings.s3.client_url == url
    behind = "upstreams: {lake: {uri: 'http://127.0.0.1:1'}}\n"
    file.write_text(settings_text(s3) + behind)
    said = [finding.where[-1] for finding in advice(load_settings(file, {}))]
    assert ("s3.public_url" in said) is (s3.startswith("enabled: true") and not url)
    assert "s3.public_url" not in [finding.where[-1] for finding in advice(settings)]


_BOUND = (
    "credentials: {{providers: {{p: {{class: chain}}}}}}\nstorages: {{main: {{credentials: p, hosts: [aws], {}}}}}\n"
)


@pytest.mark.parametrize(
    ("s3", "vend", "problem"),
    (
        ("enabled: true", "vend: issued", ""),
        ("enabled: false", "vend_seconds: 900", ""),
        (
            "enabled: true, keys: {max_seconds: 359}",
            "vend: issued",
            "clients renew without pause what lives for less than 360 s; raise s3.keys.max_seconds",
        ),
        ("enabled: true", "vend: sts", "a session is made of a role; set storages.main.sts.role"),
        ("enabled: false", "vend: sts, sts: {role: 'arn:aws:iam::123456789012:role/lake'}", ""),
        (
            "enabled: false",
            "vend: issued",
            "issued keys are good at the S3 listener alone; set s3.enabled, with `emulated` among s3.identities",
        ),
        (
            "enabled: true, identities: [bearer]",
            "vend: issued",
            "issued keys are good at the S3 listener alone; set s3.enabled, with `emulated` among s3.identities",
        ),
        (
            "enabled: true, host: 0.0.0.0, allow_remote: true",
            "vend: issued",
            "callers have to be told where their keys are good; set s3.public_url",
        ),
        ("enabled: true, host: 0.0.0.0, allow_remote: true, public_url: 'http://s3:8182'", "vend: issued", ""),
    ),
)
def test_keys_are_not_promised_that_open_nothing(tmp_path: Path, s3: str, vend: str, problem: str) -> None:
    """Clients would be handed keys, and find no place that takes them."""
    found = faults_of(tmp_path, settings_text(s3) + _BOUND.format(vend))
    assert found == ([f"storages.main.vend: {problem}"] if problem else [])
