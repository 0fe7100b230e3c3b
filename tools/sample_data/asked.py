"""What queries ask a store for, in which proportions, and by which client."""

from __future__ import annotations

AGENTS = (
    "Apache Iceberg 1.11.0 (commit 2f1c4a) Spark/4.1.0",
    "PyIceberg/0.12.0 aiobotocore/2.25.0 Python/3.12.4",
    "aws-sdk-java/2.51.3 md/io#sync md/http#Apache ua/2.1 os/Linux#6.8 lang/java#17.0.12",
    "Boto3/1.40.61 md/Botocore#1.40.61 ua/2.1 os/linux#6.8 lang/python#3.12.4",
    "DuckDB/v1.5.0(linux_amd64) python/3.12",
    "trino/479 software.amazon.awssdk/2.51.3",
    "Polars/2.1.0 object_store/0.12",
)
# A read query mostly reads data, after the manifests that lead there.
READS = ("GetObject",) * 26 + ("HeadObject",) * 3 + ("ListObjectsV2",)
WRITES = ("PutObject",) * 10 + ("CreateMultipartUpload", "UploadPart", "UploadPart", "CompleteMultipartUpload")
METHODS = {
    "GetObject": "GET",
    "HeadObject": "HEAD",
    "ListObjectsV2": "GET",
    "PutObject": "PUT",
    "UploadPart": "PUT",
    "CreateMultipartUpload": "POST",
    "CompleteMultipartUpload": "POST",
    "DeleteObject": "DELETE",
}
ACCESS = {"GetObject": "read", "HeadObject": "read", "ListObjectsV2": "list", "DeleteObject": "delete"}
DENIALS = ("no_read_data", "no_read_data", "no_write_data", "outside_table", "operation_refused", "metadata_protected")
