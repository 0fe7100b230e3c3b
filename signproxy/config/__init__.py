"""Hold the operator's settings: typed, from a file, the environment and flags, with every fault named."""

from signproxy.config.load import load_settings
from signproxy.config.settings import Settings

__all__ = ["Settings", "load_settings"]
