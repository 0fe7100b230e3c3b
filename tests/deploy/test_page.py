"""What the deployment page says to type names what there is, and its numbers are those of the manifests."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml

from signproxy.cli import main
from signproxy.cli.main import COMMANDS
from signproxy.config import load_settings
from tests.deploy.configuration import settings_of
from tests.deploy.dockerfile import REPOSITORY
from tests.deploy.kustomize import DEPLOY, VARIANTS
from tests.deploy.manifests import LEAVING_SECONDS, SECRETS, every_document, of_kind, pods, product_pods, settings_text

PAGE = (REPOSITORY / "docs" / "deploy.md").read_text()
COMMAND_LINES = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]


def words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def commands(*begin: str) -> list[list[str]]:
    """Return the command lines that hold these words in this order."""
    return [words(line) for line in COMMAND_LINES if re.search(r"\b.*".join(map(re.escape, begin)), line)]


def test_every_file_that_is_named_exists() -> None:
    """A reader types what the page shows."""
    named = set(re.findall(r"deploy/k8s[\w./*-]*", PAGE)) | {
        f"deploy/k8s/{name}" for name in re.findall(r"`((?:base|gateway|optional|sidecar)/[\w./*-]*)`", PAGE)
    }
    assert len(named) >= 10
    for name in named:
        assert list(REPOSITORY.glob(name.rstrip("/."))), name
    for file in (DEPLOY / "optional").glob("*.yaml"):
        assert f"optional/{file.name}" in PAGE or file.name == "hpa.yaml"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_takes_ten_commands(variant: str) -> None:
    """What is longer is not tried."""
    (block,) = re.findall(rf"## {variant.capitalize()} in ten commands\n\n```sh\n(.*?)```", PAGE, re.DOTALL)
    assert len(block.splitlines()) == 10
    assert f"kubectl apply -k deploy/k8s/{variant}" in block


def test_the_secrets_are_made_as_they_are_read() -> None:
    """A key of another name is a file that signproxy does not find."""
    made: dict[str, set[str]] = {}
    for line in commands("create secret"):
        kind, name = line[line.index("secret") + 1 :][:2]
        files = {word.partition("=")[2] for word in line if word.startswith("--from-file=")}
        made.setdefault(name, set()).update({"tls.crt", "tls.key"} if kind == "tls" else files)
    assert made == SECRETS
    assert "create configmap signproxy-authority --from-file=ca.crt" in PAGE


def test_what_kubectl_is_asked_about_exists() -> None:
    """`NotFound` is a poor beginning."""
    namespaces = {name for variant in VARIANTS for name in of_kind(variant, "Namespace")} | {"analytics"}
    known = {f"{each['kind'].lower()}/{each['metadata'].get('name')}" for _, each in every_document()}
    containers = {container["name"] for pod in pods() for container in pod.containers}
    checked = 0
    for line in commands("kubectl"):
        if "-n" in line:
            assert line[line.index("-n") + 1] in namespaces
            checked += 1
        if "-c" in line:
            assert line[line.index("-c") + 1] in containers
        for word in line:
            if re.fullmatch(r"(deployment|job)/[\w-]+", word):
                assert word in known
    assert checked >= 8


def test_the_selectors_take_pods() -> None:
    """An annotation that reaches no pod leaves the revoked grant for another minute."""
    # Spark itself sets the role.
    chosen = {line[line.index("-l") + 1] for line in commands("kubectl") if "-l" in line} - {"spark-role=driver"}
    labels = {f"{key}={value}" for pod in product_pods() for key, value in pod.metadata["labels"].items()}
    assert chosen
    assert chosen <= labels


def test_every_command_of_signproxy_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """The check before the rollout would be skipped because it does not work."""
    lines = commands("signproxy check-config")
    assert len(lines) >= 2
    for line in lines:
        assert line[1] in COMMANDS
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(REPOSITORY)
            assert main(line[1:]) == 0, capsys.readouterr().err
    assert "valid: policy" in capsys.readouterr().out


def test_the_numbers_of_the_drain_are_the_manifests() -> None:
    """An operator who lengthens a drain reckons with this table."""
    rows = {
        row.split("`")[1] if "`" in row else row: [int(cell) for cell in cells.split("|")]
        for row, cells in re.findall(r"^\| (.+?) \| (\d+ \| \d+) \|$", PAGE, re.MULTILINE)
    }
    for number, variant in enumerate(("sidecar", "gateway")):
        drain = settings_of(variant).drain
        (grace,) = {pod.spec["terminationGracePeriodSeconds"] for pod in product_pods() if pod.variant == variant}
        found = {name: values[number] for name, values in rows.items()}
        assert found == {
            "drain.delay_seconds": drain.delay_seconds,
            "drain.timeout_seconds": drain.timeout_seconds,
            "to close connections, write the last audit events and leave": LEAVING_SECONDS,
            "terminationGracePeriodSeconds": grace,
        }
    assert f"`reload.poll_seconds` ({settings_of('gateway').reload.poll_seconds:.0f})" in PAGE
    assert settings_of("gateway").signing.signature_ttl_seconds == 15 * 60


def test_figures_are_named_and_not_quoted() -> None:
    """A copied figure is an old one by the next measurement."""
    recorded = (REPOSITORY / "bench" / "results.json").read_text()
    named = re.findall(r"`((?:startup|sign|policy_scale)\.\w+)`", PAGE)
    assert len(named) >= 3
    for name in named:
        assert f'"{name}"' in recorded
    assert not re.search(r"\d+(\.\d+)? ?(µs|ms|MiB|req/s)", PAGE)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("method", ("assume-role-with-web-identity", "container-role"))
def test_roles_instead_of_keys_are_settings(
    variant: str, method: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """On EKS the page could not be followed."""
    (snippet,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert f"methods: {method}" in PAGE
    document = yaml.safe_load(settings_text(variant)) | yaml.safe_load(snippet)
    document["credentials"]["providers"]["lake"]["properties"]["methods"] = method
    document["listen"].pop("tls", None)
    document["listen"]["host"] = "127.0.0.1"
    document["policy"] = {"path": str(DEPLOY / "base" / "policy")}
    file = tmp_path_factory.mktemp("roles") / "signproxy.yaml"
    file.write_text(yaml.safe_dump(document))
    assert main(["check-config", "--config", str(file)]) == 0, capsys.readouterr().err
    assert load_settings(file, {}).credentials.providers["lake"].class_ == "chain"
