"""`signproxy token`: tokens are looked at without ever being shown or passed on a command line."""

from __future__ import annotations

import hashlib
import io
import json
import time
from pathlib import Path

import jwt
import pytest

from signproxy.cli import main
from tests.cli.conftest import SECRET, TOKEN


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Stand in for what is piped in."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdin", stream)
    return stream


def give(stream: io.StringIO, text: str) -> None:
    stream.write(text)
    stream.seek(0)


def signed(**claims: object) -> str:
    now = int(time.time())
    payload = {"iss": "https://idp.example", "aud": "signproxy", "sub": "ann", "exp": now + 600, "iat": now}
    return jwt.encode(payload | claims, SECRET, algorithm="HS256")


@pytest.mark.parametrize("given", (TOKEN, f"{TOKEN}\n", f"  {TOKEN} \r\n", f"Bearer {TOKEN}"))
def test_hash_is_what_the_settings_hold(given: str, stdin: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    """A token would not be recognised for a newline that an editor added."""
    give(stdin, given)
    assert main(["token", "hash"]) == 0
    assert capsys.readouterr().out == hashlib.sha256(TOKEN.encode()).hexdigest() + "\n"


def test_hash_reads_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A token in a mounted secret would have to be typed."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    assert main(["token", "hash", "--file", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}


def test_a_new_token_is_printed_with_its_hash(capsys: pytest.CaptureFixture[str]) -> None:
    """People would choose tokens that can be guessed."""
    made = []
    for _ in range(2):
        assert main(["token", "hash", "--new", "--json"]) == 0
        made.append(json.loads(capsys.readouterr().out))
    for each in made:
        assert hashlib.sha256(each["token"].encode()).hexdigest() == each["sha256"]
        assert len(each["token"]) >= 43
    assert made[0]["token"] != made[1]["token"]
    assert main(["token", "hash", "--new"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["token", "sha256"]


@pytest.mark.parametrize(
    ("given", "told"),
    (
        ("", "stdin: holds no token"),
        (" \n", "stdin: holds no token"),
        ("short", "a token is 32 to"),
        (f"{TOKEN} {TOKEN}", "a token is 32 to"),
        ("x" * 100_000, "stdin: is larger than"),
    ),
)
def test_what_is_no_token_is_told(
    given: str, told: str, stdin: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """The digest of nothing, or of a password, would open the door."""
    give(stdin, given)
    assert main(["token", "hash"]) == 1
    assert told in capsys.readouterr().err


def test_a_token_is_not_taken_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Every process of the machine could read it."""
    assert main(["token", "hash", TOKEN]) == 2
    assert main(["token", "inspect", TOKEN]) == 2


def test_inspect_says_whom_a_token_names(
    installation: Path, stdin: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user whose token is fine would be sent to get another one."""
    give(stdin, signed(roles=["analyst", "admin"]))
    assert main(["token", "inspect", "--config", str(installation)]) == 0
    out = capsys.readouterr().out
    assert "issuer     idp" in out
    assert "principal  idp/ann" in out
    assert "FAILED" not in out


@pytest.mark.parametrize(
    ("claims", "reason"),
    (
        ({"aud": "other"}, "token_audience"),
        ({"iss": "https://idp.example/"}, "token_issuer_unknown"),
        ({"exp": 1_000_000_000}, "token_expired"),
        ({"nbf": 4_000_000_000}, "token_not_yet_valid"),
        ({"sub": ""}, "token_claim"),
    ),
)
def test_inspect_names_the_check_that_fails(
    claims: dict[str, object],
    reason: str,
    installation: Path,
    stdin: io.StringIO,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No message would say why a token is refused."""
    give(stdin, signed(**claims))
    assert main(["token", "inspect", "--config", str(installation), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["reason"] == reason
    assert "failed" in {check["outcome"] for check in found["checks"]}
    assert found["principal"] == ""


def test_inspect_never_prints_the_token(
    installation: Path, stdin: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """A token pasted into a ticket with the output would still be good."""
    token = signed()
    for words in (["--json"], []):
        stdin.seek(0)
        stdin.truncate()
        give(stdin, token)
        main(["token", "inspect", "--config", str(installation), *words])
        captured = capsys.readouterr()
        for part in token.split("."):
            assert part not in captured.out + captured.err


def test_inspect_needs_no_settings(stdin: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    """A laptop without the installation could not look at a token."""
    give(stdin, signed())
    assert main(["token", "inspect"]) == 3
    out = capsys.readouterr().out
    assert "none of the settings" in out
    assert "https://idp.example" in out


def test_inspect_knows_static_tokens(
    installation: Path, stdin: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """An opaque token would be called malformed."""
    give(stdin, TOKEN)
    assert main(["token", "inspect", "--config", str(installation)]) == 0
    assert "principal  static/robot" in capsys.readouterr().out


def test_acting_claims_are_neutralised(
    installation: Path, stdin: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """A token made for it would rewrite the operator's screen."""
    give(stdin, signed(note="\x1b[2J\u202egood"))
    main(["token", "inspect", "--config", str(installation)])
    assert capsys.readouterr().out.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("setting", "told"),
    (
        ("secret_file=missing", "identity.issuers.idp.secret_file: 'missing' cannot be read"),
        ("principal_claim=email", "identity.issuers.idp.principal_claim: "),
        ("algorithms=RS256", "identity.issuers.idp.algorithms: "),
    ),
)
def test_an_unusable_issuer_is_named_as_in_the_settings(
    setting: str, told: str, installation: Path, stdin: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator would search for a key that is not in the file."""
    give(stdin, signed())
    words = ["token", "inspect", "--config", str(installation), "--set", f"identity.issuers.idp.{setting}"]
    assert main(words) == 1
    assert capsys.readouterr().err.startswith(f"signproxy: {told}")


@pytest.mark.parametrize(
    ("settings", "outcome"),
    (
        ({"discovery": "true"}, "looked up when serving"),
        ({"jwks_url": "https://keys.example/jwks"}, "looked up when serving"),
        ({"key_file": "rsa.pem"}, "principal  idp/ann"),
        ({"key_file": "big.pem"}, "is larger than"),
    ),
)
def test_every_source_of_keys_is_understood(
    settings: dict[str, str],
    outcome: str,
    installation: Path,
    stdin: io.StringIO,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A token of such an issuer could not be looked at."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    directory = installation.parent
    public = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    (directory / "rsa.pem").write_bytes(b"A comment\n" + key.public_key().public_bytes(*public))
    (directory / "big.pem").write_bytes(b"x" * 300_000)
    text = installation.read_text().replace("algorithms: [HS256]", "algorithms: [RS256]")
    (given,) = (f"{name}: {value}" for name, value in settings.items())
    installation.write_text(text.replace("secret_file: secret", given))
    now = int(time.time())
    claims = {"iss": "https://idp.example", "aud": "signproxy", "sub": "ann", "exp": now + 600, "iat": now}
    give(stdin, jwt.encode(claims, key, algorithm="RS256", headers={"kid": "k1"}))
    main(["token", "inspect", "--config", str(installation)])
    captured = capsys.readouterr()
    assert outcome in captured.out + captured.err
