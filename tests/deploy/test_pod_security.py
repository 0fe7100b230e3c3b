"""Every pod passes the restricted Pod Security Standard, rule by rule, and signproxy's container more than that."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.deploy.kustomize import VARIANTS, Document
from tests.deploy.manifests import Pod, of_kind, pods, probes, product_pods

VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"}


class Place(NamedTuple):
    """A container and the pod that it is in, as their manifest has them."""

    spec: Document
    box: Document

    @property
    def context(self) -> Document:
        """Its own security context."""
        found: Document = self.box.setdefault("securityContext", {})
        return found

    def effective(self, key: str) -> Any:
        """Return what counts: the container's own, else the pod's."""
        return self.box.get("securityContext", {}).get(key, self.spec.get("securityContext", {}).get(key))


class Rule(NamedTuple):
    """A rule for one container: what holds, and a change after which it must not."""

    name: str
    holds: Callable[[Place], bool]
    breaks: Callable[[Place], Any]


# https://kubernetes.io/docs/concepts/security/pod-security-standards/, baseline first
RESTRICTED = (
    Rule(
        "no process of Windows' host",
        lambda at: not (at.effective("windowsOptions") or {}).get("hostProcess"),
        lambda at: at.context.update(windowsOptions={"hostProcess": True}),
    ),
    Rule(
        "no namespace of the host",
        lambda at: not any(at.spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")),
        lambda at: at.spec.update(hostPID=True),
    ),
    Rule(
        "not privileged",
        lambda at: not at.context.get("privileged"),
        lambda at: at.context.update(privileged=True),
    ),
    Rule(
        "capabilities dropped, none added",
        lambda at: (
            at.context.get("capabilities", {}).get("drop") == ["ALL"] and not at.context["capabilities"].get("add")
        ),
        lambda at: at.context.update(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]}),
    ),
    Rule(
        "no port of the host",
        lambda at: not any(port.get("hostPort") for port in at.box.get("ports", ())),
        lambda at: at.box.setdefault("ports", []).append({"containerPort": 1, "hostPort": 1}),
    ),
    Rule(
        "no probe of another host",
        lambda at: (
            not any(
                probe.get(kind, {}).get("host")
                for probe in probes(at.box).values()
                for kind in ("httpGet", "tcpSocket")
            )
        ),
        lambda at: at.box.update(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 1}}),
    ),
    Rule(
        "AppArmor as the runtime has it",
        lambda at: (at.effective("appArmorProfile") or {}).get("type") != "Unconfined",
        lambda at: at.context.update(appArmorProfile={"type": "Unconfined"}),
    ),
    Rule(
        "SELinux as the runtime has it",
        lambda at: not at.effective("seLinuxOptions"),
        lambda at: at.spec["securityContext"].update(seLinuxOptions={"type": "spc_t"}),
    ),
    Rule(
        "/proc masked",
        lambda at: at.context.get("procMount", "Default") == "Default",
        lambda at: at.context.update(procMount="Unmasked"),
    ),
    Rule(
        "only safe sysctls",
        lambda at: {each["name"] for each in at.spec["securityContext"].get("sysctls", ())} <= SYSCTLS,
        lambda at: at.spec["securityContext"].update(sysctls=[{"name": "kernel.msgmax", "value": "1"}]),
    ),
    Rule(
        "volumes of the cluster alone",
        lambda at: all(set(volume) - {"name"} <= VOLUMES for volume in at.spec.get("volumes", ())),
        lambda at: at.spec.setdefault("volumes", []).append({"name": "x", "hostPath": {"path": "/"}}),
    ),
    Rule(
        "no privilege escalation",
        lambda at: at.context.get("allowPrivilegeEscalation") is False,
        lambda at: at.context.pop("allowPrivilegeEscalation"),
    ),
    Rule(
        "runs as non-root",
        lambda at: at.effective("runAsNonRoot") is True,
        lambda at: (at.spec["securityContext"].pop("runAsNonRoot"), at.context.pop("runAsNonRoot", None)),
    ),
    Rule(
        "a user that is not 0",
        lambda at: at.effective("runAsUser") not in (None, 0),
        lambda at: at.context.update(runAsUser=0),
    ),
    Rule(
        "seccomp as the runtime has it",
        lambda at: (at.effective("seccompProfile") or {}).get("type") == "RuntimeDefault",
        lambda at: at.context.update(seccompProfile={"type": "Unconfined"}),
    ),
)

# What signproxy's container promises beyond the standard.
PRODUCT = (
    Rule(
        "the image's own user",
        lambda at: (at.effective("runAsUser"), at.effective("runAsGroup")) == (65532, 65532),
        lambda at: at.context.update(runAsUser=1000),
    ),
    Rule(
        "a file system that is read-only",
        lambda at: at.context.get("readOnlyRootFilesystem") is True,
        lambda at: at.context.pop("readOnlyRootFilesystem"),
    ),
    Rule(
        "memory is limited and asked for",
        lambda at: "memory" in at.box["resources"]["limits"] and "memory" in at.box["resources"]["requests"],
        lambda at: at.box["resources"]["limits"].pop("memory"),
    ),
    Rule(
        # A request is signed in less time than a throttled container waits for its next turn.
        "processor time is asked for and not limited",
        lambda at: "cpu" in at.box["resources"]["requests"] and "cpu" not in at.box["resources"]["limits"],
        lambda at: at.box["resources"]["limits"].update(cpu="1"),
    ),
    Rule(
        "no other container sees its processes",
        lambda at: not at.spec.get("shareProcessNamespace"),
        lambda at: at.spec.update(shareProcessNamespace=True),
    ),
    Rule(
        "no variable holds a secret",
        lambda at: (
            not at.box.get("envFrom")
            and all(set(each.get("valueFrom", ())) <= {"fieldRef"} for each in at.box.get("env", ()))
        ),
        lambda at: at.box.update(envFrom=[{"secretRef": {"name": "signproxy-lake"}}]),
    ),
)


def container_rules() -> list[Any]:
    return [
        pytest.param(rule, pod, number, id=f"{rule.name}-{pod}-{container['name']}")
        for found, rules in ((pods(), RESTRICTED), (product_pods(), PRODUCT))
        for pod in found
        for number, container in enumerate(pod.containers)
        for rule in rules
        if rules is RESTRICTED or container is pod.product
    ]


@pytest.mark.parametrize(("rule", "pod", "number"), container_rules())
def test_each_rule_holds_and_bites(rule: Rule, pod: Pod, number: int) -> None:
    """A namespace that enforces the standard would take none of the pods; an intruder would find more than needed."""
    spec = copy.deepcopy(pod.spec)
    place = Place(spec, [*spec.get("initContainers", ()), *spec["containers"]][number])
    assert rule.holds(place)
    rule.breaks(place)
    assert not rule.holds(place)


def test_every_pod_is_looked_at() -> None:
    """A pod that is not found is not checked."""
    assert {str(pod) for pod in pods()} >= {
        "gateway-signproxy", "sidecar-spark-submit", "sidecar-driver", "sidecar-executor",
    }  # fmt: skip
    assert {str(pod) for pod in product_pods()} >= {"gateway-signproxy", "sidecar-driver", "sidecar-executor"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_namespace_enforces_the_standard(variant: str) -> None:
    """A pod that is added later would not be held to it."""
    (namespace,) = of_kind(variant, "Namespace").values()
    labels = namespace["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {"restricted"}


@pytest.mark.parametrize("pod", pods(), ids=str)
def test_no_account_is_shown_to_a_container_by_default(pod: Pod) -> None:
    """Each container would get a token of the API server, signproxy's neighbours and signproxy alike."""
    assert pod.spec["automountServiceAccountToken"] is False
    assert pod.spec["enableServiceLinks"] is False


