"""Decide: who may do which S3 operation on the objects of which table."""
