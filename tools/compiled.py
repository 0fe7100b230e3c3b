"""Compile the modules that every request takes, and run the pure rooms' tests on what comes of it: `make compiled`.

Nothing of it ships. It shows that these modules stay in a form that can be compiled: their functions take values, keep
no state, and define no types that msgspec or the standard library builds at run time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

MODULES = (
    "policy/admission",
    "policy/containment",
    "policy/decide",
    "policy/resolver",
    "policy/state",
    "s3/canonical",
    "s3/classify",
    "s3/forwarded_operations",
    "s3/key",
    "s3/query",
    "s3/sigv4",
    "s3/uri",
)
"""Those of the walks (`tests/walk`) in the pure rooms that define functions alone."""

# It counts the steps of the interpreter, of which compiled code takes none.
COUNTS_STEPS = "tests/policy/test_scale.py"
TESTS = ("tests/s3", "tests/policy", "tests/signing", f"--deselect={COUNTS_STEPS}")
COPIED = ("signproxy", "tests", "tools", "policies", "pyproject.toml", "README.md", "docs")


def main() -> int:
    """Return the status of the tests, or of what failed before them."""
    if shutil.which("gcc") is None:
        sys.stderr.write("gcc is missing: what mypyc writes is C\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="signproxy-compiled-") as scratch:
        return _in(Path(scratch))


def _in(copy: Path) -> int:
    for name in COPIED:
        original = REPOSITORY / name
        if original.is_dir():
            shutil.copytree(original, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(original, copy / name)
    # The copy comes before the check-out, wherever that is installed.
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    sources = [f"signproxy/{module}.py" for module in MODULES]
    mypyc = Path(sys.executable).with_name("mypyc")
    built = subprocess.run(
        [str(mypyc), *sources], cwd=copy, env=environment, check=False, capture_output=True, text=True
    )
    if built.returncode:
        sys.stderr.write(built.stdout[-4000:] + built.stderr[-4000:])
        return built.returncode
    # Without its source a module that was not compiled could not be imported.
    for source in sources:
        (copy / source).unlink()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(command, cwd=copy, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
