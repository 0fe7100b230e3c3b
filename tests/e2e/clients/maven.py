"""Fetch jars by Maven name and compile what drives them, once per version, in the cache that the stores live in."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.stores.install import PrerequisiteMissing, _cache, _once, _run

JAVA_NEEDED = "17"
"""What Iceberg 1.11 and newer are compiled for."""

# Maven reads coordinates from a project; what these need comes with them.
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>e2e</groupId><artifactId>client</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    "<classifier>{classifier}</classifier></dependency>"
)


def with_dependencies(name: str, coordinates: Sequence[str]) -> Path:
    """Return a directory with jars and all that they need; each is `group:name:version[:jar:classifier]`."""
    home = _cache() / "jars" / name
    jars = home / "jars"
    with _once(jars) as missing:
        if missing:
            with tempfile.TemporaryDirectory(dir=home) as directory:
                pom, fetched = Path(directory) / "pom.xml", Path(directory) / "jars"
                pom.write_text(_POM.format(dependencies="".join(_dependency(each) for each in coordinates)))
                goal = ("dependency:copy-dependencies", f"-DoutputDirectory={fetched}", "-DincludeScope=runtime")
                _run(name, (tool("mvn"), "-q", "-B", "-ntp", "-f", str(pom), *goal))
                fetched.rename(jars)
    return jars


def jar(coordinates: str, folder: str = "jars") -> Path:
    """Return one jar alone."""
    _group, name, version, *rest = coordinates.split(":")
    file = _cache() / folder / f"{'-'.join((name, version, *rest[1:]))}.jar"
    with _once(file) as missing:
        if missing:
            with tempfile.TemporaryDirectory(dir=file.parent) as directory:
                goal = ("dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={directory}")
                _run(file.name, (tool("mvn"), "-q", "-B", "-ntp", *goal))
                (Path(directory) / file.name).rename(file)
    return file


def compiled(source: Path, jars: Path) -> str:
    """Return the class path of a compiled source file, and of the jars that it was compiled with."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    classes = jars.parent / f"{source.stem}-{digest}"
    with _once(classes) as missing:
        if missing:
            with tempfile.TemporaryDirectory(dir=jars.parent) as directory:
                built = Path(directory) / "classes"
                _run(source.name, (tool("javac"), "-cp", f"{jars}/*", "-d", str(built), str(source)))
                built.rename(classes)
    return f"{classes}:{jars}/*"


def tool(name: str) -> str:
    """Return a command of the machine's Java."""
    found = shutil.which(name)
    if found is None:
        raise PrerequisiteMissing(
            f"Iceberg Java is fetched by Maven and run by a JDK {JAVA_NEEDED} or newer, and there is no `{name}` on "
            f"the path: install them (`apt-get install maven openjdk-{JAVA_NEEDED}-jdk-headless`)"
        )
    return found


def _dependency(coordinates: str) -> str:
    group, name, version, *rest = coordinates.split(":")
    return _DEPENDENCY.format(group=group, name=name, version=version, classifier=rest[1] if rest else "")
