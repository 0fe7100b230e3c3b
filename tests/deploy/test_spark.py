"""The Spark example asks signproxy as `client-config` says, shows one token, and holds no key."""

from __future__ import annotations

import ast

import pytest

from signproxy.cli.clients import Client, Connection, Mode, Site, spark_conf
from tests.deploy.configuration import settings_of
from tests.deploy.kustomize import Document
from tests.deploy.manifests import maps, of_kind, templates

CATALOG = "spark.sql.catalog.lake."


def conf() -> dict[str, str]:
    """Return the properties file as spark-submit reads it."""
    lines = maps("sidecar")["spark-submit"]["spark.conf"].splitlines()
    pairs = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert len({name for name, _ in pairs}) == len(pairs)
    return {pair[0]: pair[1] for pair in pairs}


@pytest.mark.parametrize("version", ("1.11", "1.12"))
def test_the_catalog_is_configured_as_the_command_prints_it(version: str) -> None:
    """Two configurations that differ have readers try both."""
    site = Site(catalog="lake", public_url=settings_of("sidecar").advertised_url, region="eu-central-1")
    printed = spark_conf(
        Connection(
            client=Client.SPARK,
            site=site,
            mode=Mode.DIRECT,
            version=version,
            catalog_uri=conf()[f"{CATALOG}uri"],
        )
    )
    assert len(printed) >= 9
    assert {name: conf().get(name) for name in printed} == printed


def test_every_pod_asks_the_signproxy_of_its_own() -> None:
    """Executors would ask an address that only the driver has."""
    asked = f"{settings_of('sidecar').advertised_url}/catalogs/lake"
    assert conf()[f"{CATALOG}signer.uri"] == conf()[f"{CATALOG}s3.signer.uri"] == asked
    assert conf()[f"{CATALOG}signer.endpoint"] == conf()[f"{CATALOG}s3.signer.endpoint"]
    assert not conf()[f"{CATALOG}signer.endpoint"].startswith("/")
    assert "lake:\n    storages: [lake]" in maps("sidecar")["signproxy-policy"]["lake.yaml"]
    assert conf()[f"{CATALOG}client.region"] in maps("sidecar")["signproxy-policy"]["lake.yaml"]


@pytest.mark.parametrize(
    "word", ("access-key", "access.key", "secret", "session-token", "profile", "credentials-provider")
)
def test_nothing_configures_a_key(word: str) -> None:
    """The engine would hold what it is meant to do without."""
    assert [name for name in conf() if word in name.lower()] == []


def test_the_token_is_the_drivers_own() -> None:
    """A token in a ConfigMap or a variable can be read by all; one from the wrong file names no principal."""
    assert f"{CATALOG}token" not in conf()
    tree = ast.parse(maps("sidecar")["spark-app"]["app.py"])
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert f"{CATALOG}token" in constants
    mounts = {mount["mountPath"]: mount["name"] for mount in engine("driver.yaml")["volumeMounts"]}
    (path,) = [value for value in constants if isinstance(value, str) and value.startswith("/")]
    directory, _, name = path.rpartition("/")
    volumes = {volume["name"]: volume for volume in templates("sidecar")["driver.yaml"]["spec"]["volumes"]}
    (source,) = volumes[mounts[directory]]["projected"]["sources"]
    assert source["serviceAccountToken"]["path"] == name
    assert source["serviceAccountToken"]["audience"] in settings_of("sidecar").identity.issuers["cluster"].audiences
    # It was read once and cannot be exchanged, so it is not tried.
    assert conf()[f"{CATALOG}token-refresh-enabled"] == "false"
    # Executors get it from the driver.
    assert "volumeMounts" not in engine("executor.yaml")


def test_the_properties_name_what_there_is() -> None:
    """spark-submit fails after minutes, with a stack trace."""
    found = conf()
    (job,) = of_kind("sidecar", "Job").values()
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    submitted = maps("sidecar")[volumes[mounts["/opt/submit"]]["configMap"]["name"]]
    files = [found["spark.kubernetes.driver.podTemplateFile"], found["spark.kubernetes.executor.podTemplateFile"]]
    files.append(container["command"][container["command"].index("--properties-file") + 1])
    assert {file.removeprefix("/opt/submit/") for file in files} == set(submitted)
    for role in ("driver", "executor"):
        assert found[f"spark.kubernetes.{role}.podTemplateContainerName"] == engine(f"{role}.yaml")["name"]
        account = found[f"spark.kubernetes.authenticate.{role}.serviceAccountName"]
        assert account == templates("sidecar")[f"{role}.yaml"]["spec"]["serviceAccountName"]
    assert found["spark.kubernetes.namespace"] in of_kind("sidecar", "Namespace")
    assert found["spark.kubernetes.container.image"] == container["image"]
    app = container["command"][-1].removeprefix("local://")
    driver = {mount["mountPath"] for mount in engine("driver.yaml")["volumeMounts"]}
    assert app.rpartition("/")[0] in driver
    assert app.rpartition("/")[2] in maps("sidecar")["spark-app"]


def test_driver_and_executors_have_the_same_sidecar() -> None:
    """What works in the driver would fail in the executors, where the data is."""
    driver, executor = (templates("sidecar")[name]["spec"] for name in ("driver.yaml", "executor.yaml"))
    assert driver["initContainers"] == executor["initContainers"]
    (sidecar,) = driver["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    mounted = {mount["name"] for mount in sidecar["volumeMounts"]}
    volumes = [[each for each in spec["volumes"] if each["name"] in mounted] for spec in (driver, executor)]
    assert volumes[0] == volumes[1]
    assert {key: driver[key] for key in driver if key not in ("volumes", "containers", "serviceAccountName")} == {
        key: executor[key] for key in executor if key not in ("volumes", "containers", "serviceAccountName")
    }


def engine(template: str) -> Document:
    """Return the container that Spark completes."""
    (container,) = templates("sidecar")[template]["spec"]["containers"]
    found: Document = container
    return found
