"""Measure how soon a started process signs, against an import of aiohttp, and what it holds idle and under load."""

from __future__ import annotations

import compileall
import http.client
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import signproxy
from bench import load, sign_request
from bench.effort import Effort
from bench.figures import Result, ratios, result
from bench.process import SERVER_CORE, BenchFailed, call, cpu_seconds, memory_mib, start, stop
from bench.serve import Deployment, deploy

_AGAINST = "python -c 'import aiohttp.web'"
_POLICY_TABLES = 10
"""A small policy: what a sidecar beside one job declares."""

_SETTLE_SECONDS = 2.0
"""Background tasks of the start have run by then; what is held is what an idle sidecar holds."""

_IDLE_SAMPLES = 5
"""Memory hardly varies: samples lie within 0.3 MiB."""

_READY_SAMPLES = 10

_LOAD_SECONDS = 10
_LOAD_CONNECTIONS = 64
"""The executors of a small cluster."""

_PATIENCE = 30.0

_PACKAGE = Path(signproxy.__file__).parent


def measure(effort: Effort) -> list[Result]:
    """Start and import in turns, on one core; then look at an idle server."""
    walls: list[float] = []
    cpus: list[float] = []
    import_walls: list[float] = []
    import_cpus: list[float] = []
    # An installed package is compiled; a check-out is not, where Python is told to write no bytecode.
    if not compileall.compile_dir(_PACKAGE, quiet=1):
        raise BenchFailed(f"{_PACKAGE} cannot be compiled")
    with deploy(tables=_POLICY_TABLES) as deployment:
        _import_aiohttp()  # the first one reads the disk
        _start_and_sign(deployment)
        for _ in range(effort.starts):
            wall, cpu = _import_aiohttp()
            import_walls.append(wall)
            import_cpus.append(cpu)
            wall, cpu = _start_and_sign(deployment)
            walls.append(wall)
            cpus.append(cpu)
        readies = [_until_ready(deployment) for _ in range(min(effort.starts, _READY_SAMPLES))]
        samples = min(effort.rounds, _IDLE_SAMPLES)
        residents, scraped = zip(*(_idle_memory(deployment) for _ in range(samples)), strict=True)
        loaded = [_loaded_memory(deployment, effort) for _ in range(samples)]
        botocore = imported_modules(deployment, "botocore")
    return [
        result(
            "startup.first_signature_vs_import",
            ratios(walls, import_walls),
            unit="ratio",
            better="lower",
            must=1.5,
            against=f"{_AGAINST}, wall time",
        ),
        result(
            "startup.first_signature_cpu_vs_import",
            ratios(cpus, import_cpus),
            unit="ratio",
            better="lower",
            against=f"{_AGAINST}, CPU time",
        ),
        result(
            "startup.first_signature_ms",
            [wall * 1e3 for wall in walls],
            unit="ms",
            better="lower",
            against="absolute, of this machine",
        ),
        result(
            "startup.ready_ms",
            readies,
            unit="ms",
            better="lower",
            against="until `/readyz` answers 200, absolute, of this machine",
        ),
        result(
            "startup.idle_rss_mib",
            residents,
            unit="MiB",
            better="lower",
            must=60,
            goal=55,
            against="VmRSS after the first signature, with RS256, policy, file sink and uvloop",
        ),
        result(
            "startup.scraped_rss_mib",
            scraped,
            unit="MiB",
            better="lower",
            goal=60,
            against="the same process after its first scrape, which imports prometheus_client",
        ),
        result(
            "startup.loaded_rss_mib",
            loaded,
            unit="MiB",
            better="lower",
            against=f"VmRSS after {_LOAD_SECONDS} s of wrk over {_LOAD_CONNECTIONS} connections, every file another",
        ),
        result(
            "startup.botocore_modules",
            [float(len(botocore))],
            unit="modules",
            better="lower",
            must=0,
            against="modules of botocore imported with static credentials",
        ),
    ]


def imported_modules(deployment: Deployment, package: str) -> list[str]:
    """Return the modules of a package that the serving process imports, one signature included."""
    log = deployment.directory / "imports.log"
    command = deployment.command()
    process = start([command[0], "-X", "importtime", *command[1:]], core=SERVER_CORE, log=log)
    try:
        _first_signature(deployment, process)
    finally:
        stop(process)
    names = [line.rpartition("|")[2].strip() for line in log.read_text(errors="replace").splitlines()]
    if "aiohttp.web" not in names:
        raise BenchFailed("the import log does not even name aiohttp.web: it cannot say what is not imported")
    return [name for name in names if name == package or name.startswith(f"{package}.")]


def _import_aiohttp() -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = start([sys.executable, "-c", "import aiohttp.web"], core=SERVER_CORE)
    status = process.wait()
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status:
        raise BenchFailed(f"import of aiohttp.web ended with {status}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _start_and_sign(deployment: Deployment) -> tuple[float, float]:
    began = time.perf_counter()
    process = start(deployment.command(), core=SERVER_CORE, log=deployment.directory / "serve.log")
    try:
        _first_signature(deployment, process)
        return time.perf_counter() - began, cpu_seconds([process.pid])
    finally:
        stop(process)


def _idle_memory(deployment: Deployment) -> tuple[float, float]:
    """Return what a process holds that signed once, and after a scrape."""
    process = start(deployment.command(), core=SERVER_CORE, log=deployment.directory / "serve.log")
    try:
        _first_signature(deployment, process)
        time.sleep(_SETTLE_SECONDS)
        idle = memory_mib(process.pid, "VmRSS")
        status, metrics = call("GET", f"http://127.0.0.1:{deployment.admin_port}/metrics")
        if status != 200:
            raise BenchFailed(f"no metrics: {status} {metrics[:200]!r}")
        return idle, memory_mib(process.pid, "VmRSS")
    finally:
        stop(process)


def _until_ready(deployment: Deployment) -> float:
    """Return the milliseconds from the start of the process to its first good answer to the readiness probe."""
    began = time.perf_counter()
    with deployment.serve():
        return (time.perf_counter() - began) * 1e3


def _loaded_memory(deployment: Deployment, effort: Effort) -> float:
    with deployment.serve() as signer:
        seconds = _LOAD_SECONDS if effort.rounds > 1 else effort.seconds
        load.burst(signer, deployment.directory, connections=_LOAD_CONNECTIONS, seconds=seconds)
        return memory_mib(signer.pids[0], "VmRSS")


def _first_signature(deployment: Deployment, process: subprocess.Popen[bytes]) -> None:
    """Knock every millisecond until the server listens; the first request must be signed."""
    signer = deployment.signer(())
    target = urlsplit(signer.url)
    content = sign_request.body(signer.template, os.getpid())
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {signer.token}"}
    deadline = time.monotonic() + _PATIENCE
    while True:
        connection = http.client.HTTPConnection(target.netloc, timeout=_PATIENCE)
        try:
            connection.request("POST", target.path, content, headers)
            answer = connection.getresponse()
            text = answer.read()
        except ConnectionRefusedError:
            if process.poll() is not None or time.monotonic() > deadline:
                log = Path(deployment.directory, "serve.log").read_text(errors="replace")
                raise BenchFailed(f"serve does not listen (exit {process.poll()})\n{log[-2000:]}") from None
            time.sleep(0.001)
            continue
        finally:
            connection.close()
        if answer.status != 200:
            raise BenchFailed(f"the first answer was {answer.status}: {text[:500]!r}")
        return
