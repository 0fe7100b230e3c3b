"""What the tests of the manifests render is what Kustomize renders."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.kustomize import DEPLOY, VARIANTS, Document, render
from tests.e2e.stores.install import GO_NEEDED, PrerequisiteMissing, _cache, _once, _run

KUSTOMIZE_VERSION = "5.7.1"


def kustomize() -> Path:
    """Return the binary, built by Go from its published module."""
    binary = _cache() / "bin" / f"kustomize-{KUSTOMIZE_VERSION}"
    with _once(binary) as missing:
        if missing:
            go = shutil.which("go")
            if go is None:
                raise PrerequisiteMissing(f"kustomize is built by Go {GO_NEEDED} or newer, and there is no `go`")
            built = binary.parent / f"building-kustomize-{os.getpid()}"
            module = f"sigs.k8s.io/kustomize/kustomize/v5@v{KUSTOMIZE_VERSION}"
            _run(
                "kustomize",
                (go, "install", "-trimpath", "-ldflags=-s -w", module),
                {"CGO_ENABLED": "0", "GOBIN": str(built)},
            )
            (built / "kustomize").rename(binary)
            built.rmdir()
    return binary


def _named(document: Document) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_renders_as_kustomize_renders_it(variant: str) -> None:
    """Everything else that is said of the manifests would be said of something that is not applied."""
    done = subprocess.run([kustomize(), "build", DEPLOY / variant], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    theirs = sorted(yaml.safe_load_all(done.stdout), key=_named)
    assert theirs == sorted(render(DEPLOY / variant), key=_named)
