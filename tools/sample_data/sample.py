"""Write the sample that `signproxy pipeline demo` unpacks: `python -m tools.sample_data.sample`."""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path
from unittest.mock import patch

from signproxy.audit import member
from signproxy.cli.terminal import say
from tools.sample_data.generate import LEAST_EVENTS, Size, generate

SAMPLE = Path(__file__).parents[2] / "signproxy" / "pipeline" / "sample.tar.xz"
SIZE = Size(seed=7, events=LEAST_EVENTS, tables=1_000, instances=2)
"""As small as a month can be in which every fault is planted. Its days are fixed: 30 from 2026-10-01."""


def main() -> int:
    """Generate the sample and put it where the package ships it."""
    # What is packed already cannot be packed better: with segments that are, the sample is larger by half.
    stored = patch.object(member, "LEVEL", zlib.Z_NO_COMPRESSION)
    with tempfile.TemporaryDirectory(prefix="signproxy-sample-") as place, stored:
        directory = Path(place) / "demo"
        generate(directory, SIZE)
        SAMPLE.write_bytes(packed(directory))
    say(f"wrote {SAMPLE.name}: {SAMPLE.stat().st_size:,} bytes")
    return 0


def packed(directory: Path) -> bytes:
    """Return an archive of all files; the same files make the same bytes, whenever and by whichever user it is made."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for path in sorted(each for each in directory.rglob("*") if each.is_file()):
            content = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(directory).as_posix())
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(written.getvalue(), preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    sys.exit(main())
