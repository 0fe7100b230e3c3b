"""Write the page of settings."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec
from msgspec import inspect

from signproxy.cli.reference.markdown import code, table
from signproxy.config.environment import PREFIX
from signproxy.config.paths import bare
from signproxy.config.settings import Settings

_INTRODUCTION = """\
# Settings

Settings belong to the operator. The policy says which catalogs, tables and grants there are; the settings say whose
tokens are believed, which keys sign, and towards which hosts. Whoever may edit the policy alone can therefore neither
become somebody else nor have a signature sent to a host of his own.

## How they are read

1. Defaults,
2. the file of `--config` or `SIGNPROXY_CONFIG` (YAML),
3. the environment: `SIGNPROXY__SECTION__KEY`,
4. flags of the command line; `--set section.key=value` reaches every setting.

Later ones win. An unknown key or variable is an error that names its path and the nearest known one, and every fault is
told at once. `signproxy check-config` tells them without starting. All settings need a restart; only the policy is
reloaded.

* **YAML** is read strictly: only `true` and `false` are booleans, keys are text, duplicate keys, tags and merge keys
  are errors. Numbers with a leading zero and dates stay text.
* **Variables** of lists take `a,b` or `[a, b]`; lists of mappings and whole mappings take YAML. A name of the file
  (of an issuer, a provider, a storage) is found in upper case and with `_` for other signs; a new one is made in lower
  case.
* **Paths** in the file are relative to the file, all others to the working directory.
* **Secrets** never stand in the settings. They stay in files (`secret_file`, `secret_access_key_file`, …) or in
  variables that a provider's property names.
* **Durations and sizes** are whole numbers with the unit in the key's name.

## A complete file

```yaml
{example}```

## All settings
"""

EXAMPLE = """\
policy:
  path: policy/                        # relative to this file
identity:
  issuers:
    idp:
      issuer: https://idp.example.com/realms/data
      audiences: [signproxy]
      discovery: true
      roles_claim: realm_access.roles
      roles: [etl, analyst]
credentials:
  providers:
    lake-keys:
      class: static
      properties:
        access_key_id_file: /run/secrets/lake/access-key-id
        secret_access_key_file: /run/secrets/lake/secret-access-key
storages:
  lake:                                # a storage that the policy declares
    credentials: lake-keys
    hosts: [aws]
audit:
  sink: file
  path: /var/lib/signproxy/audit.ndjson
"""


def page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION.replace("{example}", EXAMPLE)]
    root = inspect.type_info(Settings)
    parts += [_section(path, kind) for path, kind in _structs("", root)]
    return "\n".join(parts)


def _structs(path: str, kind: inspect.Type) -> Iterator[tuple[str, inspect.StructType]]:
    """Yield each section with its path, in the order of the file."""
    match bare(kind):
        case inspect.StructType() as struct:
            yield path, struct
            for field in struct.fields:
                yield from _structs(f"{path}.{field.encode_name}".lstrip("."), field.type)
        case inspect.DictType(value_type=value_type):
            yield from _structs(f"{path}.<name>", value_type)
        case inspect.VarTupleType(item_type=item_type):
            yield from _structs(f"{path}[]", item_type)
        case _:
            pass


def _section(path: str, kind: inspect.StructType) -> str:
    heading = f"### {code(path)}\n" if path else "### The top\n"
    rows = [_row(path, field) for field in kind.fields if not isinstance(bare(field.type), inspect.StructType)]
    said = (kind.cls.__doc__ or "").strip()
    return (
        "\n".join([heading, f"{said}\n", table(("key", "type", "default", "meaning"), rows) if rows else ""]).rstrip()
        + "\n"
    )


def _row(path: str, field: inspect.Field) -> tuple[str, str, str, str]:
    return code(field.encode_name), _type(field.type), _default(field), _meaning(path, field)


def _meaning(path: str, field: inspect.Field) -> str:
    said = ""
    kind = field.type
    while isinstance(kind, inspect.Metadata):
        said = said or str((kind.extra_json_schema or {}).get("description", ""))
        kind = kind.type
    if "[]" in path or "<name>" in path:
        return said
    variable = "__".join([*path.split("."), field.encode_name] if path else [field.encode_name]).upper()
    return f"{said} {code(PREFIX + variable)}"


def _type(kind: inspect.Type) -> str:
    match bare(kind):
        case inspect.BoolType():
            return "`true` or `false`"
        case inspect.IntType(ge=least, le=most):
            return f"number, {least} to {most}"
        case inspect.EnumType(cls=cls):
            return ", ".join(code(str(member.value)) for member in cls)
        case inspect.VarTupleType(item_type=item_type):
            if isinstance(bare(item_type), inspect.StructType):
                return "list, see below"
            return f"list of {_type(item_type)}"
        case inspect.DictType(value_type=value_type):
            return "by name, see below" if isinstance(bare(value_type), inspect.StructType) else "text by name"
        case inspect.UnionType(types=types):
            return " or ".join(_type(member) for member in types if not isinstance(member, inspect.NoneType))
        case _:
            return "text"


def _default(field: inspect.Field) -> str:
    if field.required:
        return "**required**"
    match field.default:
        case msgspec.NODEFAULT | None | "" | ():
            return ""
        case bool(value):
            return code(str(value).lower())
        case Enum(value=value):
            return code(str(value))
        case tuple(members):
            return ", ".join(code(str(member.value if isinstance(member, Enum) else member)) for member in members)
        case value:
            return code(str(value))
