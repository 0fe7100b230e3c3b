"""Build the policy state from the files of a snapshot, wholly or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from time import time

import msgspec

from signproxy.documents import MAX_FINDINGS, decode, load_yaml, path_of
from signproxy.errors import DocumentInvalid, Finding
from signproxy.inventory.declared.catalogs import Documents
from signproxy.inventory.declared.document import PolicyDocument, TableEntry
from signproxy.inventory.declared.draft import PolicyDraft
from signproxy.inventory.declared.findings import Findings
from signproxy.inventory.declared.overlap import overlaps, settle
from signproxy.inventory.declared.snapshot import FileSnapshot, read_inventory
from signproxy.inventory.declared.volumes import misplaced
from signproxy.model import TableId
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage

REV_LENGTH = 16
"""Hexadecimal digits of a revision: 64 bits tell any two policies of an installation apart."""

CheckBindings = Callable[[Mapping[str, Storage]], Iterable[Finding]]
"""Say which storages of a policy the operator's settings bind to no credentials, or not to their endpoints."""


def build_state(
    snapshot: FileSnapshot, *, epoch: int, check_bindings: CheckBindings, single_issuer: bool
) -> PolicyState:
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
    for name in _inventories(snapshot, documents, findings):
        with snapshot.inventory(name) as stream:
            digest.update(b"%d:" % len(name) + name.encode())
            for number, line in read_inventory(name, stream, digest.update, findings):
                draft.add_line(name, number, line)
    catalogs = draft.finish()
    findings.check()
    settle(catalogs)
    problems = dict(islice(misplaced(catalogs), MAX_FINDINGS))
    findings.extend(
        Finding(file, path_of("volumes", index), f"volume {entry.name!r}: {problems[draft.volume_identity(entry)]}")
        for file, document in documents
        for index, entry in enumerate(document.volumes)
        if draft.volume_identity(entry) in problems
    )
    clashing = list(islice(overlaps(catalogs), MAX_FINDINGS))
    if clashing:
        findings.extend(_located(snapshot, documents, draft, clashing))
    findings.check()
    return PolicyState(
        rev=digest.hexdigest()[:REV_LENGTH],
        epoch=epoch,
        catalogs={catalog.name: catalog for catalog in catalogs},
        remote_signing=draft.remote_signing,
        default_catalog=draft.default_catalog,
        principals=draft.principals,
        principal_roles=draft.principal_roles,
        delegations=draft.delegations,
        single_issuer=single_issuer,
        loaded_at=time(),
        observed=draft.observed,
    )


def _documents(snapshot: FileSnapshot, findings: Findings) -> Documents:
    documents = []
    contents = snapshot.documents()
    for file, content in contents:
        try:
            data = load_yaml(content.decode(), file)
            if data == {} and b"{" not in content:
                # A file that is being written begins like this, and it would refuse every request.
                findings.add(file, "", "holds nothing; write {} if that is meant")
                continue
            documents.append((file, decode(PolicyDocument, data, file=file)))
        except UnicodeDecodeError as error:
            findings.add(file, "", f"not UTF-8 at byte {error.start}")
        except DocumentInvalid as invalid:
            findings.extend(invalid.findings)
    if not contents:
        findings.add("", "", "there is no policy file (*.yaml)")
    return documents


def _inventories(snapshot: FileSnapshot, documents: Documents, findings: Findings) -> Iterator[str]:
    """Yield each inventory that can be opened, once."""
    seen: set[str] = set()
    for file, document in documents:
        for index, name in enumerate(document.inventories):
            path = path_of("inventories", index)
            # Only names: a policy does not get to read other files of the machine.
            if not name or "/" in name or "\\" in name or name.startswith("."):
                findings.add(file, path, f"{name!r} is not the name of a file beside the policy")
            elif name in seen:
                findings.add(file, path, f"{name!r} is named twice")
            elif not snapshot.has(name):
                findings.add(file, path, f"there is no file {name!r} beside the policy")
            else:
                seen.add(name)
                yield name


def _located(
    snapshot: FileSnapshot, documents: Documents, draft: PolicyDraft, clashing: list[tuple[TableId, str]]
) -> Iterator[Finding]:
    """Yield the findings with the place of each table, which is looked up only now: a million need no place."""
    problems: dict[TableId, list[str]] = {}
    for table, problem in clashing:
        problems.setdefault(table, []).append(problem)
    entries = [
        (file, path_of("tables", index), entry)
        for file, document in documents
        for index, entry in enumerate(document.tables)
    ]
    for file, path, entry in chain(entries, _lines(snapshot, documents)):
        table_id = draft.identity(entry)
        if table_id in problems:
            yield from (Finding(file, path, f"table {str(table_id)!r}: {what}") for what in problems[table_id])


def _lines(snapshot: FileSnapshot, documents: Documents) -> Iterator[tuple[str, str, TableEntry]]:
    for _, document in documents:
        for name in document.inventories:
            with snapshot.inventory(name) as stream:
                for number, line in read_inventory(name, stream, hashlib.sha256().update, Findings()):
                    if isinstance(line, TableEntry):
                        yield name, f"line {number}", line
