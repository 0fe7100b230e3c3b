"""How static tokens are made, kept and looked up."""

from __future__ import annotations

import hashlib

import pytest

from signproxy.errors import Invalid, SettingsInvalid
from signproxy.identity.opaque import MIN_TOKEN, OpaqueToken, StaticTokens, hash_token, new_token
from signproxy.identity.tokens import MAX_TOKEN

DIGEST = "0" * 64


def test_only_the_digest_is_kept() -> None:
    """The settings file would hold live tokens."""
    text = new_token()
    tokens = StaticTokens({hash_token(text): OpaqueToken("spark")})
    found = tokens.find(hashlib.sha256(text.encode()).digest())
    assert found is not None
    assert found.name == "static/spark"
    assert tokens.find(hashlib.sha256(b"other").digest()) is None
    assert len(tokens) == 1


def test_the_issuer_can_be_named() -> None:
    """Set-ups that move to a real issuer could not keep their principals' names."""
    tokens = StaticTokens({DIGEST: OpaqueToken("spark")}, "corp")
    found = tokens.find(bytes(32))
    assert found is not None
    assert (found.name, found.issuer) == ("corp/spark", "corp")


def test_new_tokens_differ_and_can_be_kept() -> None:
    """Two principals would share a token."""
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    assert len({hash_token(text) for text in made}) == 100


@pytest.mark.parametrize("text", ("x" * MIN_TOKEN, "x" * MAX_TOKEN, "!" + "~" * 40))
def test_tokens_that_can_be_sent_are_hashed(text: str) -> None:
    """A token made elsewhere could not be used."""
    assert hash_token(text) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "text",
    (
        "",
        "x" * (MIN_TOKEN - 1),  # the digest is not salted: short ones can be guessed
        "x" * (MAX_TOKEN + 1),
        "x" * 40 + " ",
        "x" * 40 + "\n",
        "ü" * 40,
        "x" * 40 + "\x00",
    ),
)
def test_tokens_that_could_be_guessed_or_not_be_sent_are_refused(text: str) -> None:
    """The token would be found by trying, or never match what the client sends."""
    with pytest.raises(Invalid) as caught:
        hash_token(text)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize(
    ("tokens", "issuer", "path"),
    (
        ({"0" * 63: OpaqueToken("a")}, "static", "identity.static_tokens[0]"),
        ({"A" * 64: OpaqueToken("a")}, "static", "identity.static_tokens[0]"),
        ({DIGEST + "\n": OpaqueToken("a")}, "static", "identity.static_tokens[0]"),
        ({DIGEST: OpaqueToken("a"), "the token itself": OpaqueToken("a")}, "static", "identity.static_tokens[1]"),
        ({DIGEST: OpaqueToken("")}, "static", "identity.static_tokens[0].principal"),
        ({DIGEST: OpaqueToken(" a")}, "static", "identity.static_tokens[0].principal"),
        ({DIGEST: OpaqueToken("a\u202e")}, "static", "identity.static_tokens[0].principal"),
        ({DIGEST: OpaqueToken("x" * 257)}, "static", "identity.static_tokens[0].principal"),
        ({}, "a/b", "identity.static_issuer"),
    ),
)
def test_unsound_static_tokens_are_refused(tokens: dict[str, OpaqueToken], issuer: str, path: str) -> None:
    """A pasted token would never match, and the log would show it."""
    with pytest.raises(SettingsInvalid) as caught:
        StaticTokens(tokens, issuer)
    assert [finding.path for finding in caught.value.findings] == [path]
    assert "the token itself" not in str(caught.value)
