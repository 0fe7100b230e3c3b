"""Write a request as a line of S3's server access log, or of versitygw's, which resembles it."""

from __future__ import annotations

from tools.sample_data.clock import ACCESS_LOG, ISO, VERSITY_LOG
from tools.sample_data.rows import OPERATIONS, Row
from tools.sample_data.world import OWNER, REGION

_TLS = "TLSv1.3"
_CIPHER = "TLS_AES_128_GCM_SHA256"


class AwsLines:
    """Lines of 27 fields; the time takes two of the words between the spaces."""

    def line(self, row: Row) -> str:
        """Return a line with its end."""
        bucket = row.bucket.name
        name = row.operation or OPERATIONS[row.s3_op]
        query = f"?{row.query}" if row.query else ""
        size = row.size or "-"
        # The host id is what S3 draws anew for each request; no job reads it.
        return (
            f"{OWNER} {bucket} [{ACCESS_LOG.text(row.at)} +0000] {row.remote_ip} {row.requester} {row.request_id} "
            f'{name} {row.path or "-"} "{row.method} /{row.path}{query} HTTP/1.1" {row.status} {row.error or "-"} '
            f'{row.sent or "-"} {size} {row.millis} {max(1, row.millis - 3)} "-" "{row.user_agent}" - '
            f"{row.request_id}{row.request_id[::-1]}/sV7mHkQ= SigV4 {_CIPHER} AuthHeader "
            f"{bucket}.s3.{REGION}.amazonaws.com {_TLS} - - {REGION}\n"
        )

    def deleted(self, row: Row, path: str) -> str:
        """Return the line of one key of a bulk delete, which has no request of its own."""
        return (
            f"{OWNER} {row.bucket.name} [{ACCESS_LOG.text(row.at)} +0000] {row.remote_ip} "
            f"{row.requester} {row.request_id} "
            f"BATCH.DELETE.OBJECT {path} - 204 - - {row.size or '-'} - - - - - {row.request_id}/sV7mHkQ= SigV4 "
            f"{_CIPHER} AuthHeader {row.bucket.name}.s3.{REGION}.amazonaws.com {_TLS} - - {REGION}\n"
        )

    def copied_from(self, row: Row, path: str) -> str:
        """Return the second line of a copy: the reading of its source."""
        source = row._replace(operation="REST.COPY.OBJECT_GET")
        return self.line(source).replace(f"OBJECT_GET {row.path} ", f"OBJECT_GET {path} ", 1)

    def expired(self, at: float, bucket: str, request_id: str, path: str) -> str:
        """Return the line of an object that a lifecycle rule removed: there was no request."""
        return (
            f"{OWNER} {bucket} [{ACCESS_LOG.text(at)} +0000] - AmazonS3 {request_id} S3.EXPIRE.OBJECT {path} "
            f'"-" - - - 1048576 - - "-" "-" - {request_id}/sV7mHkQ= - - - - - - - {REGION}\n'
        )


class VersityLines:
    """Lines of 26 fields, none of them quoted: a space in a user agent or a key shifts all that follow."""

    @staticmethod
    def banner(at: float) -> str:
        """Return what versitygw writes when it begins, as Go prints a time."""
        return f"log starts {ISO.text(at).replace('T', ' ')}.418392715 +0000 UTC m=+0.018731842\n"

    def line(self, row: Row) -> str:
        """Return a line with its end."""
        bucket = row.bucket.name
        query = f"?{row.query}" if row.query else ""
        status, sent = as_versity_tells(row)
        # The key stands decoded once, the URI as it came.
        return (
            f"signproxy {bucket} [{VERSITY_LOG.text(row.at)} +0000] {row.remote_ip} {row.requester} {row.request_id} "
            f"s3_{row.s3_op} {row.key or '-'} /{bucket}/{row.path}{query} {status} {row.error or '-'} {sent} "
            f"{row.size} {row.millis} {row.millis} - {row.user_agent or '-'} - {row.request_id[::-1]} SigV4 - "
            f"AuthHeader s3.{REGION}.amazonaws.com - arn:aws:s3:::/{bucket}/{row.key} Yes\n"
        )


def as_versity_tells(row: Row) -> tuple[int, int]:
    """Return status and bytes as versitygw logs them: 200 for what was 206, and no bytes of an object."""
    status = 200 if row.status < 400 else row.status
    return status, 0 if row.method in ("GET", "HEAD") else row.sent
