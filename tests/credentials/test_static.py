"""What the static provider reads, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import pytest

from signproxy.credentials.credentials import Credentials
from signproxy.credentials.provider import CredentialProvider
from signproxy.credentials.static import MAX_FILE_BYTES, StaticProvider
from signproxy.documents import files
from signproxy.errors import ProviderInvalid
from signproxy.model import SessionScope
from tests.credentials.contract import ProviderContract
from tests.credentials.values import storage
from tests.documents.volume import Volume, rename_over

KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOKEN = "IQoJb3JpZ2luX2VjEXAMPLETOKEN=="


async def read(properties: Mapping[str, str]) -> Credentials:
    provider = StaticProvider()
    await provider.initialize(properties)
    return await provider.get(storage(), SessionScope("lake", ""))


def held(credentials: Credentials) -> tuple[str, str, str, float | None]:
    return (
        credentials.access_key_id,
        credentials.secret_access_key,
        credentials.session_token,
        credentials.expires_at,
    )


class TestContract(ProviderContract):
    """The static provider keeps the contract."""

    @pytest.fixture
    def properties(self, tmp_path: Path) -> Mapping[str, str]:
        self.path = tmp_path / "keys.json"
        self.path.write_text(json.dumps({"access_key_id": KEY_ID, "secret_access_key": SECRET, "session_token": TOKEN}))
        return {"file": str(self.path)}

    @pytest.fixture
    def secrets(self) -> tuple[str, ...]:
        return SECRET, TOKEN, "another/secret"

    def make(self) -> CredentialProvider:
        """Return a static provider."""
        return StaticProvider()

    def rotate_source(self) -> None:
        """Write another pair."""
        self.path.write_text(json.dumps({"access_key_id": KEY_ID, "secret_access_key": "another/secret"}))

    def break_source(self) -> None:
        """Leave a file that is torn in the middle of its secret."""
        self.path.write_text(f'{{"access_key_id": "{KEY_ID}", "secret_access_key": "{SECRET}')


# -- where from --------------------------------------------------------------------------------------------------------


async def test_single_files_are_read_without_their_line_ends(tmp_path: Path) -> None:
    """`echo` and editors end a file with a line feed, which is no part of the key."""
    for name, value in (("id", KEY_ID + "\n"), ("secret", SECRET + "\r\n"), ("token", f"  {TOKEN}\n")):
        (tmp_path / name).write_text(value)
    properties = {
        "access_key_id_file": str(tmp_path / "id"),
        "secret_access_key_file": str(tmp_path / "secret"),
        "session_token_file": str(tmp_path / "token"),
    }
    assert held(await read(properties)) == (KEY_ID, SECRET, TOKEN, None)


async def test_variables_are_read_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A pod may have the id in its environment and the secret in a file."""
    monkeypatch.setenv("LAKE_ID", KEY_ID)
    (tmp_path / "secret").write_text(SECRET)
    properties = {"access_key_id_env": "LAKE_ID", "secret_access_key_file": str(tmp_path / "secret")}
    assert held(await read(properties)) == (KEY_ID, SECRET, "", None)


@pytest.mark.parametrize(
    ("content", "expected"),
    (
        ({"access_key_id": KEY_ID, "secret_access_key": SECRET}, (KEY_ID, SECRET, "", None)),
        (
            {"access_key_id": KEY_ID, "secret_access_key": SECRET, "session_token": TOKEN, "expires_at": 1.8e9},
            (KEY_ID, SECRET, TOKEN, 1.8e9),
        ),
        # As AWS' credential_process prints it.
        (
            {
                "Version": 1,
                "AccessKeyId": KEY_ID,
                "SecretAccessKey": SECRET,
                "SessionToken": TOKEN,
                "Expiration": "2027-01-15T08:00:00Z",
            },
            (KEY_ID, SECRET, TOKEN, 1_800_000_000.0),
        ),
        # As the metadata endpoints answer.
        (
            {
                "AccessKeyId": KEY_ID,
                "SecretAccessKey": SECRET,
                "Token": TOKEN,
                "Expiration": "2027-01-15T09:00:00+01:00",
            },
            (KEY_ID, SECRET, TOKEN, 1_800_000_000.0),
        ),
    ),
)
async def test_a_json_file_holds_the_whole_pair(
    tmp_path: Path, content: dict[str, object], expected: tuple[object, ...]
) -> None:
    """The formats that AWS' own tools write work as they are."""
    path = tmp_path / "keys"
    path.write_text(json.dumps(content))
    assert held(await read({"file": str(path)})) == expected


INI = f"""
[default]
aws_access_key_id = {KEY_ID}
aws_secret_access_key = {SECRET}
[batch]
aws_access_key_id=BATCH
aws_secret_access_key=with%percent$and#hash
aws_session_token = {TOKEN}
region = eu-west-1
"""


