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
SHIPPED = (
    PROVIDER
    + "storages: {lake: {credentials: main, hosts: [aws]}}\n"
    + "audit: {sink: segments, directory: a, ship: {storage: lake, bucket: b, %s}}\n"
)


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
        (POLICY + "sightings: {file: seen}\ncontext: {secret_files: [s]}", []),
        (
            POLICY + "sightings: {file: seen}",
            ["sightings.file: needs context.secret_files: sealed with a secret that ends with the process it is lost"],
        ),
        # addresses
        (POLICY + "listen: {host: '::1'}", []),
        (POLICY + "listen: {host: localhost}", []),
        (POLICY + "listen: {host: 127.9.9.9}", []),
        (
            POLICY + "listen: {host: 10.0.0.1}",
            ["listen.host: '10.0.0.1' is beyond loopback, and not encrypted; set listen.tls or listen.allow_remote"],
        ),
        (POLICY + "listen: {host: 10.0.0.1, allow_remote: true}", []),
        # A name may resolve to anything.
        (
            POLICY + "listen: {host: localhost.x}",
            ["listen.host: 'localhost.x' is beyond loopback, and not encrypted; set listen.tls or listen.allow_remote"],
        ),
        (
            POLICY + "admin: {host: 0.0.0.0}",
            ["admin.host: '0.0.0.0' is beyond loopback, and not encrypted; set admin.tls or admin.allow_remote"],
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
        # TLS
        (POLICY + "listen: {host: 10.0.0.1, tls: {cert_file: c, key_file: k}}", []),
        (POLICY + "admin: {host: 0.0.0.0, tls: {cert_file: c, key_file: k}}", []),
        (
            POLICY + "listen: {host: 10.0.0.1, tls: {cert_file: c}}",
            ["listen.tls.key_file: this key is missing; cert_file needs its private key"],
        ),
        (
            POLICY + "admin: {tls: {key_file: k}}",
            ["admin.tls.cert_file: this key is missing; key_file has no effect without it"],
        ),
        (
            # Without a certificate, TLS is off: the host is not excused.
            POLICY + "listen: {host: 10.0.0.1, tls: {key_file: k}}",
            [
                "listen.host: '10.0.0.1' is beyond loopback, and not encrypted; set listen.tls or listen.allow_remote",
                "listen.tls.cert_file: this key is missing; key_file has no effect without it",
            ],
        ),
        (POLICY + "admin: {enabled: false, tls: {key_file: k}}", []),
        # Unix sockets
        (POLICY + "listen: {socket: s.sock}", []),
        (POLICY + "listen: {tcp: false, socket: s.sock}\npublic_url: http://sign.local", []),
        (
            POLICY + "listen: {tcp: false, host: 0.0.0.0, port: 9181, socket: s.sock}\npublic_url: http://sign.local",
            [],
        ),
        (
            POLICY + "listen: {tcp: false, socket: s.sock}",
            ["public_url: this key is missing; clients cannot be sent to a Unix socket"],
        ),
        (
            POLICY + "listen: {tcp: false}\npublic_url: http://sign.local",
            ["listen.tcp: no client could connect; set listen.socket where tcp is false"],
        ),
        (
            POLICY + "listen: {tcp: false, socket: s, tls: {cert_file: c, key_file: k}}\npublic_url: http://sign.local",
            [
                "listen.tls.cert_file: has no effect with listen.tcp: false; Unix sockets speak no TLS",
                "listen.tls.key_file: has no effect with listen.tcp: false; Unix sockets speak no TLS",
            ],
        ),
        (POLICY + "listen: {socket: s.sock}\nadmin: {socket: t.sock}", []),
        (POLICY + "listen: {socket: s.sock}\nadmin: {socket: s.sock, enabled: false}", []),
        (
            POLICY + "listen: {socket: s.sock}\nadmin: {socket: ./x/../s.sock}",
            ["admin.socket: is listen.socket too"],
        ),
        (
            POLICY + "listen: {socket_mode: '660 '}\nadmin: {socket_mode: '0880'}",
            [
                "listen.socket_mode: is not of the form ^0?[0-7]{3}$",
                "admin.socket_mode: is not of the form ^0?[0-7]{3}$",
            ],
        ),
        # A number would be another one than it looks like.
        (
            POLICY + "listen: {socket_mode: 660}",
            ["listen.socket_mode: text expected, got a number; put it in quotes"],
        ),
        # workers
        (POLICY + "workers: 4\nlisten: {port: 0}", []),
        (POLICY + "workers: 0", ["workers: 0 is out of range: at least 1 and at most 256"]),
        # roles
        (
            POLICY + "admin: {role: operator}",
            ["admin.role: no caller can have the role 'operator': identity has neither issuers nor tokens"],
        ),
        (POLICY + "admin: {role: operator, enabled: false}", []),
        (POLICY + "admin: {role: operator}\n" + ISSUER % "discovery: true", []),
        (
            POLICY + f"admin: {{role: operator}}\nidentity: {{static_tokens: [{{sha256: {DIGEST}, principal: a}}]}}",
            [],
        ),
        # limits
        (POLICY + "limits: {requests_per_second: 10, burst: 10, in_flight: 5, total_in_flight: 5}", []),
        # Each transfer keeps a place in the queue.
        (POLICY + "audit: {queue: 100}", []),
        (POLICY + "audit: {queue: 4096}\ns3: {enabled: true}", []),
        (
            POLICY + "audit: {queue: 4095}\ns3: {enabled: true}",
            ["audit.queue: 4095 is less than 4096, twice s3.limits.total_in_flight; raise it, or lower that"],
        ),
        (
            POLICY + "limits: {requests_per_second: 10, burst: 9}",
            [
                (
                    "limits.burst: 9 is less than requests_per_second (10): a second's requests that come at once are "
                    "refused"
                )
            ],
        ),
        (
            POLICY + "limits: {in_flight: 6, total_in_flight: 5}",
            ["limits.in_flight: 6 is more than total_in_flight (5), which is for all callers together"],
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
        (POLICY + "audit: {sink: segments}", ["audit.directory: this key is missing; `sink: segments` needs it"]),
        (POLICY + "audit: {sink: segments, directory: a}", []),
        (
            POLICY + "audit: {sink: file, path: a, directory: b}",
            ["audit.directory: has no effect with `sink: file`; set `sink: segments`"],
        ),
        (
            POLICY + "audit: {sink: segments, directory: a, ship: {prefix: b/}}",
            ["audit.ship.prefix: has no effect without a bucket"],
        ),
        (
            POLICY + "audit: {sink: segments, directory: a, ship: {bucket: b}}",
            ["audit.ship.storage: this key is missing; `bucket` needs it"],
        ),
        (
            POLICY + "audit: {sink: segments, directory: a, ship: {bucket: b, storage: lake}}",
            ["audit.ship.storage: storages binds no 'lake'"],
        ),
        (SHIPPED % "prefix: trail/", []),
        *(
            (
                SHIPPED % f"prefix: '{prefix}'",
                [
                    (
                        f"audit.ship.prefix: {prefix!r} has to end with a slash, without empty or dot segments, "
                        "in plain letters"
                    )
                ],
            )
            for prefix in ("trail", "/", "a//b/", "../", "a/./", "\u00e4/")
        ),
        (
            SHIPPED.replace("segments, directory: a", "stdout") % "prefix: ''",
            ["audit.ship: has no effect with `sink: stdout`; only sealed segments are shipped"],
        ),
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
        # providers
        (
            POLICY + "credentials: {providers: {a: {class: assume-role, source: b}, b: {class: x, source: a}}}",
            ["credentials.providers.a.source: goes round in a circle: a -> b -> a"],
        ),
        (
            POLICY + "credentials: {providers: {main: {class: assume-role, source: mian}}}",
            ["credentials.providers.main.source: credentials.providers has no 'mian' (did you mean 'main'?)"],
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
    """A server would start that no client reaches, that every host reaches, or that believes any caller."""
    assert faults_of(tmp_path, text) == findings