KEYS = {"signproxy-lake", "signproxy-tls"}


@pytest.mark.parametrize("pod", pods(), ids=str)
def test_keys_are_mounted_by_signproxy_alone(pod: Pod) -> None:
    """The engine would hold S3 keys, and everything else would have been for nothing."""
    holding = {name for name, volume in pod.volumes.items() if "secret" in volume}
    assert {pod.volumes[name]["secret"]["secretName"] for name in holding} <= KEYS
    for container in pod.containers:
        mounted = {mount["name"] for mount in container.get("volumeMounts", ())}
        if container is pod.product:
            assert holding <= mounted
        else:
            assert not holding & mounted
        assert not container.get("envFrom")
        for variable in container.get("env", ()):
            assert set(variable.get("valueFrom", ())) <= {"fieldRef"}
            assert not variable["name"].startswith("AWS_")


@pytest.mark.parametrize("pod", [pod for pod in product_pods() if len(pod.containers) > 1], ids=str)
def test_neighbours_run_as_another_user(pod: Pod) -> None:
    """A process of the same user could send signals to signproxy, or read its memory, where a node lets it."""
    users = [Place(pod.spec, container).effective("runAsUser") for container in pod.containers]
    assert len(set(users)) == len(users)
    others = [container["name"] for container in pod.containers if container is not pod.product]
    # EKS would hand the account's AWS role to every container that is not named here.
    assert pod.metadata["annotations"]["eks.amazonaws.com/skip-containers"].split(",") == others