@pytest.mark.parametrize(
    ("profile", "expected"),
    (
        ({}, (KEY_ID, SECRET, "", None)),
        ({"profile": "default"}, (KEY_ID, SECRET, "", None)),
        # Nothing in a secret is special to the format.
        ({"profile": "batch"}, ("BATCH", "with%percent$and#hash", TOKEN, None)),
    ),
)
async def test_a_shared_credentials_file_works(
    tmp_path: Path, profile: dict[str, str], expected: tuple[object, ...]
) -> None:
    """It is the file that most users have already."""
    path = tmp_path / "credentials"
    path.write_text(INI)
    assert held(await read({"file": str(path), **profile})) == expected


async def test_a_profile_does_not_take_from_another(tmp_path: Path) -> None:
    """A section without a secret must not be completed with that of `[default]`."""
    path = tmp_path / "credentials"
    path.write_text(INI + "\n[empty]\nregion = eu-west-1\n")
    with pytest.raises(ProviderInvalid) as caught:
        await read({"file": str(path), "profile": "empty"})
    assert {found.path for found in caught.value.findings} == {"access_key_id", "secret_access_key"}


async def test_files_are_read_again_for_each_refresh(tmp_path: Path) -> None:
    """A rotated key must work without a restart."""
    path = tmp_path / "keys"
    provider = StaticProvider()
    await provider.initialize({"file": str(path)})
    for key_id in ("FIRST", "SECOND"):
        path.write_text(json.dumps({"access_key_id": key_id, "secret_access_key": SECRET}))
        assert (await provider.get(storage(), SessionScope("lake", ""))).access_key_id == key_id


@pytest.mark.parametrize("after", (1, 2, 3))
async def test_a_pair_is_never_mixed_from_two_rotations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Kubernetes swaps both files at once, but they are read one after the other."""
    volume = Volume(tmp_path / "keys", {"id": b"old", "secret": b"old"})
    opened = 0
    open_regular = files.open_regular

    def swapped_between(path: Path) -> BinaryIO:
        nonlocal opened
        opened += 1
        if opened == after:
            volume.swap({"id": b"new", "secret": b"new"})
        return open_regular(path)

    monkeypatch.setattr(files, "open_regular", swapped_between)
    given = await read(
        {"access_key_id_file": str(volume.path / "id"), "secret_access_key_file": str(volume.path / "secret")}
    )
    assert given.access_key_id == given.secret_access_key
    # Past the last reading there is nothing left to see.
    assert given.access_key_id == ("old" if after > 2 else "new")


async def test_files_that_never_rest_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless loop would hold a thread for ever."""
    for name in ("id", "secret"):
        (tmp_path / name).write_text("value")
    writes = iter(range(1000))
    open_regular = files.open_regular

    def written_to(path: Path) -> BinaryIO:
        opened = open_regular(path)
        rename_over(path, f"x{next(writes)}".encode())
        return opened

    monkeypatch.setattr(files, "open_regular", written_to)
    with pytest.raises(ProviderInvalid, match="it changed during each"):
        await read({"access_key_id_file": str(tmp_path / "id"), "secret_access_key_file": str(tmp_path / "secret")})


async def test_the_files_to_watch_are_those_that_are_read(tmp_path: Path) -> None:
    """A variable cannot be watched, and a name of one must not be taken for a path."""
    provider = StaticProvider()
    await provider.initialize({"access_key_id_env": "LAKE_ID", "secret_access_key_file": str(tmp_path / "secret")})
    assert provider.files() == (tmp_path / "secret",)
    await provider.initialize({"file": str(tmp_path / "keys"), "profile": "batch"})
    assert provider.files() == (tmp_path / "keys",)


async def test_the_unreadable_one_of_two_files_is_named(tmp_path: Path) -> None:
    """Both properties look alike, and only one mount is missing."""
    (tmp_path / "id").write_text(KEY_ID)
    with pytest.raises(ProviderInvalid) as caught:
        await read({"access_key_id_file": str(tmp_path / "id"), "secret_access_key_file": str(tmp_path / "secret")})
    (finding,) = caught.value.findings
    assert (finding.file, finding.path) == (str(tmp_path / "secret"), "secret_access_key_file")


async def test_a_pipe_is_no_file_of_keys(tmp_path: Path) -> None:
    """Opening it would wait for a writer that never comes."""
    os.mkfifo(tmp_path / "keys")
    with pytest.raises(ProviderInvalid, match="no regular file"):
        await read({"file": str(tmp_path / "keys")})


