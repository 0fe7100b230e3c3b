"""Render a Kustomize directory as far as ours go; whatever is not understood is an error, so nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.dockerfile import REPOSITORY

DEPLOY = REPOSITORY / "deploy" / "k8s"

Document = dict[str, Any]
"""One Kubernetes object."""

VARIANTS = ("gateway", "sidecar")
"""The directories that are applied."""

_KEYS = {"apiVersion", "kind", "namespace", "resources", "configMapGenerator", "generatorOptions"}
_OPTIONS = {"disableNameSuffixHash", "labels"}
_WITHOUT_NAMESPACE = {"Namespace", "ClusterRole", "ClusterRoleBinding"}


def documents_of(file: Path) -> list[Document]:
    """Return the objects of a manifest."""
    return [document for document in yaml.safe_load_all(file.read_text()) if document is not None]


def optional() -> dict[str, list[Document]]:
    """Return the objects that are applied one file at a time, by the file's name."""
    return {file.name: documents_of(file) for file in sorted((DEPLOY / "optional").glob("*.yaml"))}


def render(directory: Path) -> list[Document]:
    """Return what `kustomize build` prints. Raise ValueError for what this does not know."""
    (kustomization,) = documents_of(directory / "kustomization.yaml")
    if unknown := kustomization.keys() - _KEYS:
        raise ValueError(f"{directory.name}: {sorted(unknown)} are not understood here")
    found = [*_resources(directory, kustomization), *_generated(directory, kustomization)]
    namespace = kustomization.get("namespace")
    for document in found:
        if namespace and document["kind"] not in _WITHOUT_NAMESPACE:
            document["metadata"]["namespace"] = namespace
    return found


def _resources(directory: Path, kustomization: Document) -> Iterator[Document]:
    for name in kustomization["resources"]:
        path = directory / name
        yield from render(path) if path.is_dir() else documents_of(path)


def _generated(directory: Path, kustomization: Document) -> Iterator[Document]:
    options = kustomization.get("generatorOptions", {})
    if unknown := options.keys() - _OPTIONS:
        raise ValueError(f"{directory.name}: {sorted(unknown)} are not understood here")
    for wanted in kustomization.get("configMapGenerator", ()):
        if wanted.keys() != {"name", "files"} or not options.get("disableNameSuffixHash"):
            raise ValueError(f"{directory.name}: a map of files with a fixed name is all that is understood here")
        metadata = {"name": wanted["name"], "labels": dict(options.get("labels", {}))}
        data = {Path(file).name: (directory / file).read_text() for file in wanted["files"]}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
