"""Name the S3 operations that may be signed or forwarded, and what each does to the objects it addresses."""

from __future__ import annotations

from enum import Enum


class Access(Enum):
    """What an operation does to the objects it addresses."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    LIST = "list"


class Ways(Enum):
    """Which ways serve an operation."""

    ALL = "all"
    FORWARD = "forward"
    """Only a proxy can judge or serve it, so that it is never signed."""


class Operation(Enum):
    """An S3 operation of the allow-list; opt-ins of a storage name their switch.

    What is for the forward way alone stands last: nothing on the sign way ever finds it.

    Each member carries what is asked of it on every request: looking a member up in a dict calls Python code.
    """

    GET_OBJECT = ("GetObject", Access.READ, False)
    HEAD_OBJECT = ("HeadObject", Access.READ, False)
    LIST_OBJECTS_V2 = ("ListObjectsV2", Access.LIST, False)
    # Only a writer has business with the parts of an upload.
    LIST_PARTS = ("ListParts", Access.LIST, True)
    PUT_OBJECT = ("PutObject", Access.WRITE, True)
    COPY_OBJECT = ("CopyObject", Access.WRITE, True)
    CREATE_MULTIPART_UPLOAD = ("CreateMultipartUpload", Access.WRITE, True)
    UPLOAD_PART = ("UploadPart", Access.WRITE, True)
    UPLOAD_PART_COPY = ("UploadPartCopy", Access.WRITE, True)
    COMPLETE_MULTIPART_UPLOAD = ("CompleteMultipartUpload", Access.WRITE, True)
    ABORT_MULTIPART_UPLOAD = ("AbortMultipartUpload", Access.DELETE, True)
    DELETE_OBJECT = ("DeleteObject", Access.DELETE, True)
    DELETE_OBJECTS = ("DeleteObjects", Access.DELETE, True)
    # opt-ins
    GET_OBJECT_TAGGING = ("GetObjectTagging", Access.READ, False, "tagging")
    PUT_OBJECT_TAGGING = ("PutObjectTagging", Access.WRITE, True, "tagging")
    LIST_OBJECT_VERSIONS = ("ListObjectVersions", Access.LIST, False, "recover")
    LIST_MULTIPART_UPLOADS = ("ListMultipartUploads", Access.LIST, True, "multipart_cleanup")
    # forward only
    HEAD_BUCKET = ("HeadBucket", Access.READ, False, "", Ways.FORWARD)
    GET_BUCKET_LOCATION = ("GetBucketLocation", Access.READ, False, "", Ways.FORWARD)
    LIST_OBJECTS = ("ListObjects", Access.LIST, False, "", Ways.FORWARD)
    LIST_BUCKETS = ("ListBuckets", Access.LIST, False, "", Ways.FORWARD)
    GET_OBJECT_ATTRIBUTES = ("GetObjectAttributes", Access.READ, False, "", Ways.FORWARD)
    DELETE_OBJECT_TAGGING = ("DeleteObjectTagging", Access.WRITE, True, "tagging", Ways.FORWARD)
    # Everything else that S3 has, where a volume opens it; the request says its name.
    OTHER_READ = ("OtherRead", Access.READ, False, "", Ways.FORWARD)
    OTHER_WRITE = ("OtherWrite", Access.WRITE, True, "", Ways.FORWARD)

    def __init__(
        self, s3_name: str, access: Access, needs_write: bool, opt_in: str = "", ways: Ways = Ways.ALL
    ) -> None:
        self.s3_name = s3_name
        self.access = access
        self.opt_in = opt_in
        """The switch of `OptIns` that opens it, if it needs one."""
        self.access_name = access.value
        """The access as text: reading `Enum.value` costs a call, and every event has one."""
        self.needs_write = needs_write
        """Whether TABLE_WRITE_DATA is needed; otherwise TABLE_READ_DATA."""
        self.by_prefix = access is Access.LIST and s3_name != "ListParts"
        """Whether it addresses a prefix of the bucket; ListParts is a list, but of one key."""
        self.forward_only = ways is Ways.FORWARD
        """Whether the sign way has nothing to do with it."""


GUARDED_WRITES = (Operation.PUT_OBJECT, Operation.COMPLETE_MULTIPART_UPLOAD)
"""What makes an object appear and can be kept from replacing one. The parts of an upload make none."""
