"""Publishing without PyIceberg says what to install; what it does with it is tested where it is installed."""

from __future__ import annotations

import sys

import msgspec
import pytest

from signproxy.pipeline.job import Exit, JobContext, job, run_of
from signproxy.pipeline.runs import run_job


def test_without_pyiceberg_the_message_says_what_to_install(
    context: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most who run the pipeline have no Iceberg catalog, and none of them needs to install what talks to one."""
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    monkeypatch.delitem(sys.modules, "signproxy.pipeline.iceberg", raising=False)
    publishing = job("publish")
    assert publishing is not None
    record, _ = run_job(publishing, run_of(publishing), msgspec.structs.replace(context, options={}))
    assert record.exit == Exit.USAGE
    assert "install pyiceberg[pyarrow]" in record.problem
