"""Mutate, run, report: the command behind `make mutants` and `make mutants-changed`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.mutation.campaign import Campaign, load_equivalents
from tests.mutation.forks import Outcome

TARGETS = ["signproxy/s3", "signproxy/policy"]
# The tests of the rooms themselves and of those that use every word of theirs; not the comparison of the documentation
# with the code, which would notice every change of a table and prove none right.
TESTS = ["tests/s3", "tests/policy", "tests/gate", "tests/inventory", "tests/signing", "tests/catalog"]
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")


def main() -> int:
    """Return 0 if enough mutants were killed and the list of equivalents is exact."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--target", nargs="+", default=TARGETS, help="packages or modules to mutate")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="tests that must notice")
    parser.add_argument("--equivalents", type=Path, default=EQUIVALENTS, help="mutants that nothing can notice")
    parser.add_argument("--changed-since", metavar="REV", default="", help="only functions that differ from a revision")
    parser.add_argument("--budget", type=float, default=5100, metavar="SECONDS", help="start no mutant after this time")
    parser.add_argument("--fail-under", type=float, default=0, metavar="PERCENT")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    options = parser.parse_args()
    # Read when the tests are imported: few examples per property, always the same ones.
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    began = time.monotonic()
    campaign = Campaign(options.target, options.tests, load_equivalents(options.equivalents), options.changed_since)
    if campaign.mutants:
        campaign.run(options.workers, options.budget)
    result = _result(campaign, time.monotonic() - began)
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    for key in campaign.unused:
        print(f"listed as equivalent, but no mutant: {key}")
    for survivor in result["survivors"]:
        print(
            f"{survivor['path']}:{survivor['line']} {survivor['unit']}\n-  {survivor['text']}\n+  {survivor['change']}"
        )
    for path, counts in result["modules"].items():
        print(f"{path:44} " + "  ".join(f"{name} {count}" for name, count in counts.items()))
    print(
        f"{result['score']:.1f} % of {result['run']} mutants killed, of {len(campaign.mutants)}, "
        f"and {campaign.equivalent} listed as equivalent, in {result['seconds']} s"
    )
    # A part of the mutants answers for a change, not for the whole.
    incomplete = not options.changed_since and result["run"] < result["mutants"]
    return 1 if campaign.unused or incomplete or result["score"] < options.fail_under else 0


def _result(campaign: Campaign, seconds: float) -> dict[str, Any]:
    modules: dict[str, Counter[str]] = {}
    survivors = []
    for number, outcome in sorted(campaign.outcomes.items()):
        mutant = campaign.mutants[number]
        modules.setdefault(mutant.path, Counter())[outcome.value] += 1
        if outcome is Outcome.SURVIVED:
            path, unit, text, change = mutant.key
            survivors.append({"path": path, "line": mutant.line, "unit": unit, "text": text, "change": change})
    run = len(campaign.outcomes)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit,
        "score": round(100 * (run - len(survivors)) / run, 1) if run else 100.0,
        "run": run,
        "mutants": len(campaign.mutants),
        "equivalent": campaign.equivalent,
        "seconds": round(seconds),
        "modules": {path: dict(counts) for path, counts in modules.items()},
        "survivors": survivors,
    }


if __name__ == "__main__":
    sys.exit(main())
