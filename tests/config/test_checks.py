"""Settings that contradict each other are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from signproxy.config import load_settings
from signproxy.errors import SettingsInvalid

POLICY = "policy: {path: p}\n"
PROVIDER = POLICY + "credentials: {providers: {main: {class: static}}}\n"
ISSUER = "identity: {issuers: {idp: {issuer: 'https://idp', audiences: [a], %s}}}\n"
DIGEST = "ab" * 32


def faults_of(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    try:
        load_settings(file, {})
    except SettingsInvalid as invalid:
        return [str(finding).removeprefix(f"{file}: ") for finding in invalid.findings]
    return []


@pytest.mark.parametrize(
    ("text", "findings"),
    (
        ("", ["policy.path: this key is missing; in the environment it is SIGNPROXY__POLICY__PATH"]),
        (POLICY, []),
        # addresses
        (POLICY + "listen: {host: '::1'}", []),
        (POLICY + "listen: {host: localhost}", []),
        (POLICY + "listen: {host: 127.9.9.9}", []),
        (
            POLICY + "listen: {host: 10.0.0.1}",
            ["listen.host: '10.0.0.1' is beyond loopback, and not encrypted; set listen.allow_remote: true"],
        ),
        (POLICY + "listen: {host: 10.0.0.1, allow_remote: true}", []),
        # A name may resolve to anything.
        (
            POLICY + "listen: {host: localhost.example}",
            ["listen.host: 'localhost.example' is beyond loopback, and not encrypted; set listen.allow_remote: true"],
        ),
        (
            POLICY + "admin: {host: 0.0.0.0}",
            ["admin.host: '0.0.0.0' is beyond loopback, and not encrypted; set admin.allow_remote: true"],
        ),
        (POLICY + "admin: {host: 0.0.0.0, enabled: false}", []),
        (POLICY + "admin: {port: 8181}", ["admin.port: 8181 is listen.port too"]),
        (POLICY + "admin: {port: 8181, host: 127.0.0.2}", []),
        (POLICY + "admin: {port: 8181, host: 0.0.0.0, allow_remote: true}", ["admin.port: 8181 is listen.port too"]),
        (POLICY + "admin: {port: 0}\nlisten: {port: 0}", []),
        (
            POLICY + "listen: {host: 0.0.0.0, allow_remote: true}",
            ["public_url: this key is missing; clients cannot be sent to 0.0.0.0"],
        ),
        (POLICY + "public_url: https://sign.example:8443/base/", []),
        (POLICY + "public_url: http://[::1]:8181", []),
        *(
            (
                POLICY + f"public_url: '{url}'",
                [f"public_url: {url!r} is no http(s) URL without user, query and fragment"],
            )
            for url in (
                "sign.example",
                "ftp://sign.example",
                "https://user@sign.example",
                "https://sign.example?x=1",
                "https://sign.example#x",
                "https:///path",
                "https://sign.example:99999",
                "https://[::1",
                "https://s\u00efgn.example",
                "https://sign.example/ x\u202e",
            )
        ),
        # audit
        (POLICY + "audit: {sink: file}", ["audit.path: this key is missing; `sink: file` needs it"]),
        (POLICY + "audit: {sink: file, path: a}", []),
        (POLICY + "audit: {path: a}", ["audit.path: has no effect with `sink: stdout`; set `sink: file`"]),
        # identity
        (POLICY + ISSUER % "discovery: true", []),
        (POLICY + ISSUER % "discovery: true, jwks_hosts: [keys.example], ca_file: ca.pem", []),
        (
            POLICY + ISSUER % "kubernetes: false",
            [
                (
                    "identity.issuers.idp: exactly one of discovery, jwks_url, key_file, secret_file says where its "
                    "keys are; found none"
                )
            ],
        ),
        (
            POLICY + ISSUER % "jwks_url: 'https://k', secret_file: s",
            [
                (
                    "identity.issuers.idp: exactly one of discovery, jwks_url, key_file, secret_file says where its "
                    "keys are; found jwks_url and secret_file"
                )
            ],
        ),
        (
            POLICY + ISSUER % "jwks_url: 'https://k', jwks_hosts: [k]",
            ["identity.issuers.idp.jwks_hosts: has no effect without discovery: true"],
        ),
        (
            POLICY + ISSUER % "key_file: k, ca_file: c, token_file: t",
            [
                "identity.issuers.idp.ca_file: has no effect with key_file: nothing is fetched",
                "identity.issuers.idp.token_file: has no effect with key_file: nothing is fetched",
            ],
        ),
        (
            POLICY + ISSUER % "discovery: true, algorithms: [none]",
            [
                (
                    "identity.issuers.idp.algorithms[0]: 'none' is none of RS256, RS384, RS512, PS256, PS384, PS512, "
                    "ES256, ES384, ES512, EdDSA, HS256, HS384, HS512"
                )
            ],
        ),
        (
            POLICY + ISSUER.replace("[a]", "[]") % "discovery: true",
            ["identity.issuers.idp.audiences: must not be empty"],
        ),
        (
            POLICY + "identity: {issuers: {a: &i {issuer: i, audiences: [x], key_file: k}, b: *i}}",
            ["identity.issuers.b.issuer: 'i' is issuer 'a' already"],
        ),
        (
            POLICY + f"identity: {{static_tokens: [&t {{sha256: {DIGEST}, principal: a}}, *t]}}",
            ["identity.static_tokens[1].sha256: is static_tokens[0] already"],
        ),
        # storages
        (
            PROVIDER + "storages: {lake: {credentials: mian, hosts: [h]}}",
            ["storages.lake.credentials: credentials.providers has no 'mian' (did you mean 'main'?)"],
        ),
        (
            PROVIDER + "storages: {lake: {credentials: main, hosts: [h], buckets: {b.c: other}}}",
            ["storages.lake.buckets['b.c']: credentials.providers has no 'other'"],
        ),
        (
            POLICY + "storages: {lake: {credentials: main, hosts: []}}",
            ["storages.lake.hosts: must not be empty"],
        ),
        # bounds
        (
            POLICY + "signing: {signature_ttl_seconds: 59}",
            ["signing.signature_ttl_seconds: 59 is out of range: at least 60 and at most 900"],
        ),
        (POLICY + "signing: {signature_ttl_seconds: 60}", []),
        (POLICY + "signing: {signature_ttl_seconds: 900}", []),
        (
            POLICY + "signing: {signature_ttl_seconds: 901}",
            ["signing.signature_ttl_seconds: 901 is out of range: at least 60 and at most 900"],
        ),
    ),
)
def test_contradictions_are_refused(tmp_path: Path, text: str, findings: list[str]) -> None:
    """A server would start that nobody reaches, that anybody reaches, or that believes anybody."""
    assert faults_of(tmp_path, text) == findings
