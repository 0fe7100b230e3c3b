"""Name the S3 operations that are never signed, so that a refusal can say which one was asked for."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

# (method, level) -> (operation, the query names that tell it from the others of its method and level).
# The more specific one stands first; two names for one request share a row.
UNSIGNED: dict[tuple[str, str], tuple[tuple[str, tuple[str, ...]], ...]] = {
    ("DELETE", "bucket"): (
        ("DeleteBucketAnalyticsConfiguration", ("analytics", "id")),
        ("DeleteBucketIntelligentTieringConfiguration", ("intelligent-tiering", "id")),
        ("DeleteBucketInventoryConfiguration", ("inventory", "id")),
        ("DeleteBucketMetricsConfiguration", ("metrics", "id")),
        ("DeleteBucketCors", ("cors",)),
        ("DeleteBucketEncryption", ("encryption",)),
        ("DeleteBucketLifecycle", ("lifecycle",)),
        ("DeleteBucketMetadataConfiguration", ("metadataConfiguration",)),
        ("DeleteBucketMetadataTableConfiguration", ("metadataTable",)),
        ("DeleteBucketOwnershipControls", ("ownershipControls",)),
        ("DeleteBucketPolicy", ("policy",)),
        ("DeleteBucketReplication", ("replication",)),
        ("DeleteBucketTagging", ("tagging",)),
        ("DeleteBucketWebsite", ("website",)),
        ("DeletePublicAccessBlock", ("publicAccessBlock",)),
        ("DeleteBucket", ()),
    ),
    ("GET", "bucket"): (
        ("GetBucketAnalyticsConfiguration", ("analytics", "id")),
        ("GetBucketIntelligentTieringConfiguration", ("intelligent-tiering", "id")),
        ("GetBucketInventoryConfiguration", ("inventory", "id")),
        ("GetBucketMetricsConfiguration", ("metrics", "id")),
        ("CreateSession", ("session",)),
        ("GetBucketAbac", ("abac",)),
        ("GetBucketAccelerateConfiguration", ("accelerate",)),
        ("GetBucketAcl", ("acl",)),
        ("GetBucketCors", ("cors",)),
        ("GetBucketEncryption", ("encryption",)),
        ("GetBucketLifecycle or GetBucketLifecycleConfiguration", ("lifecycle",)),
        ("GetBucketLocation", ("location",)),
        ("GetBucketLogging", ("logging",)),
        ("GetBucketMetadataConfiguration", ("metadataConfiguration",)),
        ("GetBucketMetadataTableConfiguration", ("metadataTable",)),
        ("GetBucketNotification or GetBucketNotificationConfiguration", ("notification",)),
        ("GetBucketOwnershipControls", ("ownershipControls",)),
        ("GetBucketPolicy", ("policy",)),
        ("GetBucketPolicyStatus", ("policyStatus",)),
        ("GetBucketReplication", ("replication",)),
        ("GetBucketRequestPayment", ("requestPayment",)),
        ("GetBucketTagging", ("tagging",)),
        ("GetBucketVersioning", ("versioning",)),
        ("GetBucketWebsite", ("website",)),
        ("GetObjectLockConfiguration", ("object-lock",)),
        ("GetPublicAccessBlock", ("publicAccessBlock",)),
        ("ListBucketAnalyticsConfigurations", ("analytics",)),
        ("ListBucketIntelligentTieringConfigurations", ("intelligent-tiering",)),
        ("ListBucketInventoryConfigurations", ("inventory",)),
        ("ListBucketMetricsConfigurations", ("metrics",)),
        ("ListMultipartUploads", ("uploads",)),
        ("ListObjectVersions", ("versions",)),
        ("ListObjects", ()),
    ),
    ("HEAD", "bucket"): (("HeadBucket", ()),),
    ("POST", "bucket"): (
        ("CreateBucketMetadataConfiguration", ("metadataConfiguration",)),
        ("CreateBucketMetadataTableConfiguration", ("metadataTable",)),
    ),
    ("PUT", "bucket"): (
        ("PutBucketAnalyticsConfiguration", ("analytics", "id")),
        ("PutBucketIntelligentTieringConfiguration", ("intelligent-tiering", "id")),
        ("PutBucketInventoryConfiguration", ("inventory", "id")),
        ("PutBucketMetricsConfiguration", ("metrics", "id")),
        ("PutBucketAbac", ("abac",)),
        ("PutBucketAccelerateConfiguration", ("accelerate",)),
        ("PutBucketAcl", ("acl",)),
        ("PutBucketCors", ("cors",)),
        ("PutBucketEncryption", ("encryption",)),
        ("PutBucketLifecycle or PutBucketLifecycleConfiguration", ("lifecycle",)),
        ("PutBucketLogging", ("logging",)),
        ("PutBucketNotification or PutBucketNotificationConfiguration", ("notification",)),
        ("PutBucketOwnershipControls", ("ownershipControls",)),
        ("PutBucketPolicy", ("policy",)),
        ("PutBucketReplication", ("replication",)),
        ("PutBucketRequestPayment", ("requestPayment",)),
        ("PutBucketTagging", ("tagging",)),
        ("PutBucketVersioning", ("versioning",)),
        ("PutBucketWebsite", ("website",)),
        ("PutObjectLockConfiguration", ("object-lock",)),
        ("PutPublicAccessBlock", ("publicAccessBlock",)),
        ("UpdateBucketMetadataAnnotationTableConfiguration", ("metadataAnnotationTable",)),
        ("UpdateBucketMetadataInventoryTableConfiguration", ("metadataInventoryTable",)),
        ("UpdateBucketMetadataJournalTableConfiguration", ("metadataJournalTable",)),
        ("CreateBucket", ()),
    ),
    ("DELETE", "object"): (
        ("DeleteObjectAnnotation", ("annotation", "annotationName")),
        ("DeleteObjectTagging", ("tagging",)),
    ),
    ("GET", "object"): (
        ("GetObjectAnnotation", ("annotation", "annotationName")),
        ("GetObjectAcl", ("acl",)),
        ("GetObjectAttributes", ("attributes",)),
        ("GetObjectLegalHold", ("legal-hold",)),
        ("GetObjectRetention", ("retention",)),
        ("GetObjectTagging", ("tagging",)),
        ("GetObjectTorrent", ("torrent",)),
        ("ListObjectAnnotations", ("annotation",)),
    ),
    ("POST", "object"): (
        ("SelectObjectContent", ("select", "select-type")),
        ("RestoreObject", ("restore",)),
    ),
    ("PUT", "object"): (
        ("PutObjectAnnotation", ("annotation", "annotationName")),
        ("PutObjectAcl", ("acl",)),
        ("PutObjectLegalHold", ("legal-hold",)),
        ("PutObjectRetention", ("retention",)),
        ("PutObjectTagging", ("tagging",)),
        ("RenameObject", ("renameObject",)),
        ("UpdateObjectEncryption", ("encryption",)),
    ),
    ("GET", "service"): (("ListBuckets or ListDirectoryBuckets", ()),),
    ("POST", "service"): (("WriteGetObjectResponse", ()),),
}


def name_of(method: str, level: str, names: AbstractSet[str]) -> str | None:
    """Return the name of the operation that S3 would run, or None if it is not known."""
    for operation, markers in UNSIGNED.get((method, level), ()):
        if all(marker in names for marker in markers):
            return operation
    return None
