"""Write a request as the JSON that versitygw's webhook, MinIO's audit webhook and CloudTrail have for it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_plus

import msgspec

from tools.sample_data.access_log import as_versity_tells
from tools.sample_data.clock import ISO, UTC
from tools.sample_data.rows import Row
from tools.sample_data.world import ACCOUNT, OWNER, REGION

_encode = msgspec.json.Encoder().encode
_DEPLOYMENT = "6f0b1c52-3a0e-4c1f-9d5e-0f1b7f3f7b11"
_OF_MINIO = {
    "CreateMultipartUpload": "NewMultipartUpload",
    "UploadPart": "PutObjectPart",
    "DeleteObjects": "DeleteMultipleObjects",
}
"""What MinIO calls operations otherwise than S3."""
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def versity(row: Row) -> bytes:
    """Return what versitygw's webhook sends, with a line end."""
    bucket = row.bucket.name
    query = f"?{row.query}" if row.query else ""
    status, sent = as_versity_tells(row)
    return (
        _encode(
            {
                "BucketOwner": "signproxy",
                "Bucket": bucket,
                "Time": f"{ISO.text(row.at)}.{int(row.at % 1 * 1e9):09d}Z",
                "RemoteIP": row.remote_ip,
                "Requester": row.requester,
                "RequestID": row.request_id,
                "Operation": f"s3_{row.s3_op}",
                "Key": row.key,
                "RequestURI": f"/{bucket}/{row.path}{query}",
                "HttpStatus": status,
                "ErrorCode": row.error,
                "BytesSent": sent,
                "ObjectSize": row.size,
                "TotalTime": row.millis,
                "TurnAroundTime": row.millis,
                "Referer": "",
                "UserAgent": row.user_agent,
                "VersionID": "",
                "HostID": row.request_id[::-1],
                "SignatureVersion": "SigV4",
                "CipherSuite": "",
                "AuthenticationType": "AuthHeader",
                "HostHeader": f"s3.{REGION}.amazonaws.com",
                "TLSVersion": "",
                "AccessPointARN": f"arn:aws:s3:::/{bucket}/{row.key}",
                "AclRequired": "Yes",
            }
        )
        + b"\n"
    )


def minio(row: Row) -> bytes:
    """Return what MinIO's audit webhook sends, with a line end."""
    nanos = row.millis * 1_000_000
    entry: dict[str, Any] = {
        "version": "1",
        "deploymentid": _DEPLOYMENT,
        "time": f"{ISO.text(row.at)}.{int(row.at % 1 * 1e9):09d}Z",
        "event": "",
        "trigger": "incoming",
        "api": {
            "name": _OF_MINIO.get(row.s3_op, row.s3_op),
            "bucket": row.bucket.name,
            "object": row.key,
            "status": _PHRASES.get(row.status, ""),
            "statusCode": row.status,
            "rx": row.size if row.method == "PUT" else 0,
            "tx": row.sent,
            "txHeaders": 412,
            "timeToFirstByte": f"{nanos // 2}ns",
            "timeToFirstByteInNS": f"{nanos // 2}",
            "timeToResponse": f"{nanos}ns",
            "timeToResponseInNS": f"{nanos}",
        },
        "remotehost": row.remote_ip,
        "requestID": row.request_id,
        "userAgent": row.user_agent,
        "requestPath": f"/{row.bucket.name}/{row.key}",
        "requestHost": "minio.onprem.example.com:9000",
        "requestQuery": _query(row.query),
        "requestHeader": {"User-Agent": row.user_agent, "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD"},
        "responseHeader": {"Server": "MinIO", "X-Amz-Request-Id": row.request_id},
        "accessKey": row.access_key,
    }
    return _encode(entry) + b"\n"


def cloudtrail(row: Row) -> bytes:
    """Return a data event as it stands in `Records`, without what separates it from others."""
    time = UTC.text(row.at)
    entry: dict[str, Any] = {
        "eventVersion": "1.11",
        "userIdentity": _identity(row, time),
        "eventTime": time,
        "eventSource": "s3.amazonaws.com",
        "eventName": "ListObjects" if row.s3_op == "ListObjectsV2" else row.s3_op,
        "awsRegion": REGION,
        "sourceIPAddress": row.remote_ip,
        "userAgent": f"[{row.user_agent}]",
        "requestParameters": {
            "bucketName": row.bucket.name,
            "Host": f"{row.bucket.name}.s3.{REGION}.amazonaws.com",
            # Of a list its parameters, and none that S3 does not know.
            **({"key": row.key} if row.key else _known(_query(row.query))),
        },
        "responseElements": None,
        "additionalEventData": {
            "SignatureVersion": "SigV4",
            "CipherSuite": "TLS_AES_128_GCM_SHA256",
            "bytesTransferredIn": row.size if row.method == "PUT" else 0,
            "bytesTransferredOut": row.sent,
            "AuthenticationMethod": "AuthHeader",
            "x-amz-id-2": f"{row.request_id[::-1]}/sV7mHkQ=",
        },
        "requestID": row.request_id,
        "eventID": f"{row.request_id[:8]}-{row.request_id[8:12]}-4000-a000-{row.request_id[4:]}".lower(),
        "readOnly": row.method in ("GET", "HEAD"),
        "resources": [
            {"type": "AWS::S3::Object", "ARN": f"arn:aws:s3:::{row.bucket.name}/{row.key}"},
            {"accountId": ACCOUNT, "type": "AWS::S3::Bucket", "ARN": f"arn:aws:s3:::{row.bucket.name}"},
        ],
        "eventType": "AwsApiCall",
        "managementEvent": False,
        "recipientAccountId": ACCOUNT,
        "eventCategory": "Data",
        "tlsDetails": {"tlsVersion": "TLSv1.3", "cipherSuite": "TLS_AES_128_GCM_SHA256"},
    }
    if row.status >= 400:
        entry["errorCode"] = row.error
        entry["errorMessage"] = _PHRASES.get(row.status, "")
    return _encode(entry)


def _identity(row: Row, time: str) -> dict[str, Any]:
    if ":assumed-role/" not in row.requester:
        user = row.requester.rpartition("/")[2]
        return {
            "type": "IAMUser",
            "principalId": f"AIDA{OWNER[:12].upper()}",
            "arn": row.requester,
            "accountId": ACCOUNT,
            "accessKeyId": row.access_key,
            "userName": user,
        }
    role, _, session = row.requester.rpartition(":assumed-role/")[2].partition("/")
    role_id = "AROAQ3EGUHT7ROLEIDXX"
    return {
        "type": "AssumedRole",
        "principalId": f"{role_id}:{session}",
        "arn": row.requester,
        "accountId": ACCOUNT,
        "accessKeyId": row.access_key,
        "sessionContext": {
            "sessionIssuer": {
                "type": "Role",
                "principalId": role_id,
                "arn": f"arn:aws:iam::{ACCOUNT}:role/{role}",
                "accountId": ACCOUNT,
                "userName": role,
            },
            "attributes": {"creationDate": time, "mfaAuthenticated": "false"},
        },
    }


def _known(parameters: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if not name.startswith("x-")}


def _query(query: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return {unquote_plus(name): unquote_plus(value) for name, _, value in pairs}
