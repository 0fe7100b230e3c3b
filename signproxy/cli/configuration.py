"""Read settings as the options of a command line name them."""

from __future__ import annotations

import argparse
import os

from signproxy.config import Settings
from signproxy.config.load import SettingsSource
from signproxy.errors import Finding, SettingsInvalid

CONFIG_VARIABLE = "SIGNPROXY_CONFIG"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --config, --policy and --set."""
    parser.add_argument("--config", metavar="FILE", help=f"settings file (YAML); default: ${CONFIG_VARIABLE}, or none")
    parser.add_argument("--policy", metavar="PATH", dest="policy_path", help="policy file or directory: policy.path")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="assignments",
        action="append",
        default=[],
        help="set any setting, for example --set signing.client_cache=true; wins over file and environment",
    )


def source_of(options: argparse.Namespace, overrides: dict[str, str] | None = None) -> SettingsSource:
    """Return where the settings come from; `overrides` are what the command's own flags say. Raise SettingsInvalid."""
    file = options.config or os.environ.get(CONFIG_VARIABLE)
    merged = dict(overrides or {})
    if options.policy_path is not None:
        merged["policy.path"] = options.policy_path
    for assignment in options.assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise SettingsInvalid([Finding("command line", f"--set {key}", "KEY=VALUE expected")])
        merged[key] = value
    return SettingsSource(file or "", merged)


def settings_of(options: argparse.Namespace, overrides: dict[str, str] | None = None) -> Settings:
    """Return the settings; `overrides` are what the command's own flags say. Raise SettingsInvalid."""
    return source_of(options, overrides).load()
