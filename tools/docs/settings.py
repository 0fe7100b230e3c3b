"""Write the page of settings."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec
from msgspec import inspect

from signproxy.config.difference import effect_of
from signproxy.config.environment import PREFIX
from signproxy.config.paths import bare
from signproxy.config.settings import Settings
from tools.docs.fields import docstrings
from tools.docs.markdown import code, table

_INTRODUCTION = """\
# Settings

Settings belong to the operator. The policy says which catalogs, tables and grants there are; the settings say whose
tokens are believed, which keys sign, and towards which hosts. Editing the policy alone can therefore
neither add an identity nor a host that signatures are valid for.

## How they are read

1. Defaults,
2. the file of `--config` or `SIGNPROXY_CONFIG` (YAML),
3. the environment: `SIGNPROXY__SECTION__KEY`,
4. flags of the command line; `--set section.key=value` reaches every setting.

Later ones win. An unknown key or variable is an error that names its path and the nearest known one, and every fault is
told at once.

* `signproxy check-config` checks all of it as a start would, with the policy, certificates and keys, without starting.
  Exit code 0 means that a start will not be refused; what works and is worth a word is a warning.
* `signproxy print-config` prints every value and where it was said (a line of the file, a variable, the command line,
  or the default), with secrets masked. What it prints is a settings file again. `--defaults` prints the defaults.
* [settings.schema.json](settings.schema.json) is the file's JSON Schema, for editors:
  `# yaml-language-server: $schema=<its path>` in the first line.

All three take the flags of `signproxy serve`.

* **YAML** is read strictly: only `true` and `false` are booleans, keys are text, duplicate keys, tags and merge keys
  are errors. Numbers with a leading zero and dates stay text.
* **Variables** of lists take `a,b` or `[a, b]`; lists of mappings and whole mappings take YAML. A name of the file
  (of an issuer, a provider, a storage) is found in upper case and with `_` for other signs; a new one is made in lower
  case.
* **Paths** in the file are relative to the file, all others to the working directory.
* **Secrets** never stand in the settings. They stay in files (`secret_file`, `secret_access_key_file`, …) or in
  variables that a provider's property names.
* **Durations and sizes** are numbers with the unit in the key's name.

## When they take effect

Files are looked at every `reload.poll_seconds`: the settings file, the policy, keys, secrets and certificates. What
changed is read and checked as a whole, on every worker, and takes effect on all of them or on none; SIGHUP asks for it
at once. Settings marked "restart" below stay as they were until then, and the log names them. The environment and the
command line of a process never change.

Kubernetes shows changes of a ConfigMap or Secret about a minute later, and never in a file that is mounted by itself
(`subPath`): mount the directory.

## TLS

TLS is on where `tls.cert_file` is set; TCP then speaks nothing else. It is TLS 1.2 or 1.3, with HTTP/1.1. New files are
checked before they are used: if the key does not belong to the certificate, if a file is cut off, or if the certificate
has ended, the old pair is served on and the log says why. Open connections go on; new ones see the new certificate.
TLS cannot be switched on or off without a restart. Java clients take the authority from the JVM's trust store.

## Unix sockets

A Unix socket is served beside the port, or instead of it with `listen.tcp: false`, and never with TLS. It has the
permissions of `socket_mode` from its first moment. The file of a server that is no more is replaced; where another
server answers on it, the start is refused. A program that may write to its directory can put a socket of its own there.

## What clients carry

Some of what signproxy knows travels through its clients and comes back: the location of a table that a client has begun
to create (a context), and, where `context.table_tokens` is on, tokens that are good for one table. Both are sealed
(AES-256-GCM, a key for each purpose): no other party can read, change or swap them, and neither
is authority. A context is good for the principal who began, and ends after `context.staged_seconds`; grants are judged
when it is used. A table token holds the caller's own token, which is verified anew, and ends with it, or after
`context.table_token_seconds`.

