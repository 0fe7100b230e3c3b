"""Lend the one Spark of the pipeline's tests, to look at what jobs left that ran in processes of their own."""

from tests.pipeline.conftest import spark

__all__ = ["spark"]
