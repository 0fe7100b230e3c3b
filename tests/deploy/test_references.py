"""What one manifest names exists in another, and numbers that depend on each other agree."""

from __future__ import annotations

import json
import re

import pytest

from signproxy.config.settings import Settings
from tests.deploy.configuration import POD_ADDRESS, settings_of
from tests.deploy.dockerfile import REPOSITORY, dockerfile
from tests.deploy.kustomize import VARIANTS, Document
from tests.deploy.manifests import (
    FOREIGN_MAPS,
    LEAVING_SECONDS,
    SECRETS,
    Pod,
    every_document,
    keys_in,
    maps,
    mebibytes,
    of_kind,
    pods,
    probes,
    product_pods,
    rendered,
)

PODS = pytest.mark.parametrize("pod", pods(), ids=str)
PRODUCT_PODS = pytest.mark.parametrize("pod", product_pods(), ids=str)


def product(pod: Pod) -> Document:
    assert pod.product is not None
    return pod.product


def known(variant: str) -> dict[str, set[str]]:
    own = {name: set(data) for name, data in maps(variant).items()} if variant in VARIANTS else {}
    return SECRETS | FOREIGN_MAPS | own


@PODS
def test_every_volume_has_a_source_and_a_user(pod: Pod) -> None:
    """A pod that mounts what is not there waits for ever, and says so only to who asks."""
    mounted = {mount["name"] for container in pod.containers for mount in container.get("volumeMounts", ())}
    assert mounted == set(pod.volumes)
    for volume in pod.volumes.values():
        if "emptyDir" in volume:
            assert mebibytes(volume["emptyDir"]["sizeLimit"]) > 0
        else:
            # Raises KeyError for a map or Secret that is not made.
            assert keys_in(volume, known(pod.variant))
        for source in volume.get("projected", {}).get("sources", ()):
            for item in source.get("configMap", {}).get("items", ()):
                assert item["key"] in known(pod.variant)[source["configMap"]["name"]]


@PODS
def test_nothing_that_changes_is_mounted_by_subpath(pod: Pod) -> None:
    """Kubelet never renews a subPath: a revoked grant, a new key or certificate would wait for a restart."""
    for container in pod.containers:
        for mount in container.get("volumeMounts", ()):
            assert not {"subPath", "subPathExpr"} & set(mount)
            assert mount.get("readOnly", False) is ("emptyDir" not in pod.volumes[mount["name"]])


@PODS
def test_every_image_has_a_version(pod: Pod) -> None:
    """With `latest`, two replicas are two versions, and a rollback brings nothing back."""
    for container in pod.containers:
        if "image" in container:
            name, _, tag = container["image"].partition(":")
            assert tag
            assert tag != "latest"
            # Whose registry it is, is the operator's to say.
            assert "." not in name


def test_the_manifests_ship_the_version_that_the_image_has() -> None:
    """`docker build -t signproxy:<version>` as it is documented would make an image that no manifest asks for."""
    version = dockerfile()[-1].all("ARG")[0].pairs["VERSION"]
    assert f'version = "{version}"' in (REPOSITORY / "pyproject.toml").read_text()
    assert {product(pod)["image"] for pod in product_pods()} == {f"signproxy:{version}"}


