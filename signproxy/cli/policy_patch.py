"""Show what a patch of the pipeline would take from the policy, or write a copy without it; the policy stays."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace

from signproxy.cli import configuration
from signproxy.cli.policy_edit import PATCH_SCHEMA, Editor, Patch
from signproxy.cli.policy_export import full_name, issuer_of
from signproxy.cli.terminal import complain, read_input, say
from signproxy.config import Settings
from signproxy.documents import decode, load_yaml
from signproxy.errors import Finding, Invalid
from signproxy.inventory.declared.document import PolicyDocument
from signproxy.inventory.declared.snapshot import FileSnapshot, read_consistently
from signproxy.policy.state import PolicyState
from signproxy.server.process import build

MAX_PATCH_BYTES = 16 << 20
"""As large as a policy file."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the patch, and where the patched policy goes."""
    configuration.arguments(parser)
    parser.add_argument("patch", metavar="FILE", help="what `signproxy pipeline privileges --patch` wrote; - for stdin")
    parser.add_argument("--output", metavar="DIR", help="write the patched policy into this new directory")


def run(options: argparse.Namespace) -> int:
    """Patch a copy, check it as a start would, and show or keep it."""
    settings = configuration.settings_of(options)
    name = options.patch
    patch = decode(Patch, load_yaml(read_input(name, MAX_PATCH_BYTES), name), file=name)
    if patch.schema != PATCH_SCHEMA:
        raise Invalid([Finding(name, "schema", f"{PATCH_SCHEMA} expected")])
    state = build.policy_source(settings).load(0)
    if patch.policy_rev and patch.policy_rev != state.rev:
        complain(f"warning: the patch is of policy {patch.policy_rev}, and this is {state.rev}")
    path = Path(settings.policy.path)
    output = Path(options.output) if options.output else None
    if output is not None and output.exists():
        raise Invalid([Finding("command line", "--output", f"{str(output)!r} is there already")])
    with TemporaryDirectory() as temporary:
        copy = Path(temporary) / "policy"
        editor = read_consistently(path, lambda snapshot: _write(snapshot, settings, state, patch, copy))
        policy = replace(settings.policy, path=str(copy if path.is_dir() else copy / path.name))
        # What a start would refuse is not shown as something to adopt.
        rev = build.policy_source(replace(settings, policy=policy)).load(0).rev
        for what in editor.missing():
            complain(f"warning: {what}")
        if output is not None:
            shutil.copytree(copy, output)
            say(f"{output}: policy {rev} instead of {state.rev}")
        else:
            base = path if path.is_dir() else path.parent
            for file in sorted(copy.iterdir()):
                for line in _difference(base / file.name, file):
                    say(line)
    return 0


def _write(snapshot: FileSnapshot, settings: Settings, state: PolicyState, patch: Patch, copy: Path) -> Editor:
    """Write the patched files anew; what a former reading left is gone."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    issuer = issuer_of(settings)
    editor = Editor(patch, state.default_catalog, lambda name: full_name(name, issuer))
    inventories: dict[str, None] = {}
    for file, content in snapshot.documents():
        text = content.decode()
        (copy / file).write_bytes(editor.document(file, text).encode())
        inventories.update(dict.fromkeys(decode(PolicyDocument, load_yaml(text, file), file=file).inventories))
    for name in inventories:
        with snapshot.inventory(name) as stream, (copy / name).open("wb") as out:
            for line in stream:
                out.write(editor.line(line))
    return editor


def _difference(before: Path, after: Path) -> Iterator[str]:
    """Yield a unified difference; of an inventory without context, for a million lines have no neighbours to show."""
    if after.suffix in (".yaml", ".yml"):
        old, new = (file.read_text(encoding="utf-8").splitlines() for file in (before, after))
        yield from unified_diff(old, new, f"a/{after.name}", f"b/{after.name}", lineterm="")
        return
    headed = False
    for hunk in _hunks(before, after):
        if not headed:
            headed = True
            yield f"--- a/{after.name}"
            yield f"+++ b/{after.name}"
        yield from hunk


def _hunks(before: Path, after: Path) -> Iterator[tuple[str, ...]]:
    """Yield each line that went, or was changed, as a hunk of its own; no line is ever added."""
    at = 0
    with before.open(encoding="utf-8") as old, after.open(encoding="utf-8") as new:
        ahead = new.readline()
        for number, line in enumerate(old, 1):
            if line.rstrip("\n") == ahead.rstrip("\n"):
                at += 1
                ahead = new.readline()
            elif _is_same_grant(line, ahead):
                at += 1
                yield (f"@@ -{number} +{at} @@", f"-{line.rstrip()}", f"+{ahead.rstrip()}")
                ahead = new.readline()
            else:
                yield (f"@@ -{number} +{at},0 @@", f"-{line.rstrip()}")


def _is_same_grant(line: str, other: str) -> bool:
    if not other.strip():
        return False
    one, another = ({**msgspec.json.decode(text), "privileges": None} for text in (line, other))
    return bool(one == another)
