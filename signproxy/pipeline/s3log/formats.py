"""List the formats of logs that can be read, by the name that stands as `source` in each of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from pyspark.sql import DataFrame, SparkSession

from signproxy.pipeline.s3log import aws, cloudtrail, minio, versity_file, versity_webhook

Read = Callable[[SparkSession, Sequence[str]], DataFrame]


class LogFormat(msgspec.Struct, frozen=True):
    """A format."""

    name: str
    summary: str
    read: Read


FORMATS = {
    one.name: one
    for one in (
        LogFormat(aws.SOURCE, "S3 server access logs, lines of text", aws.read),
        LogFormat(cloudtrail.SOURCE, "CloudTrail data events, files of JSON", cloudtrail.read),
        LogFormat(versity_webhook.SOURCE, "what versitygw's webhook sent, JSON on each line", versity_webhook.read),
        LogFormat(versity_file.SOURCE, "versitygw's `--access-log`, lines of text", versity_file.read),
        LogFormat(minio.SOURCE, "what MinIO's audit webhook sent, JSON on each line", minio.read),
    )
}
