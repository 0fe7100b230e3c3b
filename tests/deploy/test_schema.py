"""What is applied is what the API servers of the oldest and the newest supported cluster understand."""

from __future__ import annotations

import copy

import kubernetes_validate
import pytest

from tests.deploy.kustomize import DEPLOY, Document, render
from tests.deploy.manifests import every_document, rendered

OLDEST = "1.29"
"""Native sidecars are on by default from here."""

NEWEST = kubernetes_validate.latest_version()

CUSTOM = {"PodMonitor", "PrometheusRule", "Certificate"}
"""Kinds of operators that a cluster may have; their schemas are theirs."""

EVERYTHING = [(origin, document) for origin, document in every_document() if document["kind"] not in CUSTOM]


@pytest.mark.parametrize("version", (OLDEST, NEWEST))
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(each, id=f"{origin}-{each['kind']}-{each['metadata'].get('name', '')}")
        for origin, each in EVERYTHING
    ],
)
def test_each_object_fits_its_schema(document: Document, version: str) -> None:
    """A misspelt field is dropped by a lenient server: a limit, a probe or a security context would not be there."""
    kubernetes_validate.validate(document, version, strict=True)


def test_a_misspelt_field_is_found() -> None:
    """The check above could not fail."""
    deployment = copy.deepcopy(next(each for each in rendered("gateway") if each["kind"] == "Deployment"))
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["readynessProbe"] = container.pop("readinessProbe")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, NEWEST, strict=True)


def test_everything_is_looked_at() -> None:
    """A moved file would leave the tests of this directory with less to check."""
    kinds = [document["kind"] for _, document in EVERYTHING]
    assert len(kinds) >= 20
    assert set(kinds) >= {"ConfigMap", "Deployment", "Job", "Namespace", "NetworkPolicy", "Pod", "Service"}
    listed = {file.name for file in DEPLOY.rglob("*.yaml") if file.parent.name not in ("policy", "spark", "optional")}
    used = {
        name
        for variant in ("base", "gateway", "sidecar")
        for line in (DEPLOY / variant / "kustomization.yaml").read_text().splitlines()
        if (name := line.strip().removeprefix("- ")) in listed
    }
    assert listed - used == {"kustomization.yaml"}


def test_what_is_not_understood_is_an_error(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A patch would change what is applied, and none of the tests of this directory would see it."""
    for number, more in enumerate(("patches: []", "configMapGenerator: [{name: a, files: []}]", "namePrefix: x-")):
        directory = tmp_path_factory.mktemp(f"kustomization-{number}")
        (directory / "kustomization.yaml").write_text(f"resources: []\n{more}\n")
        with pytest.raises(ValueError, match="understood here"):
            render(directory)
