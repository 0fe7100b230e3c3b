"""Sign, forward or vend S3 access to Iceberg tables, so that no engine holds S3 keys."""

__version__ = "0.1.0"
