"""List the names that S3, its stores and the proxies before them react to, and that a signer must not let pass."""

from __future__ import annotations

# Every sub-resource that S3 knows, and those that only one store knows.
SUBRESOURCES = """
    acl policy policyStatus tagging versioning versions location logging lifecycle cors website notification
    replication requestPayment encryption ownershipControls publicAccessBlock accelerate analytics metrics inventory
    intelligent-tiering object-lock session uploads torrent restore select retention legal-hold attributes annotation
    renameObject abac metadataTable metadataConfiguration append compose events lambdaArn delete list-type=2
    list-type=1 list-type=2&metadata=true versions&metadata=true x-id=GetObject prefix= marker=a versionId=null
    versionId= versionId=1 partNumber=1 response-content-type=text/html response-content-disposition=a
    uploadId= uploadId=x partNumber=0&uploadId=x tagging= select&select-type=2 multipart-manifest=get
    multipart-manifest=put symlink=get symlink format=json bulk-delete extract-archive=tar
    temp_url_sig=a&temp_url_expires=1 Action=AssumeRole Action=CreateUser position=0&append publicAccessBlock=
    nosuch=1 nosuch
""".split()

PRESIGN = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Signature=00", "x-amz-copy-source=lake/wh/db/t2/data/UPPER.parquet",
    "X-Amz-Expires=600", "AWSAccessKeyId=a", "Signature=b", "Expires=1", "x-amz-acl=public-read", "X-Amz-Date=1",
    "x-minio-extract=true", "x-goog-acl=a", "x-signproxy-id=00000000", "X-Amz-Security-Token=t",
    "x%2Damz%2Dcopy-source=a", "X-AMZ-ACL=private",
)  # fmt: skip

HEADERS = (
    ("x-amz-acl", "public-read"), ("x-amz-acl", "bucket-owner-full-control"), ("x-amz-grant-read", "id=1"),
    ("x-amz-grant-full-control", 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'),
    ("x-amz-tagging", "a=b"), ("x-amz-website-redirect-location", "/t2"), ("x-amz-storage-class", "GLACIER"),
    ("x-amz-object-lock-mode", "COMPLIANCE"), ("x-amz-object-lock-legal-hold", "ON"),
    ("x-amz-object-lock-retain-until-date", "2099-01-01T00:00:00Z"), ("x-amz-bypass-governance-retention", "true"),
    ("x-amz-mfa", "1 2"), ("x-amz-server-side-encryption-customer-key", "a"), ("x-minio-force-delete", "true"),
    ("x-amz-server-side-encryption-customer-algorithm", "AES256"), ("X-Amz-Meta-Snowball-Auto-Extract", "true"),
    ("X-Amz-Meta-Minio-Snowball-Prefix", "wh/db/t2"), ("x-amz-rename-source", "/lake/wh/db/t2/data/UPPER.parquet"),
    ("x-goog-copy-source", "lake/wh/db/t2/data/UPPER.parquet"), ("x-amz-metadata-directive", "REPLACE"),
    ("x-amz-request-payer", "requester"), ("x-amz-object-attributes", "ETag"), ("x-amz-write-offset-bytes", "0"),
    ("X-HTTP-Method-Override", "DELETE"), ("X-HTTP-Method", "PUT"), ("X-Method-Override", "PUT"),
    ("X-Original-URL", "/lake/wh/db/t2/data/UPPER.parquet"), ("X-Rewrite-URL", "/lake?acl"),
    ("X-Forwarded-Host", "vault.s3.e2e.test"), ("X-Forwarded-Prefix", "/vault"), ("X-Auth-Token", "AUTH_tk"),
    ("X-Copy-From", "/lake/wh/db/t2/data/UPPER.parquet"), ("Destination", "/vault/x"),
    ("X-Object-Manifest", "vault/canary"), ("X-Symlink-Target", "vault/canary"), ("X-Container-Read", ".r:*"),
    ("X-Delete-After", "1"), ("X-Delete-At", "1"),
    ("X-Object-Meta-A", "b"), ("Authorization", "AWS test:tester:sig"), ("x-amz-date", "20260101T000000Z"),
    ("Date", "Thu, 01 Jan 2026 00:00:00 GMT"), ("x-amz-security-token", "t"), ("Proxy-Authorization", "Basic a"),
    ("x-amz-expected-bucket-owner", "1"), ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
    ("x-amz-content-sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER"), ("x-amz-content-sha256", "required"),
    ("x-amz-content-sha256", ""), ("x-amz-content-sha256", "A" * 64), ("x-amz-decoded-content-length", "1"),
    ("x-amz-te", "other"), ("x-amz-nosuch", "1"), ("x-amz-meta-", "1"), ("x-amz-meta-ünï", "1"), ("x-amz-meta-a", "ü"),
    ("x-amz-meta-a", "a\r\nx-amz-acl: public-read"), ("x-amz-meta-a\r\nx-amz-acl", "public-read"),
    ("x-amz-meta-a b", "1"),
    ("x-amz-fwd-status", "200"), ("x-amz-account-id", "1"), ("x-amz-create-session-mode", "ReadWrite"),
    ("If-Match", '"0"'), ("If-None-Match", "*"), ("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT"),
    ("Range", "bytes=99999-"), ("Content-Encoding", "gzip"), ("Content-Disposition", "attachment"), ("Cookie", "a=b"),
    ("Transfer-Encoding", "identity"), ("Upgrade", "h2c"), ("Connection", "keep-alive"), ("TE", "trailers"),
    ("x-amz-source-expected-bucket-owner", "1"), ("x-amz-server-side-encryption", "aws:kms"),
    ("x-amz-server-side-encryption-aws-kms-key-id", "k"), ("Cache-Control", "no-store"), ("Forwarded", "host=evil"),
)  # fmt: skip

METHODS = (
    "GET",
    "HEAD",
    "PUT",
    "POST",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "get",
    "TRACE",
    "COPY",
    "MOVE",
    "",
    "GET ",
    "PUT\r\n",
)
