"""Build the policy state from the files of a snapshot, wholly or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

import msgspec

from signproxy.documents import decode, load_yaml
from signproxy.errors import DocumentInvalid, Finding
from signproxy.inventory.document import PolicyDocument
from signproxy.inventory.draft import PolicyDraft
from signproxy.inventory.findings import Findings
from signproxy.inventory.ndjson import read_inventory
from signproxy.inventory.snapshot import Snapshot
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage

REV_LENGTH = 16
"""Hexadecimal digits of a revision: 64 bits tell any two policies of an installation apart."""

CheckBindings = Callable[[Mapping[str, Storage]], Iterable[Finding]]
"""Say which storages of a policy the operator's settings bind to no credentials, or not to their endpoints."""


def build_state(snapshot: Snapshot, *, epoch: int, check_bindings: CheckBindings, single_issuer: bool) -> PolicyState:
    """Return the state that the files declare. Raise PolicyInvalid with every fault that was found, OSError."""
    findings = Findings()
    digest = hashlib.sha256()
    documents = _documents(snapshot, findings)
    # What follows would only repeat that half of the policy is missing.
    findings.check()
    draft = PolicyDraft(documents, findings, single_issuer=single_issuer)
    findings.extend(check_bindings(draft.storages))
    # Without sound storages and catalogs every table would be a fault.
    findings.check()
    for file, document in documents:
        content = msgspec.json.encode(document, order="sorted")
        digest.update(b"%d:" % len(content) + content)
        draft.add_entries(file, document)
    for file, document in documents:
        for index, name in enumerate(document.inventories):
            _add_inventory(snapshot, file, f"inventories[{index}]", name, digest.update, draft, findings)
    catalogs = draft.finish()
    findings.check()
    return PolicyState(
        rev=digest.hexdigest()[:REV_LENGTH],
        epoch=epoch,
        catalogs=catalogs,
        remote_signing=draft.remote_signing,
        default_catalog=draft.default_catalog,
        principals=draft.principals,
        principal_roles=draft.principal_roles,
        single_issuer=single_issuer,
    )


def _documents(snapshot: Snapshot, findings: Findings) -> list[tuple[str, PolicyDocument]]:
    documents = []
    for file, content in snapshot.documents():
        try:
            data = load_yaml(content.decode(), file)
            documents.append((file, decode(PolicyDocument, data, file=file)))
        except UnicodeDecodeError as error:
            findings.add(file, "", f"not UTF-8 at byte {error.start}")
        except DocumentInvalid as invalid:
            findings.extend(invalid.findings)
    if not documents:
        findings.add("", "", "there is no policy file (*.yaml)")
    return documents


def _add_inventory(
    snapshot: Snapshot,
    file: str,
    path: str,
    name: str,
    digest: Callable[[bytes], None],
    draft: PolicyDraft,
    findings: Findings,
) -> None:
    # Only names: a policy does not get to read other files of the machine.
    if not name or "/" in name or "\\" in name or name.startswith("."):
        findings.add(file, path, f"{name!r} is not the name of a file beside the policy")
        return
    try:
        stream = snapshot.inventory(name)
    except FileNotFoundError:
        findings.add(file, path, f"there is no file {name!r} beside the policy")
        return
    with stream:
        digest(b"%d:" % len(name) + name.encode())
        for number, line in read_inventory(name, stream, digest, findings):
            draft.add_line(name, number, line)
