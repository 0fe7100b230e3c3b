"""Import the server without what its libraries do on import and signproxy never uses."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator

_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@contextlib.contextmanager
def lean_imports() -> Iterator[None]:
    """Make the imports of the block cheaper. For a process that serves, before anything else runs in it."""
    with _no_certificates(), lasting_imports():
        yield


@contextlib.contextmanager
def _no_certificates() -> Iterator[None]:
    """Leave the system's certificates alone.

    aiohttp makes its client's default TLS context when it is imported, and with it reads every certificate of the
    system: a fifth of its import and 2 MiB. In this process that context trusts no authority, and no client uses it:
    `outbound` makes every client, with a context of its own.
    """
    kept = {name: os.environ[name] for name in _CERTIFICATE_VARIABLES if name in os.environ}
    # The names are OpenSSL's, https://docs.openssl.org/master/man3/SSL_CTX_load_verify_locations/
    os.environ.update(dict.fromkeys(_CERTIFICATE_VARIABLES, os.devnull))
    try:
        yield
    finally:
        for name in _CERTIFICATE_VARIABLES:
            del os.environ[name]
        os.environ.update(kept)


@contextlib.contextmanager
def lasting_imports() -> Iterator[None]:
    """Spare the garbage collector the walks over modules and classes, now and for good: they outlive everything."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
