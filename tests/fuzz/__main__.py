"""Search for bytes that the sign way mishandles, guided by coverage: `python -m tests.fuzz --seconds 300`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

REPORT_EVERY = 1000
"""Executions between two notes of the counts; the engine ends the process without a word."""
MAX_INPUT = 16_384
"""Bytes: a sign request with a bulk delete of some keys; longer ones only meet the limits."""


def main() -> int:
    """Return 0 if nothing was found and something was signed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--corpus", type=Path, help="where inputs are kept from run to run")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"), help="where failing inputs are written")
    parser.add_argument("--report", type=Path, help="where the counts are written as JSON")
    parser.add_argument("--engine", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        return _engine(options)
    with tempfile.TemporaryDirectory() as scratch:
        return _supervise(options, Path(scratch))


def _supervise(options: argparse.Namespace, scratch: Path) -> int:
    """Run the engine in a process of its own: it ends the one that it runs in."""
    from tests.fuzz.seeds import seeds

    corpus = options.corpus or scratch / "corpus"
    report = options.report or scratch / "report.json"
    for folder in (corpus, options.findings):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number:02}").write_bytes(seed)
    began = time.monotonic()
    ended = subprocess.run(
        [
            sys.executable, "-m", "tests.fuzz", "--engine", "--seconds", str(options.seconds),
            "--corpus", str(corpus), "--findings", str(options.findings), "--report", str(report),
        ],
        check=False,
    )  # fmt: skip
    counts: dict[str, int] = json.loads(report.read_text()) if report.exists() else {}
    signed = counts.get("allowed", 0)
    _say(
        f"{sum(counts.values())} inputs in {time.monotonic() - began:.0f} s, {signed} signed, "
        f"{len(counts)} different outcomes, {len(list(corpus.iterdir()))} inputs kept"
    )
    for reason, count in sorted(counts.items(), key=lambda item: -item[1]):
        _say(f"  {reason:24} {count}")
    if ended.returncode:
        _say(f"failed: see {options.findings}")
    return ended.returncode or (0 if signed else 1)


def _engine(options: argparse.Namespace) -> int:
    try:
        import atheris  # type: ignore[import-untyped]  # published without types
    except ImportError:
        _say("atheris is not installed; it exists for Linux on x86-64 alone: the extra `fuzz`")
        return 2
    with atheris.instrument_imports(include=["signproxy"]):
        from tests.fuzz.harness import run
        from tests.fuzz.mutate import mutate
        from tests.fuzz.seeds import seeds

    counts: Counter[str] = Counter()
    honest = tuple(seeds())

    def one_input(data: bytes) -> None:
        counts[run(data).code] += 1
        if counts.total() % REPORT_EVERY == 0:
            options.report.write_text(json.dumps(counts))

    def bend(data: bytes, max_size: int, seed: int) -> bytes:
        chance = Random(seed)
        # What is kept for its coverage is mostly refused; from there few changes lead back to a signature.
        if chance.random() < 0.4:
            data = chance.choice(honest)
        # The engine's own mutations know what comparisons were made; ours know what the fields mean.
        bent = atheris.Mutate(data, max_size) if chance.random() < 0.1 else mutate(data, chance)
        return bytes(bent[:max_size])

    atheris.Setup(
        [
            "tests.fuzz", f"-max_total_time={options.seconds}", f"-max_len={MAX_INPUT}", "-print_final_stats=1",
            f"-artifact_prefix={options.findings}/", "-verbosity=0", str(options.corpus),
        ],
        one_input,
        custom_mutator=bend,
    )  # fmt: skip
    atheris.Fuzz()
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
