"""Keep what the settings are made of, so that they can be read again while the server runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from signproxy.config.load import load_settings
from signproxy.config.settings import Settings

_DIGEST_CHARACTERS = 12


class SettingsSource(msgspec.Struct, frozen=True):
    """A settings file, the flags over it, and the environment of this process between them."""

    file: str = ""
    overrides: dict[str, str] = {}
    """What the command line said, by the setting's path."""

    def load(self, environ: Mapping[str, str] | None = None) -> Settings:
        """Return the settings as they stand now. Raise SettingsInvalid with every fault."""
        file = Path(self.file) if self.file else None
        return load_settings(file, os.environ if environ is None else environ, self.overrides)


def digest_of(settings: Settings) -> str:
    """Return what tells these settings from others: in logs and metrics, instead of their content."""
    return hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()[:_DIGEST_CHARACTERS]