@PRODUCT_PODS
def test_probes_and_ports_are_those_of_the_settings(pod: Pod) -> None:
    """A probe of the wrong port restarts a healthy container for ever."""
    settings = settings_of(pod.variant)
    ports = {port["name"]: port["containerPort"] for port in product(pod)["ports"]}
    wanted = {"startupProbe": "/startupz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    found = probes(product(pod))
    assert {kind: probe["httpGet"]["path"] for kind, probe in found.items()} == wanted
    for probe in found.values():
        assert ports[probe["httpGet"]["port"]] == settings.admin.port
        assert probe["httpGet"].get("scheme", "HTTP") == ("HTTPS" if settings.admin.tls.enabled else "HTTP")
    # Kubelet asks at the pod's address. Loopback, which may see more, is the engine's too where there is one.
    alone = len(pod.containers) == 1
    assert settings.admin.host == ("0.0.0.0" if alone else POD_ADDRESS)
    if not alone:
        (mount,) = [
            each for each in product(pod)["volumeMounts"] if settings.admin.socket.startswith(each["mountPath"])
        ]
        holders = [
            box for box in pod.containers if mount["name"] in [each["name"] for each in box.get("volumeMounts", ())]
        ]
        assert holders == [product(pod)]
    assert set(ports.values()) <= {settings.admin.port, settings.listen.port}
    exposed = {int(word) for word in dockerfile()[-1].last("EXPOSE").words}
    # One image for both: the gateway's listener for S3 is switched on by operators that want it, at the same port.
    assert exposed == {settings.admin.port, settings.listen.port, settings.s3.port}


@PRODUCT_PODS
def test_the_grace_period_covers_the_drain(pod: Pod) -> None:
    """Kubelet would kill signproxy with requests in flight and audit events unwritten."""
    drain = settings_of(pod.variant).drain
    assert pod.spec["terminationGracePeriodSeconds"] > drain.delay_seconds + drain.timeout_seconds + LEAVING_SECONDS
    # The delay is what a preStop would sleep for.
    assert "lifecycle" not in product(pod)
    assert (drain.delay_seconds >= 5) is (pod.variant == "gateway")


@PRODUCT_PODS
def test_memory_and_disk_fit_what_is_measured(pod: Pod) -> None:
    """A request below an idle server's memory has the scheduler overcommit the node; a limit below it kills the pod."""
    rows = json.loads((REPOSITORY / "bench" / "results.json").read_text())
    idle = next(row["value"] for row in rows if row["name"] == "startup.idle_rss_mib")
    workers = settings_of(pod.variant).workers
    processes = workers + 1 if workers > 1 else 1
    resources = product(pod)["resources"]
    assert mebibytes(resources["requests"]["memory"]) > processes * idle
    assert mebibytes(resources["limits"]["memory"]) > 2 * processes * idle
    spool = sum(
        mebibytes(pod.volumes[mount["name"]]["emptyDir"]["sizeLimit"])
        for mount in product(pod)["volumeMounts"]
        if "emptyDir" in pod.volumes[mount["name"]]
    )
    assert mebibytes(resources["limits"]["ephemeral-storage"]) > spool > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_accounts_exist_and_are_who_the_policy_says(variant: str) -> None:
    """A principal whose account has another name is refused everything."""
    accounts = set(of_kind(variant, "ServiceAccount"))
    assert {pod.spec["serviceAccountName"] for pod in pods() if pod.variant == variant} == accounts
    (namespace,) = of_kind(variant, "Namespace")
    for binding in of_kind(variant, "RoleBinding").values():
        assert binding["roleRef"]["name"] in of_kind(variant, "Role")
        for subject in binding["subjects"]:
            assert subject["name"] in accounts
            assert subject["namespace"] == namespace
    named = set(
        re.findall(r"cluster/system:serviceaccount:([\w-]+):([\w-]+)", maps(variant)["signproxy-policy"]["access.yaml"])
    )
    assert ("spark-jobs", "spark") in named
    assert named <= {("spark-jobs", account) for account in of_kind("sidecar", "ServiceAccount")}


@pytest.mark.parametrize("variant", VARIANTS)
def test_everything_lies_in_the_one_namespace(variant: str) -> None:
    """What lands in another namespace is not found by the pods, nor by who cleans up."""
    (namespace,) = of_kind(variant, "Namespace")
    assert {each["metadata"].get("namespace") for each in rendered(variant) if each["kind"] != "Namespace"} == {
        namespace
    }


def selected(selector: Document, labels: Document) -> bool:
    """Whether a label selector takes a pod."""
    exact = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    listed = all(labels.get(rule["key"]) in rule["values"] for rule in selector.get("matchExpressions", ()))
    return exact and listed


def test_the_service_reaches_the_deployment() -> None:
    """A service without endpoints answers no request, and everything looks healthy."""
    (service,) = of_kind("gateway", "Service").values()
    (deployment,) = of_kind("gateway", "Deployment").values()
    (budget,) = of_kind("gateway", "PodDisruptionBudget").values()
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    container = template["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    settings = settings_of("gateway")
    assert selected({"matchLabels": service["spec"]["selector"]}, labels)
    assert selected(deployment["spec"]["selector"], labels)
    assert selected(budget["spec"]["selector"], labels)
    for constraint in template["spec"]["topologySpreadConstraints"]:
        assert selected(constraint["labelSelector"], labels)
    (port,) = service["spec"]["ports"]
    assert ports[port["targetPort"]] == settings.listen.port
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert settings.public_url == f"https://{name}.{namespace}.svc"
    assert port["port"] == 443
    # One pod may go at a time, and the others carry on.
    assert deployment["spec"]["replicas"] > budget["spec"]["maxUnavailable"]
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@PRODUCT_PODS
def test_network_policies_take_each_pod_and_its_ports(pod: Pod) -> None:
    """A policy that takes no pod protects none; one that takes the wrong port closes the right one."""
    if pod.variant not in VARIANTS:
        return
    policies = of_kind(pod.variant, "NetworkPolicy")
    labels = pod.metadata["labels"]
    taking = {name: each["spec"] for name, each in policies.items() if selected(each["spec"]["podSelector"], labels)}
    assert set(taking) == set(policies)
    assert {kind for spec in taking.values() for kind in spec["policyTypes"]} == {"Ingress", "Egress"}
    settings = settings_of(pod.variant)
    names = {port["name"]: port["containerPort"] for port in product(pod)["ports"]}
    opened = {
        names.get(port["port"], port["port"])
        for spec in taking.values()
        for rule in spec.get("ingress", ())
        for port in rule.get("ports", ())
    }
    reachable = {settings.admin.port} | ({settings.listen.port} if settings.listen.host == "0.0.0.0" else set())
    assert opened == reachable


def test_no_pod_reaches_a_metadata_service() -> None:
    """The node's own role would be an S3 key for every process in the pod, the engine included."""
    (policy,) = [
        each for each in of_kind("sidecar", "NetworkPolicy").values() if each["metadata"]["name"] == "signproxy-base"
    ]
    blocks = [peer["ipBlock"] for rule in policy["spec"]["egress"] for peer in rule["to"] if "ipBlock" in peer]
    for block in blocks:
        if block["cidr"] == "0.0.0.0/0":
            assert "169.254.0.0/16" in block["except"]
        elif block["cidr"] == "::/0":
            assert "fd00:ec2::/32" in block["except"]
        else:
            assert block["cidr"] == "169.254.20.10/32"
    assert len(blocks) == 3


def test_callers_show_a_token_that_signproxy_takes() -> None:
    """A token for another audience is refused, and one that lives too long is worth stealing."""
    tokens = [
        source["serviceAccountToken"]
        for pod in pods()
        for volume in pod.volumes.values()
        for source in volume.get("projected", {}).get("sources", ())
        if "serviceAccountToken" in source
    ]
    for variant in VARIANTS:
        audiences = settings_of(variant).identity.issuers["cluster"].audiences
        assert {token["audience"] for token in tokens if "audience" in token} == set(audiences)
    assert {token["expirationSeconds"] for token in tokens} == {3600}


def test_no_secret_is_committed() -> None:
    """A Secret in a repository is one no longer."""
    assert [origin for origin, document in every_document() if document["kind"] == "Secret"] == []


def test_the_settings_are_read_as_they_are() -> None:
    """The checks above would compare with defaults."""
    assert isinstance(settings_of("gateway"), Settings)
    assert settings_of("gateway").workers > 1
    assert settings_of("sidecar").workers == 1
