"""What a setting is in the end, and who said so; never with a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from signproxy.config import Settings
from signproxy.config.effective import MASK, Leaf, Tree, defaults, effective
from signproxy.config.load import merge

SETTINGS = f"""
policy: {{path: p}}
listen:
  port: 1
  socket: data.sock
identity:
  static_tokens:
    - {{sha256: {"aa" * 32}, principal: a}}
    - sha256: {"bb" * 32}
      principal: b
storages:
  lake:
    credentials: keys
    hosts: [aws,
      other]
credentials:
  providers:
    keys: {{class: static}}
"""


def leaf(tree: Tree, *keys: str | int) -> Leaf:
    for key in keys:
        if isinstance(tree, dict):
            tree = tree[str(key)]
        else:
            assert isinstance(tree, list)
            tree = tree[int(key)]
    assert isinstance(tree, Leaf)
    return tree


def test_each_value_has_its_source(tmp_path: Path) -> None:
    """An operator could not find out why a setting is what it is."""
    file = tmp_path / "s.yaml"
    file.write_text(SETTINGS)
    environ = {
        "SIGNPROXY__LISTEN__HOST": "::1",
        "SIGNPROXY__LISTEN__PORT": "2",
        "SIGNPROXY__IDENTITY__ISSUERS": "{idp: {issuer: i, audiences: [a]}}",
        "SIGNPROXY__CREDENTIALS__MODULES": "a,b",
        "SIGNPROXY__STORAGES__LAKE__CREDENTIALS": "more",
    }
    merged = merge(file, environ, {"listen.port": "3", "log.level": "debug"})
    tree = effective(merged.decode(), merged)
    assert [leaf(tree, *keys) for keys in (("listen", "port"), ("log", "level"))] == [
        Leaf(3, "command line"),
        Leaf("debug", "command line"),
    ]
    assert leaf(tree, "listen", "host") == Leaf("::1", "SIGNPROXY__LISTEN__HOST")
    assert leaf(tree, "listen", "allow_remote") == Leaf(False, "default")
    assert leaf(tree, "listen", "socket") == Leaf(str(tmp_path / "data.sock"), f"{file}:5")
    assert leaf(tree, "policy", "path") == Leaf(str(tmp_path / "p"), f"{file}:2")
    assert leaf(tree, "identity", "static_tokens", 0, "principal") == Leaf("a", f"{file}:8")
    assert leaf(tree, "identity", "static_tokens", 1, "principal") == Leaf("b", f"{file}:10")
    assert leaf(tree, "identity", "static_tokens", 1, "roles") == Leaf([], "default")
    assert leaf(tree, "storages", "lake", "credentials") == Leaf("more", "SIGNPROXY__STORAGES__LAKE__CREDENTIALS")
    assert leaf(tree, "storages", "lake", "hosts") == Leaf(["aws", "other"], f"{file}:14")
    assert leaf(tree, "credentials", "modules") == Leaf(["a", "b"], "SIGNPROXY__CREDENTIALS__MODULES")
    assert leaf(tree, "credentials", "providers", "keys", "class") == Leaf("static", f"{file}:18")
    # What a variable sets as a whole comes from it; what it leaves out does not.
    variable = "SIGNPROXY__IDENTITY__ISSUERS"
    assert leaf(tree, "identity", "issuers", "idp", "audiences") == Leaf(["a"], variable)
    assert leaf(tree, "identity", "issuers", "idp", "discovery") == Leaf(False, "default")


def test_defaults_need_no_file() -> None:
    """The defaults that are in force could not be looked up."""
    tree = defaults()
    assert list(tree) == list(Settings.__struct_fields__)
    assert leaf(tree, "listen", "port") == Leaf(8181, "default")
    assert leaf(tree, "policy", "path") == Leaf("", "default")
    assert leaf(tree, "identity", "issuers") == Leaf({}, "default")


SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    ("provider", "name", "value", "shown"),
    (
        ("static", "access_key_id_file", "id", "DIR/id"),
        ("static", "file", "/run/keys", "/run/keys"),
        ("static", "access_key_id_env", "LAKE_KEY_ID", "LAKE_KEY_ID"),
        # A key where the name of its variable belongs.
        ("static", "access_key_id_env", "AKIAIOSFODNN7EXAMPLE", MASK),
        ("static", "secret_access_key_env", SECRET, MASK),
        ("static", "secret_access_key", "short", MASK),
        ("static", "profile", "prod", "prod"),
        ("static", "file", "-----BEGIN PRIVATE KEY-----", MASK),
        ("chain", "region", "eu-central-1", "eu-central-1"),
        ("chain", "password", "x", MASK),
        ("assume-role", "role_arn", "arn:aws:iam::123456789012:role/lake", "arn:aws:iam::123456789012:role/lake"),
        ("assume-role", "endpoint", "https://me:pw@sts.local", f"https://{MASK}@sts.local"),
        ("assume-role", "external_id", "between-us", MASK),
        # It is not known what a plug-in takes.
        ("a.b:C", "region", "eu-central-1", MASK),
        ("a.b:C", "password_env", "LAKE_PASSWORD", MASK),
        ("a.b:C", "token_file", "t", "DIR/t"),
    ),
)
def test_what_may_be_a_secret_is_masked(provider: str, name: str, value: str, shown: str, tmp_path: Path) -> None:
    """The output is made to be pasted into a ticket."""
    file = tmp_path / "s.yaml"
    declared = f"{{class: '{provider}', properties: {{{name}: '{value}'}}}}"
    file.write_text(f"policy: {{path: p}}\ncredentials: {{providers: {{x: {declared}}}}}")
    merged = merge(file, {}, {})
    found = leaf(effective(merged.decode(), merged), "credentials", "providers", "x", "properties", name)
    assert str(found.value).replace(str(tmp_path), "DIR") == shown
    if shown == MASK:
        assert value not in repr(merged)


@pytest.mark.parametrize(
    ("value", "shown"),
    (
        ("https://keys.example/jwks", "https://keys.example/jwks"),
        ("https://me:pw@keys.example/jwks", f"https://{MASK}@keys.example/jwks"),
        ("https://token@keys.example", f"https://{MASK}@keys.example"),
        ("https://keys.example/jwks?key=abc&x=1", f"https://keys.example/jwks?{MASK}"),
        ("https://keys.example/a@b", "https://keys.example/a@b"),
        (SECRET, MASK),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", MASK),
        ("prefix AKIAIOSFODNN7EXAMPLE", MASK),
        ("idp", "idp"),
        # Long names are no secrets, and neither are digests.
        ("my-own-identity-provider-of-the-whole-company", "my-own-identity-provider-of-the-whole-company"),
        ("ab" * 32, "ab" * 32),
    ),
)
def test_what_looks_like_a_secret_is_masked_anywhere(value: str, shown: str, tmp_path: Path) -> None:
    """A secret that was pasted where it does not belong would be pasted further."""
    issuer = "SIGNPROXY__IDENTITY__ISSUERS__IDP__"
    environ = {f"{issuer}ISSUER": "i", f"{issuer}AUDIENCES": f"[a, '{value}']", f"{issuer}JWKS_URL": value}
    merged = merge(None, environ, {})
    tree = effective(merged.decode(), merged)
    assert leaf(tree, "identity", "issuers", "idp", "jwks_url").value == shown
    assert leaf(tree, "identity", "issuers", "idp", "audiences").value == ["a", shown]
