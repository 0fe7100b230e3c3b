"""Offer signproxy's commands; each one imports only what it needs."""

from signproxy.cli.main import main

__all__ = ["main"]
