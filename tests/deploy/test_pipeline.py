"""The pipeline's examples call commands that exist, in the image and the Spark that the lock names."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from signproxy import __version__
from signproxy.cli import pipeline

ROOT = Path(__file__).parents[2]
_EXAMPLES = sorted((ROOT / "deploy" / "pipeline").glob("*.yaml"))


def _documents() -> Iterator[tuple[str, Any]]:
    for path in _EXAMPLES:
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def _found(node: Any, name: str) -> Iterator[Any]:
    """Yield every value that stands under a name, wherever that is."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == name:
                yield value
            yield from _found(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _found(value, name)


def _commands() -> Iterator[tuple[str, list[str]]]:
    """Yield what is given to `signproxy pipeline`, of each example."""
    for name, document in _documents():
        for arguments in (*_found(document, "args"), *_found(document, "arguments")):
            if "\n" in arguments[0]:
                lines = arguments[0].splitlines()
                calls = [shlex.split(line) for line in lines if line.startswith("signproxy ")]
                assert len(calls) == len(lines) - 1
                yield from ((name, call[2:]) for call in calls)
            else:
                yield name, arguments[1:] if arguments[0] == "pipeline" else arguments


@pytest.mark.parametrize(
    ("name", "command"), [pytest.param(*each, id=f"{each[0]}-{each[1][0]}") for each in _commands()]
)
def test_an_example_calls_a_command_as_it_is(name: str, command: list[str]) -> None:
    """A job that is wrong is found out at half past two in the night."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    pipeline.arguments(parser)
    options = parser.parse_args(command)
    assert options.chosen.name == command[0], name
    assert options.warehouse in ("/warehouse", "$WAREHOUSE")


def test_every_example_is_looked_at() -> None:
    """An example that the tests pass over rots."""
    assert {name for name, _ in _commands()} == {path.name for path in _EXAMPLES}


def test_examples_name_the_image_and_the_spark_of_this_version() -> None:
    """Executors of another Spark than the driver's fail with a page of Java."""
    images = {image for _, document in _documents() for image in _found(document, "image")}
    assert images == {f"signproxy-pipeline:{__version__}"}
    locked = re.search(r"^pyspark==(\S+)", (ROOT / "requirements" / "pipeline.txt").read_text(), re.MULTILINE)
    assert locked is not None
    assert {spark for _, document in _documents() for spark in _found(document, "sparkVersion")} == {locked[1]}
