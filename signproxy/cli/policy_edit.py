"""Take grants out of the files of a policy, and leave every other character as its authors wrote it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

import msgspec
import yaml

from signproxy.documents import decode, load_yaml
from signproxy.errors import Finding, Invalid
from signproxy.inventory.declared.catalog_draft import levels_of
from signproxy.inventory.declared.document import GrantEntry, GrantLine, InventoryLine, NamespaceName, PolicyDocument
from signproxy.model import NAMESPACE_SEPARATOR

PATCH_SCHEMA = "signproxy.policy-patch/1"

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*")
_WORDS = frozenset({"true", "false", "null", "True", "False", "Null", "TRUE", "FALSE", "NULL"})


class Withdrawal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Privileges that a catalog role shall lose on a securable."""

    catalog: str
    role: str
    privileges: tuple[str, ...]
    namespace: NamespaceName | None = None
    table: str = ""
    volume: str = ""
    reason: str = ""


class RoleRemoval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A principal role that a principal shall lose."""

    principal: str
    role: str
    reason: str = ""


class Patch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What shall be taken from a policy."""

    schema: str
    policy_rev: str = ""
    withdraw: tuple[Withdrawal, ...] = ()
    take: tuple[RoleRemoval, ...] = ()


_Key = tuple[str, str, str, str, str]


class Editor:
    """Takes what a patch names from one file after the other, and knows what it did not find."""

    def __init__(self, patch: Patch, default_catalog: str, full_name: Callable[[str], str]) -> None:
        self._default = default_catalog
        self._full_name = full_name
        self._withdrawn: dict[_Key, set[str]] = {}
        for one in patch.withdraw:
            key = (one.catalog, one.role, _joined(one.namespace), one.table, one.volume)
            self._withdrawn.setdefault(key, set()).update(one.privileges)
        self._taken: dict[str, set[str]] = {}
        for taking in patch.take:
            self._taken.setdefault(taking.principal, set()).add(taking.role)
        self._left = {(key, name) for key, names in self._withdrawn.items() for name in names}
        self._untaken = {(name, role) for name, roles in self._taken.items() for role in roles}

    def document(self, file: str, text: str) -> str:
        """Return a policy file without it. Raise Invalid where its text cannot be edited so that just that changes."""
        before = decode(PolicyDocument, load_yaml(text, file), file=file)
        grants = [self._kept(grant) for grant in before.grants]
        roles = {name: self._roles_kept(name, entry.roles) for name, entry in before.principals.items()}
        edited = _edited(text, before, grants, roles)
        after = decode(PolicyDocument, load_yaml(edited, file), file=file)
        if after != _without(before, grants, roles):
            problem = "is written in a way that cannot be edited for you; take the grants out by hand"
            raise Invalid([Finding(file, "grants", problem)])
        return edited

    def line(self, line: bytes) -> bytes:
        """Return a line of an inventory without it; an empty one where nothing is left."""
        if not line or line.isspace():
            return line
        entry: object = _decode(line)
        if not isinstance(entry, GrantLine):
            return line
        kept = self._kept(entry)
        if kept == entry.privileges:
            return line
        if not kept:
            return b""
        return json.dumps({**json.loads(line), "privileges": kept}, ensure_ascii=False).encode() + b"\n"

    def missing(self) -> Iterator[str]:
        """Yield what the patch names and no file holds."""
        for (catalog, role, *place), privilege in sorted(self._left):
            where = ".".join(filter(None, (catalog, *place))).replace(NAMESPACE_SEPARATOR, ".")
            yield f"{privilege} of role {role!r} on {where!r} is not granted there"
        for name, role in sorted(self._untaken):
            yield f"principal {name!r} does not have role {role!r} by the policy"

    def _kept(self, grant: GrantEntry) -> tuple[str, ...]:
        key = (
            grant.catalog or self._default,
            grant.role,
            _joined(grant.namespace),
            grant.table or "",
            grant.volume or "",
        )
        gone = self._withdrawn.get(key)
        if not gone:
            return grant.privileges
        self._left -= {(key, name) for name in grant.privileges}
        return tuple(name for name in grant.privileges if name not in gone)

    def _roles_kept(self, name: str, roles: tuple[str, ...]) -> tuple[str, ...]:
        full = self._full_name(name)
        gone = self._taken.get(full)
        if not gone:
            return roles
        self._untaken -= {(full, role) for role in roles}
        return tuple(role for role in roles if role not in gone)