* **Without `context.secret_files`** the secret is random, shared by the workers of one server, and ends with it: after
  a restart, and at any other sidecar, what clients carry is refused (`token_key_unknown`, `context_invalid`), and a
  create that was not committed has to begin anew. `check-config` says so where it matters.
* **With them**, each file holds a secret of its own, at least 32 bytes (`openssl rand -hex 32`). To exchange one, add
  the new file behind the old one on every sidecar, then put it first, then take the old one away, once what it sealed
  has ended. One secret is good for 4 billion texts of each purpose: at a hundred a second, for more than a year.
* **Table tokens** are for Iceberg Java, which uses them in place of the caller's own, cannot renew them, and is refused
  with 401 when they end: a job must not outlive `context.table_token_seconds`. PyIceberg ignores them. None is handed
  out where it would not fit into 16 KiB. A table token is good for that table: for no view, for no later table of its
  name, and for no other token (`POST oauth/tokens` answers 401 `credential_scoped`).

## What the process keeps to itself

At its start each process switches core files off, and asks the kernel to let only root read its memory, its
environment or its open files, or trace it: other processes of its user in the same pod are kept out. Debuggers and
profilers are, too. Where a sandbox refuses that, the log says so and serving goes on. Files of secrets that every user
can read are named in the log; in Kubernetes, set `defaultMode: 0440` with a `fsGroup`.

## A complete file

```yaml
{example}```

## All settings
"""

_TITLES = ("key", "type", "default", "takes effect by", "meaning, and its variable")

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
    parts += [_section(path, kind) for path, kind in structs("", root)]
    return "\n".join(parts)


def structs(path: str, kind: inspect.Type) -> Iterator[tuple[str, inspect.StructType]]:
    """Yield each section below a type with its path, in the order of the file."""
    match bare(kind):
        case inspect.StructType() as struct:
            yield path, struct
            for field in struct.fields:
                yield from structs(f"{path}.{field.encode_name}".lstrip("."), field.type)
        case inspect.DictType(value_type=value_type):
            yield from structs(f"{path}.<name>", value_type)
        case inspect.VarTupleType(item_type=item_type):
            yield from structs(f"{path}[]", item_type)
        case _:
            pass


def _section(path: str, kind: inspect.StructType) -> str:
    heading = f"### {code(path)}\n" if path else "### The top\n"
    words = docstrings(kind.cls)
    rows = [
        _row(path, field, words.get(field.name, ""))
        for field in kind.fields
        if not isinstance(bare(field.type), inspect.StructType)
    ]
    said = (kind.cls.__doc__ or "").strip()
    return "\n".join([heading, f"{said}\n", table(_TITLES, rows) if rows else ""]).rstrip() + "\n"


def _row(path: str, field: inspect.Field, said: str) -> tuple[str, ...]:
    where = f"{path}.{field.encode_name}".lstrip(".")
    return (
        code(field.encode_name),
        _type(field.type),
        _default(field),
        effect_of(where).value,
        f"{_meaning(field, said)} {code(_variable(where))}".strip(),
    )


def _meaning(field: inspect.Field, said: str) -> str:
    kind = field.type
    while isinstance(kind, inspect.Metadata):
        # A kind of field that several sections have brings its own words.
        said = said or str((kind.extra_json_schema or {}).get("description", ""))
        kind = kind.type
    return said


def _variable(path: str) -> str:
    """Return the variable of a setting; a member of a list has none."""
    return "" if "[]" in path else PREFIX + path.replace(".", "__").upper()


def _type(kind: inspect.Type) -> str:
    match bare(kind):
        case inspect.BoolType():
            return "`true` or `false`"
        case inspect.IntType(ge=least, le=most):
            return f"whole number, {least} to {most}"
        case inspect.FloatType(gt=above, le=most) if above is not None:
            return f"number above {above:g}, to {most:g}"
        case inspect.FloatType(ge=least, le=most):
            return f"number, {least:g} to {most:g}"
        case inspect.StrType(pattern=str(pattern)):
            return f"text of the form {code(pattern)}"
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