# -- what is wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "findings"),
    (
        ({}, {"access_key_id_file": "missing", "secret_access_key_file": "missing"}),
        ({"access_key_id_env": "A"}, {"secret_access_key_file": "missing"}),
        ({"access_key_id_env": "A", "session_token_env": "B"}, {"secret_access_key_file": "missing"}),
        (
            {"access_key_id_env": "A", "access_key_id_file": "b", "secret_access_key_env": "C"},
            {"access_key_id_file": "one of them is right"},
        ),
        ({"file": "a", "access_key_id_env": "B"}, {"file": "cannot be mixed"}),
        ({"file": "a", "profil": "B"}, {"profil": "did you mean 'profile'?"}),
        ({"file": ""}, {"file": "is empty"}),
        (
            {"profile": "a", "access_key_id_env": "A", "secret_access_key_env": "B"},
            {"profile": "which is not given"},
        ),
        (
            {"access_key_id_envs": "A", "secret_access_key_env": "B"},
            {"access_key_id_envs": "did you mean 'access_key_id_env'?", "access_key_id_file": "missing"},
        ),
    ),
)
async def test_wrong_properties_are_named_at_the_start(properties: dict[str, str], findings: dict[str, str]) -> None:
    """`check-config` must find them without touching a store."""
    with pytest.raises(ProviderInvalid) as caught:
        await StaticProvider().initialize(properties)
    found = {finding.path: finding.problem for finding in caught.value.findings}
    assert found.keys() == findings.keys()
    assert [path for path, part in findings.items() if part not in found[path]] == []


async def test_a_secret_in_the_settings_is_refused_without_being_repeated() -> None:
    """Settings are printed, diffed and committed; the message about it must not be the next leak."""
    with pytest.raises(ProviderInvalid) as caught:
        await StaticProvider().initialize({"access_key_id": KEY_ID, "secret_access_key": SECRET})
    message = str(caught.value)
    assert SECRET not in message
    assert "secret_access_key_file" in message


@pytest.mark.parametrize(
    ("content", "path", "problem"),
    (
        (None, "file", "cannot be read: No such file or directory"),
        (b"", "profile", "there is no section 'default'"),
        (b"\xff\xfe" + SECRET.encode(), "file", "is not UTF-8"),
        (b"x" * (MAX_FILE_BYTES + 1), "file", "is larger than 65536 bytes"),
        (b"{" + SECRET.encode(), "file", "is not a JSON object"),
        (json.dumps({"access_key_id": {"nested": SECRET}}).encode(), "file", "is not a JSON object of plain values"),
        # A section header, for all that the other format knows.
        (json.dumps([SECRET]).encode(), "profile", "there is no section 'default'"),
        (b"aws_secret_access_key = " + SECRET.encode(), "file", "neither JSON nor"),
        (b"[default]\n" + SECRET.encode(), "file", "neither JSON nor"),
        (b"[default]\na=1\n[default]\na=" + SECRET.encode(), "file", "neither JSON nor"),
        (b"[defalt]\naws_secret_access_key=" + SECRET.encode(), "profile", "did you mean 'defalt'?"),
        (json.dumps({"access_key_id": KEY_ID}).encode(), "secret_access_key", "is empty"),
        (json.dumps({"access_key_id": 7, "secret_access_key": SECRET}).encode(), "access_key_id", "is empty"),
        (
            json.dumps({"access_key_id": KEY_ID, "secret_access_key": SECRET, "expires_at": "soon"}).encode(),
            "expires_at",
            "neither Unix time nor RFC 3339",
        ),
        # A time without a zone is hours off somewhere.
        (
            json.dumps(
                {"access_key_id": KEY_ID, "secret_access_key": SECRET, "expires_at": "2027-01-15T08:00:00"}
            ).encode(),
            "expires_at",
            "with a zone",
        ),
    ),
)
async def test_a_file_that_cannot_be_used_is_named_without_its_content(
    tmp_path: Path, content: bytes | None, path: str, problem: str
) -> None:
    """Parsers like to quote the line that they fail on, and that line is the secret."""
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ProviderInvalid) as caught:
        await read({"file": str(file)})
    (finding,) = caught.value.findings
    assert (finding.file, finding.path) == (str(file), path)
    assert problem in finding.problem
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    # A collector of errors that ignores "from None" must find nothing either.
    assert caught.value.__cause__ is None
    assert SECRET not in repr(caught.value.__context__) or caught.value.__suppress_context__


async def test_a_missing_variable_is_named() -> None:
    """The name is no secret, and what the operator needs."""
    with pytest.raises(ProviderInvalid) as caught:
        await read({"access_key_id_env": "SURELY_NOT_SET", "secret_access_key_env": "SURELY_NOT_SET"})
    assert caught.value.findings[0].path == "access_key_id_env"
    assert "SURELY_NOT_SET" in caught.value.findings[0].problem
