"""Put a container's files where its manifest mounts them, below a directory, and read its settings there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from signproxy.config import Settings, load_settings
from tests.deploy.certificates import Pair, self_signed
from tests.deploy.manifests import FOREIGN_MAPS, SECRETS, Pod, keys_in, maps, product_pods, settings_text

_ABSOLUTE = re.compile(r"(?<=[\s\"'\[{])/(?=(?:etc|var)/)")
"""The beginning of a file's name."""

ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"

POD_ADDRESS = "10.244.0.7"
API_SERVER = "kubernetes.default.svc"
GATEWAY = "signproxy.signproxy.svc"


@cache
def pair(name: str) -> Pair:
    """Return the certificate and key of a host."""
    return self_signed(name)


def stand_ins() -> dict[str, bytes]:
    """Return what stands in for Secrets, tokens and what the cluster provides, by file name."""
    return {
        "access-key-id": f"{ACCESS_KEY}\n".encode(),
        "secret-access-key": b"wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY12\n",
        "tls.crt": pair(GATEWAY).certificate,
        "tls.key": pair(GATEWAY).key,
        "ca.crt": pair(API_SERVER).certificate,
        "token": b"e30.e30.c2lnbmF0dXJl\n",
    }


def lay_out(pod: Pod, root: Path) -> Path:
    """Write every file that signproxy's container sees in its volumes; return its settings file.

    Each volume is a directory as kubelet makes it: the files are links through `..data`, which is swapped as a whole.
    """
    assert pod.product is not None
    data = maps(pod.variant)
    known = SECRETS | FOREIGN_MAPS | {name: set(content) for name, content in data.items()}
    for mount in pod.product["volumeMounts"]:
        directory = root / mount["mountPath"].lstrip("/")
        volume = pod.volumes[mount["name"]]
        directory.mkdir(parents=True)
        if "emptyDir" in volume:
            continue
        content = data.get(volume.get("configMap", {}).get("name", ""), {})
        files = {key: content[key].encode() if key in content else stand_ins()[key] for key in keys_in(volume, known)}
        swap_in(directory, files)
    return root / environ_of(pod)["SIGNPROXY_CONFIG"].lstrip("/")


def environ_of(pod: Pod) -> dict[str, str]:
    """Return the variables of signproxy's container, as kubelet fills them in."""
    assert pod.product is not None
    found = {}
    for variable in pod.product["env"]:
        asked = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        found[variable["name"]] = str({"status.podIP": POD_ADDRESS}[asked] if asked else variable["value"])
    return found


def swap_in(directory: Path, files: dict[str, bytes]) -> None:
    """Let a volume show these files from now on, all at once."""
    number = len(list(directory.glob("..version-*")))
    version = directory / f"..version-{number}"
    version.mkdir()
    for name, content in files.items():
        (version / name).write_bytes(content)
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    link = directory / "..new"
    link.symlink_to(version.name)
    link.rename(directory / "..data")


def relocate(file: Path, root: Path) -> None:
    """Let the file names in a settings file begin at `root`."""
    text = _ABSOLUTE.sub(f"{root}/", file.read_text())
    # Not through the link: the volume's file itself.
    file.resolve().write_text(text)


@cache
def settings_of(variant: str) -> Settings:
    """Return the settings that a variant mounts, as signproxy reads them."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "signproxy.yaml"
        file.write_text(settings_text(variant))
        return load_settings(file, environ_of(next(pod for pod in product_pods() if pod.variant == variant)))


def pod_named(name: str) -> Pod:
    """Return the pod of a variant in which signproxy runs."""
    return next(pod for pod in product_pods() if str(pod) == name)
