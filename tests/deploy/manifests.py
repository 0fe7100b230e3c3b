"""Find pods, containers and what they mount in the rendered manifests, wherever they hide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from signproxy.server.process.supervisor import END_SECONDS
from tests.deploy.kustomize import DEPLOY, VARIANTS, Document, optional, render

PRODUCT = "signproxy"
"""The name of signproxy's own container."""

SECRETS = {"signproxy-lake": {"access-key-id", "secret-access-key"}, "signproxy-tls": {"tls.crt", "tls.key"}}
"""The Secrets that operators make themselves, and their keys."""

FOREIGN_MAPS = {"kube-root-ca.crt": {"ca.crt"}, "signproxy-authority": {"ca.crt"}}
"""What each namespace of a cluster has, and what callers of the gateway make of its authority."""

LEAVING_SECONDS = 2 * int(END_SECONDS)
"""What may follow a drain at most: workers close connections, write their last audit events, and then must be gone."""

TEMPLATES = ("driver.yaml", "executor.yaml")
"""The keys of the map that Spark makes pods of."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that a manifest leads to."""

    variant: str
    name: str
    metadata: Document
    spec: Document

    def __str__(self) -> str:
        return f"{self.variant}-{self.name}"

    @property
    def containers(self) -> list[Document]:
        """All of them, init containers first."""
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]

    @property
    def volumes(self) -> dict[str, Document]:
        return {volume["name"]: volume for volume in self.spec.get("volumes", ())}

    @property
    def product(self) -> Document | None:
        """Return signproxy's own container."""
        return next((container for container in self.containers if container["name"] == PRODUCT), None)


@cache
def rendered(variant: str) -> tuple[Document, ...]:
    """Return what is applied with a variant."""
    return tuple(render(DEPLOY / variant))


def every_document() -> Iterator[tuple[str, Document]]:
    """Yield everything that is, or may be, given to an API server, and where it comes from."""
    for variant in VARIANTS:
        for document in rendered(variant):
            yield variant, document
        for name, template in templates(variant).items():
            yield f"{variant}/{name}", template
    for file, documents in optional().items():
        for document in documents:
            yield f"optional/{file}", document


@cache
def templates(variant: str) -> dict[str, Document]:
    """Return the pod templates that a variant carries in its maps."""
    return {
        name: yaml.safe_load(text)
        for document in rendered(variant)
        if document["kind"] == "ConfigMap"
        for name, text in document["data"].items()
        if name in TEMPLATES
    }


@cache
def pods() -> tuple[Pod, ...]:
    """Return every pod that comes of the manifests."""
    found = []
    for origin, document in every_document():
        body = document.get("spec", {})
        # A Pod has a pod's spec itself; whatever makes pods has a template of them.
        body = document if document["kind"] == "Pod" else body.get("template", {})
        if "containers" in body.get("spec", {}):
            name = document["metadata"].get("name", origin.rpartition("/")[2].removesuffix(".yaml"))
            found.append(Pod(origin.partition("/")[0], name, body.get("metadata", {}), body["spec"]))
    return tuple(found)


def product_pods() -> list[Pod]:
    """Return those in which signproxy runs."""
    return [pod for pod in pods() if pod.product is not None]


def probes(container: Document) -> dict[str, Document]:
    """Return a container's probes."""
    kinds = ("startupProbe", "livenessProbe", "readinessProbe")
    return {kind: container[kind] for kind in kinds if kind in container}


def maps(variant: str) -> dict[str, dict[str, str]]:
    """Return the data of each ConfigMap by name."""
    return {
        document["metadata"]["name"]: document["data"]
        for document in rendered(variant)
        if document["kind"] == "ConfigMap"
    }


def of_kind(variant: str, kind: str) -> dict[str, Document]:
    """Return the objects of a kind by name."""
    return {document["metadata"]["name"]: document for document in rendered(variant) if document["kind"] == kind}


def settings_text(variant: str) -> str:
    """Return the settings file that a variant mounts."""
    return maps(variant)["signproxy-settings"]["signproxy.yaml"]


def keys_in(volume: Document, known: dict[str, set[str]]) -> set[str]:
    """Return the file names that a volume shows; `known` are the keys of maps and Secrets by name."""
    found: set[str] = set()
    for source in volume.get("projected", {}).get("sources", (volume,)):
        if "serviceAccountToken" in source:
            found.add(source["serviceAccountToken"]["path"])
        found |= {item["path"] for item in source.get("downwardAPI", {}).get("items", ())}
        for kind in ("configMap", "secret"):
            if kind in source:
                name = source[kind].get("name") or source[kind]["secretName"]
                items = source[kind].get("items")
                found |= {item["path"] for item in items} if items else known[name]
    return found


def mebibytes(quantity: Any) -> float:
    """Return a quantity of memory or disk in MiB."""
    match = re.fullmatch(r"([0-9.]+)(Ki|Mi|Gi)", str(quantity))
    assert match, quantity
    return float(match[1]) * {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024}[match[2]]