_decode: Callable[[bytes], object] = msgspec.json.Decoder(InventoryLine).decode


def _joined(namespace: NamespaceName | None) -> str:
    return "" if namespace is None else NAMESPACE_SEPARATOR.join(levels_of(namespace))


def _without(
    document: PolicyDocument, grants: list[tuple[str, ...]], roles: Mapping[str, tuple[str, ...]]
) -> PolicyDocument:
    """Return what the file must say afterwards."""
    return msgspec.structs.replace(
        document,
        grants=tuple(
            msgspec.structs.replace(grant, privileges=kept)
            for grant, kept in zip(document.grants, grants, strict=True)
            if kept
        ),
        principals={
            name: msgspec.structs.replace(entry, roles=roles[name]) for name, entry in document.principals.items()
        },
    )


_Edit = tuple[int, int, str]


def _edited(
    text: str, document: PolicyDocument, grants: list[tuple[str, ...]], roles: Mapping[str, tuple[str, ...]]
) -> str:
    root = yaml.compose(text, Loader=_LOADER)
    if not isinstance(root, yaml.MappingNode):
        return text
    edits: list[_Edit] = []
    for key, value in root.value:
        if key.value == "grants" and isinstance(value, yaml.SequenceNode):
            edits += _grant_edits(text, key, value, document, grants)
        elif key.value == "principals" and isinstance(value, yaml.MappingNode):
            for name, entry in value.value:
                if roles.get(name.value) != document.principals[name.value].roles:
                    edits += _list_edits(text, entry, "roles", roles[name.value])
    for start, end, put in sorted(edits, reverse=True):
        text = f"{text[:start]}{put}{text[end:]}"
    return text


def _grant_edits(
    text: str, key: yaml.Node, value: yaml.SequenceNode, document: PolicyDocument, kept: list[tuple[str, ...]]
) -> Iterator[_Edit]:
    gone = [node for node, names in zip(value.value, kept, strict=True) if not names]
    if gone and len(gone) == len(value.value):
        yield _after_colon(text, key), _end(value), " []"
        return
    if gone and value.flow_style:
        left = [node for node, names in zip(value.value, kept, strict=True) if names]
        items = ", ".join(text[node.start_mark.index : node.end_mark.index] for node in left)
        yield value.start_mark.index, value.end_mark.index, f"[{items}]"
        # What is left of them is for the next round: two edits would overlap.
        return
    for node, entry, names in zip(value.value, document.grants, kept, strict=True):
        if not names:
            yield _lines_of(text, node)
        elif names != entry.privileges:
            yield from _list_edits(text, node, "privileges", names)


def _list_edits(text: str, node: yaml.Node, name: str, items: tuple[str, ...]) -> Iterator[_Edit]:
    """Yield the edit that puts a list in a mapping into the place of the one that is there."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                yield _after_colon(text, key), _end(value), f" [{', '.join(map(_scalar, items))}]"


def _lines_of(text: str, node: yaml.Node) -> _Edit:
    """Return the lines of an item of a block sequence, from its dash to the end of its last line."""
    dash = text.rfind("-", 0, node.start_mark.index)
    begin = text.rfind("\n", 0, dash) + 1
    end = text.find("\n", _end(node))
    return begin, len(text) if end < 0 else end + 1, ""


def _after_colon(text: str, key: yaml.Node) -> int:
    return text.index(":", key.end_mark.index) + 1


def _end(node: yaml.Node) -> int:
    """Return where the text of a node ends; the parser counts blanks and comments after a block to it."""
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", False):
        end: int = node.end_mark.index
        return end
    parts = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
    return max((_end(part) for part in parts), default=node.end_mark.index)


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text not in _WORDS else json.dumps(text, ensure_ascii=False)
