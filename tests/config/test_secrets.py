"""Settings never show what may be a secret."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from signproxy.config import load_settings
from signproxy.config.storage import ProviderSettings

SECRET = "wJalrXUtnFEMI"


def test_secrets_are_masked_in_repr() -> None:
    """A log line with the settings would hand out the keys of the whole lake."""
    prefix = "SIGNPROXY__CREDENTIALS__PROVIDERS__MAIN__"
    settings = load_settings(
        None,
        {
            "SIGNPROXY__POLICY__PATH": "p",
            f"{prefix}CLASS": "static",
            f"{prefix}PROPERTIES__SECRET_ACCESS_KEY": SECRET,
        },
    )
    assert settings.credentials.providers["main"].properties["secret_access_key"] == SECRET
    for shown in (repr(settings), str(settings.credentials), f"{settings.credentials.providers}"):
        assert SECRET not in shown
        assert "secret_access_key: ***" in shown


def test_secrets_are_not_pickled() -> None:
    """A crash dump or a worker's start would write them to disk."""
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(ProviderSettings("static", {"secret_access_key": SECRET}))


@pytest.mark.parametrize(
    "text",
    (
        f"credentials: {{providers: {{main: {{class: static, properties: {{secret_access_key: [{SECRET}]}}}}}}}}",
        f"credentials: {{providers: {{main: {{class: static, properties: {SECRET}}}}}}}",
        f"credentials: {{providers: {SECRET}}}",
        f"credentials: {{providers: {{main: {{class: static, properties: {{secret_access_key: *{SECRET}}}}}}}}}",
        f"credentials: {{providers: {{main: {{class: static, properties: {{secret_access_key: !{SECRET}}}}}}}}}",
    ),
)
def test_a_misplaced_secret_is_not_repeated(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The log of a failed start would hold the secret."""
    from signproxy.errors import SettingsInvalid

    file = tmp_path_factory.mktemp("s") / "s.yaml"
    file.write_text(text)
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(file, {})
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)


def test_replacing_a_provider_keeps_it_masked() -> None:
    """A changed copy would show what the original hides."""
    provider = msgspec.structs.replace(ProviderSettings("static", {"a": SECRET}), class_="other")
    assert repr(provider) == "ProviderSettings(class_='other', properties={a: ***})"
