"""Own every way a request or an operator's file is refused.

    SignproxyError
    ├── Refused          a caller's request is answered with a refusal; its `Reason` owns status, type and code
    └── Invalid          something an operator wrote is wrong; carries one `Finding` per fault
        ├── DocumentInvalid
        ├── SettingsInvalid
        ├── PolicyInvalid
        └── ProviderInvalid

A `Reason` is what the audit trail, the metrics, the documentation and `explain` call a refusal. What the
caller is told is its `message`, or words that name the fault in the caller's own request (`s3.codes.Worded`):
never another tenant's name, location or the rule behind it. What an operator may see besides is the `detail`
of the `Refused`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum
from typing import NamedTuple


class Check(IntEnum):
    """The checks of a request, in the order in which the server and `explain` run them."""

    ROUTE = 1
    LIMIT = 2
    TOKEN = 3
    MESSAGE = 4
    CATALOG = 5
    ENDPOINT = 6
    URI = 7
    OPERATION = 8
    HEADERS = 9
    BODY = 10
    TABLE = 11
    PRIVILEGE = 12
    LOCATION = 13
    METADATA = 14
    STORAGE = 15
    CREDENTIALS = 16
    STORE = 17
    AUDIT = 18


class ReasonSpec(NamedTuple):
    """What a reason code means to the caller, to the operator and to the wire."""

    code: str
    check: Check
    status: int
    type: str
    message: str
    meaning: str
    remedy: str


# What a caller learns of a catalog, namespace or table that is missing, not its own, or not signable.
_FORBIDDEN = (403, "ForbiddenException", "Insufficient privileges")
_BAD = "BadRequestException"
_NOT_SIGNABLE = (403, "RequestNotSignable")
_OUTSIDE = (403, "LocationNotAllowed", "The request leaves the locations of the table")
# One text for both, or it would tell that the place is another tenant's.
_UNBELIEVED = (403, "LocationNotAllowed", "The locations of the table are not accepted")


class Reason(Enum):
    """Every reason code; the value is its `ReasonSpec`."""

    # fmt: off
    ALLOWED = ReasonSpec("allowed", Check.AUDIT, 200, "", "", "Every check passed.", "")

    # route and limits
    ROUTE_UNKNOWN = ReasonSpec("route_unknown", Check.ROUTE, 404, "NotFoundException", "No such route", "The path is none of the routes of any mount.", "Compare the path with the route table; the usual fault is a doubled slash or a missing mount.")
    ROUTE_MALFORMED = ReasonSpec("route_malformed", Check.ROUTE, 400, _BAD, "The path of the request is not well-formed", "A path segment is empty, not UTF-8 after decoding once, or holds a control character.", "Encode each path segment once; join namespace levels with %1F.")
    METHOD_NOT_ALLOWED = ReasonSpec("method_not_allowed", Check.ROUTE, 405, _BAD, "This route does not know the HTTP method", "The route exists, the HTTP method on it does not.", "Sign routes take POST, the configuration route GET.")
    HTTP_INVALID = ReasonSpec("http_invalid", Check.ROUTE, 400, "InvalidRequest", "The HTTP message is not well-formed", "The head or the framing of a request to the S3 listener can be read in two ways: two lengths, a folded header, a bare line feed, a body where there must be none.", "The detail names the fault. Look for an intermediary that rewrites requests.")
    HOST_UNKNOWN = ReasonSpec("host_unknown", Check.ROUTE, 403, "AccessDenied", "This host name is not served here", "The Host header is none of the names that the S3 listener answers to; with the pod's identity, and for container credentials, only loopback names are.", "Compare the client's endpoint with `s3.base_domains` and the address that is listened on.")
    BROWSER_REFUSED = ReasonSpec("browser_refused", Check.ROUTE, 403, "AccessDenied", "Browsers are not served here", "An `Origin` or `Sec-Fetch-*` header came where the pod's own identity is the caller, or asks for container credentials: a web page could act on its rights.", "Use a client that is no browser, or emulated keys.")
    PEER_REFUSED = ReasonSpec("peer_refused", Check.ROUTE, 403, "AccessDenied", "This process is not served here", "The user id of the process at the other end of the unix socket is not listed; or the pod's own identity, or container credentials, were asked for from beyond loopback or through a proxy.", "List the id in `s3.pod.uids` if the process is meant; ask on 127.0.0.1 without a proxy.")
    BODY_TOO_LARGE = ReasonSpec("body_too_large", Check.LIMIT, 413, "PayloadTooLarge", "The sign request is larger than allowed", "More than 64 KiB, or 5 MiB where the signed request is a bulk delete.", "Split bulk deletes; a sign request never carries the object itself.")
    BODY_TIMEOUT = ReasonSpec("body_timeout", Check.LIMIT, 400, _BAD, "The body of the request did not arrive in time", "The client sent its body more slowly than the limit allows.", "Look at the network between client and signproxy.")
    BODY_STALLED = ReasonSpec("body_stalled", Check.LIMIT, 400, "RequestTimeout", "The body of the request did not go on in time", "Nothing of an object that is sent through signproxy arrived for longer than the limit allows.", "Look at the network between client and signproxy; the client has to begin the upload anew.")
    LENGTH_REQUIRED = ReasonSpec("length_required", Check.LIMIT, 411, "MissingContentLength", "The length of the body must be given", "An upload came in HTTP chunks without a length, and the store takes none of that kind.", "Let the client send Content-Length, or set `accepts_chunked_transfer` at the storage if it does take them.")
    ENTITY_TOO_LARGE = ReasonSpec("entity_too_large", Check.LIMIT, 413, "EntityTooLarge", "The body of the request is larger than allowed", "A single upload is over 5 GiB, or a body that is read whole is over its limit.", "Upload in parts; split bulk deletes.")

    # identity
    TOKEN_MISSING = ReasonSpec("token_missing", Check.TOKEN, 401, "NotAuthorizedException", "Missing bearer token", "There is no Authorization header with a Bearer token.", "Configure the client's token; PyIceberg sends none if neither token nor auth is set.")
    TOKEN_MALFORMED = ReasonSpec("token_malformed", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token is malformed", "Neither a signed JWT nor a known opaque token, or over 16 KiB.", "Send the token as issued; `signproxy token inspect` shows what it holds.")
    TOKEN_ISSUER_UNKNOWN = ReasonSpec("token_issuer_unknown", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token is not accepted", "No configured issuer has exactly this `iss`.", "Compare `iss` byte by byte, trailing slash included, with the issuers of the settings.")
    TOKEN_ALGORITHM = ReasonSpec("token_algorithm", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token is not accepted", "The algorithm is not on the issuer's allow-list, or is `none`.", "Let the issuer sign with a listed algorithm, or list it.")
    TOKEN_KEY_UNKNOWN = ReasonSpec("token_key_unknown", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token is not accepted", "The issuer has no key for the token's `kid`; unknown ids are looked up at most once a minute.", "Check that the issuer publishes the key, then retry after a minute.")
    TOKEN_SIGNATURE = ReasonSpec("token_signature", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token is not accepted", "The signature does not verify with the issuer's key.", "The token was altered, or comes from another installation of the issuer.")
    CREDENTIAL_SCOPED = ReasonSpec("credential_scoped", Check.TOKEN, 401, "NotAuthorizedException", "A credential that signproxy handed out is not exchanged for a token", "A table token, a key or another credential of signproxy's own was shown where a catalog gives tokens: what it gives is good for more, and for longer.", "Ask for a token with the client's own credential; use a table token for its table alone.")
    TOKEN_EXPIRED = ReasonSpec("token_expired", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token has expired", "`exp` lies more than the leeway in the past.", "Let the client refresh its token; long jobs outlive short tokens.")
    TOKEN_ENDS_SOON = ReasonSpec("token_ends_soon", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token ends too soon for keys to be made from it; renew it", "Keys never outlive the token that is shown for them, and what lives for less than six minutes would be renewed without pause: Iceberg Java renews keys five minutes before their end.", "Let the client refresh its token earlier. A table that is loaded with such a token comes with keys until its end, which are not renewed.")
    TOKEN_NOT_YET_VALID = ReasonSpec("token_not_yet_valid", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token is not valid yet", "`nbf` or `iat` lies in the future beyond the leeway.", "Compare the clocks of issuer and signproxy.")
    TOKEN_AUDIENCE = ReasonSpec("token_audience", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token is meant for another audience", "None of the issuer's audiences is in `aud`.", "Ask the issuer for a token with signproxy's audience.")
    TOKEN_CLAIM = ReasonSpec("token_claim", Check.TOKEN, 401, "NotAuthorizedException", "The bearer token lacks a required claim", "`iss`, `aud`, `exp`, `sub` or the principal claim is missing or of the wrong type.", "`signproxy token inspect` lists the claims; the detail names the missing one.")
    KEYS_UNAVAILABLE = ReasonSpec("keys_unavailable", Check.TOKEN, 503, "ServiceUnavailableException", "Token keys are not available, try again", "The issuer's keys were never fetched successfully.", "See the log for the fetch error; check the route to the issuer.")
    ANONYMOUS_REQUEST = ReasonSpec("anonymous_request", Check.TOKEN, 403, "AccessDenied", "Anonymous requests are not served: the client's credential provider failed or is not configured", "A request to the S3 listener carries neither a signature nor a bearer token.", "Look at the client's own log for why it found no credentials; `signproxy keys issue` makes some.")
    AUTHORIZATION_MALFORMED = ReasonSpec("authorization_malformed", Check.TOKEN, 400, "AuthorizationHeaderMalformed", "The authorization of the request is not well-formed", "The Authorization header, or the query of a presigned URL, is not what AWS Signature Version 4 has; or both are there.", "Let the client sign with Signature Version 4; version 2 and SigV4A are not known here.")
    ACCESS_KEY_UNKNOWN = ReasonSpec("access_key_unknown", Check.TOKEN, 403, "InvalidAccessKeyId", "The access key id is not accepted", "The key was not issued by signproxy, its session token is missing or belongs to another key, the secret that sealed it is gone, or its issuer is no longer in the settings.", "Issue a new key with `signproxy keys issue`; send all three parts of it.")
    KEY_EXPIRED = ReasonSpec("key_expired", Check.TOKEN, 400, "ExpiredToken", "The access key has expired", "The life that the key was issued with is over.", "Issue a new one; `credential_process` lets clients do so by themselves.")
    SIGNATURE_MISMATCH = ReasonSpec("signature_mismatch", Check.TOKEN, 403, "SignatureDoesNotMatch", "The signature does not match the request", "The client signed another request than the one that arrived, or with another secret.", "Compare the secret; look for an intermediary that changes path, query or headers.")
    SIGNATURE_EXPIRED = ReasonSpec("signature_expired", Check.TOKEN, 403, "AccessDenied", "Request has expired", "The time for which a presigned URL is good is over, or longer than a week.", "Make a new URL.")
    TIME_SKEWED = ReasonSpec("time_skewed", Check.TOKEN, 403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large", "The client signed with a date more than 15 minutes away.", "Compare the clocks of client and signproxy.")
    HEADERS_NOT_SIGNED = ReasonSpec("headers_not_signed", Check.TOKEN, 403, "AccessDenied", "There were headers present in the request which were not signed", "`Host` or an `x-amz-*` header is not among the signed headers: any intermediary could have added it.", "The detail lists them; look for an intermediary that adds headers.")
    SCOPE_MISMATCH = ReasonSpec("scope_mismatch", Check.TOKEN, 400, "AuthorizationHeaderMalformed", "The credential scope of the signature is not accepted", "Date, region, service or the closing `aws4_request` of the scope is another than the request's.", "Set the client's region to the storage's; sign for the service s3 on the day of the request.")

    # what one caller may use up
    RATE_LIMITED = ReasonSpec("rate_limited", Check.LIMIT, 429, "TooManyRequestsException", "Too many requests, try again later", "The principal made more requests than `limits.requests_per_second` and `limits.burst` allow; work counts besides: each 4 KiB of a message, each eight keys of a bulk delete, each four tables of a transaction, each 32 names or 16 buckets of a list, each 64 KiB of a catalog call or its answer; of a call that is judged by its body each 16 KiB, 128 commas and 32 members or elements; of a list of uploads or parts each 1 KiB and 16 upload ids; each question to the upstream that a commit causes; a session of a store's STS as much as 16.", "Look for a runaway job of the principal; raise the limits if the load is meant.")
    IN_FLIGHT_LIMITED = ReasonSpec("in_flight_limited", Check.LIMIT, 429, "TooManyRequestsException", "Too many requests at a time, try again later", "More requests of the principal than `limits.in_flight` wait for their body, or for something that has to be asked for.", "Look at what they wait for; raise the limit if so many callers share the principal.")
    OVERLOADED = ReasonSpec("overloaded", Check.LIMIT, 503, "ServiceUnavailableException", "Too many requests at a time, try again later", "More requests of all callers than `limits.total_in_flight` are waited for.", "Look at what they wait for; add workers, or raise the limit.")

    # message
    MESSAGE_MALFORMED = ReasonSpec("message_malformed", Check.MESSAGE, 400, _BAD, "The request is not the JSON object that was expected", "Not JSON, or a field has the wrong type, or a catalog call holds more than is read of one: 10,000 requirements or 50,000 updates of a table, 10,000 properties, 64 levels of a namespace, 1,000 members of any other object, 131,072 commas in all. The detail names the limit.", "Send sign requests and catalog calls as the Iceberg specification has them.")
    PROVIDER_UNSUPPORTED = ReasonSpec("provider_unsupported", Check.MESSAGE, 400, _BAD, "Only the provider s3 is supported", "`provider` names another storage provider.", "Leave it out or send `s3`.")

    # catalog
    CATALOG_UNKNOWN = ReasonSpec("catalog_unknown", Check.CATALOG, *_FORBIDDEN, "No catalog answers to this name or prefix.", "Compare the client's prefix or warehouse with the catalogs of the policy.")
    CATALOG_NOT_FOR_ISSUER = ReasonSpec("catalog_not_for_issuer", Check.CATALOG, *_FORBIDDEN, "The token's issuer may not speak for this catalog.", "List the catalog at the issuer in the settings.")
    REMOTE_SIGNING_OFF = ReasonSpec("remote_signing_off", Check.CATALOG, 403, "RemoteSigningDisabled", "Remote signing is not enabled", "The switch is off, system-wide or for this catalog.", "Set `remote_signing: true` at the top of the policy and at the catalog.")
    CATALOG_FEDERATED = ReasonSpec("catalog_federated", Check.CATALOG, 403, "FederatedCatalog", "Cannot use S3 remote signing with federated catalogs", "The catalog is external and not explicitly allowed.", "Set `allow_external: true` at the catalog if its locations can be trusted.")
    DELEGATION_REFUSED = ReasonSpec("delegation_refused", Check.CATALOG, 403, "ForbiddenException", "The access that is asked for is not offered to you in this catalog", "The policy's `delegation`, of the catalog or of the caller's principal roles, does not name vended credentials; or it names nothing at all, and a client asked for some.", "Add `vended-credentials` to `delegation`, of the catalog or of a principal role; or let the client ask for what is offered.")

    # endpoint and uri
    URI_MALFORMED = ReasonSpec("uri_malformed", Check.ENDPOINT, 400, "InvalidUri", "The uri is not a well-formed http(s) URI", "Characters outside RFC 3986, a bad escape, or a length over the limit.", "Percent-encode the uri as an AWS SDK does.")
    URI_USERINFO = ReasonSpec("uri_userinfo", Check.ENDPOINT, 400, "InvalidUri", "The uri must not carry user information", "There is an @ in the authority.", "Remove it: it only ever serves to disguise the host.")
    URI_FRAGMENT = ReasonSpec("uri_fragment", Check.ENDPOINT, 400, "InvalidUri", "The uri must not carry a fragment", "There is a # in the uri.", "Encode it as %23 if it belongs to the key.")
    ENDPOINT_UNKNOWN = ReasonSpec("endpoint_unknown", Check.ENDPOINT, 403, "EndpointNotAllowed", "The uri does not address a storage of this catalog", "Scheme, host and port are no configured endpoint, or the bucket is not listed.", "Compare the uri's host with the storage's endpoints, styles and buckets in the policy.")
    REGION_MISMATCH = ReasonSpec("region_mismatch", Check.ENDPOINT, 400, "RegionMismatch", "The region is not the region of the storage", "The client asks for a scope that the storage does not have.", "Set the client's region (`client.region`) to the storage's.")
    KEY_DOT_SEGMENT = ReasonSpec("key_dot_segment", Check.URI, 400, "InvalidKey", "The key must not hold dot segments", "A segment is `.` or `..`, raw, encoded or padded; stores resolve it differently.", "Use the plain path.")
    KEY_EMPTY_SEGMENT = ReasonSpec("key_empty_segment", Check.URI, 400, "InvalidKey", "The key must not hold empty segments", "Two slashes meet, the key begins or ends with one, or a segment holds nothing but white space; some stores fold them.", "Remove the doubled or trailing slash from the location.")
    KEY_PATH_PARAMETER = ReasonSpec("key_path_parameter", Check.URI, 400, "InvalidKey", "The key must not hold a segment that begins with a semicolon", "Servlet containers, and the proxies before them, cut off what follows a semicolon, and read an empty segment.", "Rename the object: a semicolon may stand behind other characters of a segment.")
    KEY_CHARACTER = ReasonSpec("key_character", Check.URI, 400, "InvalidKey", "The key holds a character that is not allowed", "A control character or a backslash.", "Rename the object.")
    KEY_ENCODING = ReasonSpec("key_encoding", Check.URI, 400, "InvalidKey", "The key is not UTF-8", "The escapes do not decode to UTF-8.", "Encode keys as UTF-8, once.")
    KEY_TOO_LONG = ReasonSpec("key_too_long", Check.URI, 400, "InvalidKey", "The key is longer than 1,024 bytes", "S3 has no longer keys.", "Shorten the path.")
    QUERY_MALFORMED = ReasonSpec("query_malformed", Check.URI, 400, "InvalidQuery", "The query of the uri is not well-formed", "An empty part, a semicolon, a bad escape, or bytes that are not UTF-8.", "Send name=value pairs joined by &.")
    QUERY_REPEATED = ReasonSpec("query_repeated", Check.URI, 400, "InvalidQuery", "A query parameter is repeated", "Which one counts differs between stores.", "Send each parameter once.")
    QUERY_RESERVED = ReasonSpec("query_reserved", Check.URI, 400, "InvalidQuery", "A query parameter is reserved", "Presign parameters, `x-amz-*`, `x-minio-*` or signproxy's own stamp.", "Send the bare request: signproxy answers headers, not presigned URLs.")

    # operation
    METHOD_UNKNOWN = ReasonSpec("method_unknown", Check.OPERATION, 400, "MethodNotSignable", "The method is not one that S3 tables need", "Only GET, HEAD, PUT, POST and DELETE, in upper case.", "Correct the client.")
    OPERATION_REFUSED = ReasonSpec("operation_refused", Check.OPERATION, *_NOT_SIGNABLE, "This S3 operation is not allowed here", "A known S3 operation outside the allow-list.", "If it is an opt-in (tagging, recover, multipart clean-up), switch it on at the storage.")
    OPERATION_UNKNOWN = ReasonSpec("operation_unknown", Check.OPERATION, *_NOT_SIGNABLE, "This combination of method, path and query is no known S3 operation", "No operation has this method, level and set of query names.", "Remove unknown query parameters.")
    LIST_PREFIX = ReasonSpec("list_prefix", Check.OPERATION, 400, "InvalidListPrefix", "A list needs exactly one well-formed prefix", "The prefix is missing, empty, or holds empty or dot segments.", "List below the table's location, slash included.")
    UPLOAD_ID = ReasonSpec("upload_id", Check.OPERATION, 404, "NoSuchUpload", "The specified multipart upload does not exist", "The upload id was not handed out by signproxy for this table or volume and key, or was altered.", "Go on with the id of the answer that began the upload; one begun without signproxy is ended without it.")

    # headers
    HEADER_MALFORMED = ReasonSpec("header_malformed", Check.HEADERS, 400, "InvalidHeader", "A header is not well-formed", "Not an HTTP token, a value with CR, LF, NUL or outside printable text, or no value.", "Send plain header values.")
    HEADER_REPEATED = ReasonSpec("header_repeated", Check.HEADERS, 400, "InvalidHeader", "A header is given more than once", "Two spellings of one name, or several values where one counts.", "Send each header once.")
    HEADER_HOST = ReasonSpec("header_host", Check.HEADERS, 403, "HeaderNotAllowed", "The Host header differs from the uri", "A foreign Host would turn the signature into one for that host.", "Leave Host out.")
    HEADER_CREDENTIALS = ReasonSpec("header_credentials", Check.HEADERS, 403, "HeaderNotAllowed", "The request already carries credentials or a date", "`Authorization`, `x-amz-date` or `x-amz-security-token` of the client would override the signer's.", "Let the client send the request unsigned (anonymous credentials).")
    HEADER_REFUSED = ReasonSpec("header_refused", Check.HEADERS, 403, "HeaderNotAllowed", "A header of the request is not allowed", "The header changes what the store does beyond reading or writing the object.", "The answer and the detail name the header; ACL, tagging, storage class and KMS are opt-ins of the storage.")
    HEADER_VALUE = ReasonSpec("header_value", Check.HEADERS, 403, "HeaderNotAllowed", "A header has a value that is not allowed", "The header is known, its value is not on the list.", "The answer names the header, the detail its value too; compare with the storage's opt-ins.")
    PAYLOAD_MODE = ReasonSpec("payload_mode", Check.HEADERS, 400, "PayloadModeNotAllowed", "The payload mode (x-amz-content-sha256, aws-chunked, x-amz-trailer) is not accepted with this request", "The signer cannot sign chunks, each of which needs the secret key; a mode that contradicts the other headers corrupts the object.", "Send UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER or a SHA-256. The S3 listener also takes signed chunks.")
    PAYLOAD_UNSUPPORTED = ReasonSpec("payload_unsupported", Check.HEADERS, 501, "NotImplemented", "The payload mode of the request is not implemented", "Chunks signed with SigV4A, or a trailer that signproxy does not know.", "Let the client sign with Signature Version 4, or switch its trailing checksums off.")
    COPY_SOURCE = ReasonSpec("copy_source", Check.HEADERS, 400, "InvalidCopySource", "The copy source is not well-formed", "An ARN, a version, escapes that do not decode, or a key that is not allowed.", "Send /bucket/key, encoded once.")

    # body
    DELETE_WITHOUT_BODY = ReasonSpec("delete_without_body", Check.BODY, 400, "InvalidDeleteBody", "A bulk delete is signed only with its body, which this client does not send; let the catalog or Iceberg Java delete files", "Without the body the keys cannot be checked. PyIceberg never sends it, for a single file neither.", "Drop tables with `purgeRequested`, so that the catalog deletes; let Iceberg Java expire snapshots and remove orphan files; or run PyIceberg without its own deletions.")
    DELETE_BODY = ReasonSpec("delete_body", Check.BODY, 400, "InvalidDeleteBody", "The body of the bulk delete is not the XML that is accepted: a Delete of Objects, each with one Key and no VersionId, ETag, LastModifiedTime or Size", "Not well-formed, or elements and attributes other than those. In a volume the S3 listener accepts VersionId and the other conditions.", "The answer and the detail name the fault.")
    DELETE_MARKUP = ReasonSpec("delete_markup", Check.BODY, 400, "InvalidDeleteBody", "The body of a bulk delete must be XML 1.0 in UTF-8, without document type, comment, CDATA section or processing instruction", "Parsers read such documents differently, so the store could delete other keys than those that were judged.", "Let the client write the plain document that the AWS SDKs write.")
    DELETE_SIZE = ReasonSpec("delete_size", Check.BODY, 400, "InvalidDeleteBody", "A bulk delete names 1 to 1,000 objects, in at most 2 MiB", "The body names no object, or more than S3 takes in one request.", "Split the list of keys; send no request for an empty one.")
    DELETE_WHITE_SPACE = ReasonSpec("delete_white_space", Check.BODY, 400, "InvalidDeleteBody", "A bulk delete cannot be signed for a key that begins or ends with white space", "A body that is signed reaches the store as the client wrote it, and some parsers of XML trim a key: the store would delete another object.", "Delete the object with a request of its own, or send the bulk delete to the S3 listener, which judges each key.")
    DELETE_REPEATED = ReasonSpec("delete_repeated", Check.BODY, 400, "InvalidDeleteBody", "The body of the bulk delete names a key twice", "A body that is signed as the client wrote it names each key once, so that its event counts what the store logs. The S3 listener takes repeated keys.", "Let the client name each key once, or send the request to the S3 listener.")
    DELETE_UNBOUND = ReasonSpec("delete_unbound", Check.BODY, 400, "InvalidDeleteBody", "A bulk delete cannot be signed with UNSIGNED-PAYLOAD; its signature has to bind the SHA-256 of the body", "Unsigned, the list of keys could be replaced after it was judged.", "Leave `x-amz-content-sha256` out, or set it to the SHA-256 of the body. The S3 listener takes UNSIGNED-PAYLOAD.")
    BODY_UNEXPECTED = ReasonSpec("body_unexpected", Check.BODY, 400, _BAD, "Only a bulk delete is signed with a body", "A body came with an operation whose payload signproxy does not bind.", "Leave `body` out.")
    CHUNK_MALFORMED = ReasonSpec("chunk_malformed", Check.BODY, 400, "InvalidRequest", "The body is not well-formed aws-chunked data", "A chunk's head cannot be read, a chunk is too large, or the trailer is not the announced one.", "Look for an intermediary that takes the chunks apart.")
    CHUNK_SIGNATURE = ReasonSpec("chunk_signature", Check.BODY, 403, "SignatureDoesNotMatch", "The signature of a chunk does not match its data", "The data of a signed chunk, or the trailer, was changed on its way. Nothing of it reached an object.", "Send it again; look for what changes bodies between client and signproxy.")
    CHUNK_INCOMPLETE = ReasonSpec("chunk_incomplete", Check.BODY, 400, "IncompleteBody", "The body ended before its announced end", "The body, its last chunk or its trailer is missing, or it holds more or fewer bytes than announced. No object was made.", "Send it again; the client went away, or announced a wrong length.")
    PAYLOAD_HASH = ReasonSpec("payload_hash", Check.BODY, 400, "XAmzContentSHA256Mismatch", "The body does not match its SHA-256", "The hash of what arrived is not the signed x-amz-content-sha256. No object was made.", "Send it again; look for what changes bodies between client and signproxy.")
    CHECKSUM_MISMATCH = ReasonSpec("checksum_mismatch", Check.BODY, 400, "BadDigest", "The body does not match its checksum", "The checksum of what arrived is not the one in x-amz-checksum-*, as a header or a trailer. No object was made.", "Send it again; look for what changes bodies between client and signproxy.")
    CONTENT_MD5 = ReasonSpec("content_md5", Check.BODY, 400, "BadDigest", "The body does not match its Content-MD5", "The MD5 of what arrived is another one. No object was made.", "Send it again; look for what changes bodies between client and signproxy.")

    # table, privileges, location
    TABLE_UNKNOWN = ReasonSpec("table_unknown", Check.TABLE, *_FORBIDDEN, "The catalog has no such namespace or table.", "Compare the names; nested namespaces are joined by %1F.")
    LOCATION_UNOWNED = ReasonSpec("location_unowned", Check.TABLE, *_FORBIDDEN, "No table of the catalog owns this key, or the keys belong to several.", "Compare the key with the tables' locations; `explain` names the nearest one.")
    UPSTREAM_UNAVAILABLE = ReasonSpec("upstream_unavailable", Check.TABLE, 503, "ServiceUnavailableException", "The catalog is not available, try again", "The upstream catalog cannot be reached, does not answer in time, or answers 502, 503 or 504, and nothing is known that may stand in for it.", "See the log for the fault; check the upstream and the route to it. For an hour, tables that it answered a caller before keep being signed for that caller.")
    UPSTREAM_FAILED = ReasonSpec("upstream_failed", Check.TABLE, 503, "ServiceUnavailableException", "The catalog failed, try again", "The upstream answered, with a 5xx that tells of a fault of its own: it is there, and what it was asked is what it cannot do. A catalog call is answered with the upstream's own status.", "Look for the request's id in the upstream's log; make the same call to the upstream itself.")
    UPSTREAM_TIMEOUT = ReasonSpec("upstream_timeout", Check.TABLE, 504, "GatewayTimeoutException", "The catalog did not answer in time", "A call that changes something was sent to the upstream and never answered, so whether it took effect is not known.", "Look at the table before the call is repeated: Iceberg clients take the state of their commit for unknown.")
    UPSTREAM_INVALID = ReasonSpec("upstream_invalid", Check.TABLE, 502, "BadGatewayException", "The answer of the catalog cannot be used", "The upstream answered something that is no JSON, larger than allowed, or a redirect.", "Compare the upstream's address with its documentation: it must lead to the REST catalog itself.")
    UPSTREAM_UNAUTHORIZED = ReasonSpec("upstream_unauthorized", Check.TABLE, 401, "NotAuthorizedException", "The catalog does not accept the bearer token", "The upstream answered 401 or 419 to the token that was sent on.", "Let the client refresh its token; see `token_forwarding` for which token is sent.")
    UPSTREAM_BUSY = ReasonSpec("upstream_busy", Check.TABLE, 429, "TooManyRequestsException", "Too many tables are asked for, try again later", "The principal asked for more unknown tables than may be loaded for it from the upstream in a moment.", "Look for a client that guesses names; clients that load a table before they sign are never counted.")
    CONTEXT_INVALID = ReasonSpec("context_invalid", Check.TABLE, 403, "ForbiddenException", "The context of the sign request is not accepted", "What the client carried for signproxy was altered, sealed with another secret, or handed out to another principal or for another catalog.", "Let the client load the table again; workers and replicas must share the sealing secrets.")
    PRINCIPAL_UNKNOWN = ReasonSpec("principal_unknown", Check.CATALOG, *_FORBIDDEN, "The principal has no role in the catalog: it is not in the policy, and its token brings none.", "Add the principal, or map a role at the issuer.")
    NO_REMOTE_SIGN = ReasonSpec("no_remote_sign", Check.PRIVILEGE, *_FORBIDDEN, "TABLE_REMOTE_SIGN is not granted on the table or above.", "Grant TABLE_REMOTE_SIGN to one of the principal's roles.")
    NO_READ_DATA = ReasonSpec("no_read_data", Check.PRIVILEGE, *_FORBIDDEN, "TABLE_READ_DATA is not granted on the table or above, or VOLUME_READ_DATA on the volume or above.", "Grant TABLE_READ_DATA, or VOLUME_READ_DATA, to one of the principal's roles.")
    NO_WRITE_DATA = ReasonSpec("no_write_data", Check.PRIVILEGE, *_FORBIDDEN, "TABLE_WRITE_DATA is not granted on the table or above, or VOLUME_WRITE_DATA on the volume or above.", "Grant TABLE_WRITE_DATA, or VOLUME_WRITE_DATA, to one of the principal's roles.")
    NO_MANAGE = ReasonSpec("no_manage", Check.PRIVILEGE, *_FORBIDDEN, "VOLUME_MANAGE, which whatever changes the bucket itself needs, is not granted on the volume or above; or the volume does not cover the whole bucket.", "Grant VOLUME_MANAGE to one of the principal's roles, on a volume without a prefix.")
    READ_RESTRICTED = ReasonSpec("read_restricted", Check.PRIVILEGE, 403, "ForbiddenException", "The catalog restricts which rows or columns of this table you may read, so its files are not handed out whole; read it through a service that applies the restrictions", "The upstream answered this caller's load of the table with `read-restrictions` (a row filter, column masks, or something that cannot be read). Files hold all rows and columns: nothing of the table is signed, forwarded or vended to this caller, for reading or writing. Catalog calls still pass.", "Lift the restrictions for the principal in the upstream catalog, or let it read where they are applied. A load of the table without restrictions counts at once.")
    CALL_NOT_PERMITTED = ReasonSpec("call_not_permitted", Check.PRIVILEGE, *_FORBIDDEN, "The policy does not grant what the catalog call needs at its place or above.", "The detail names the privileges; grant them to one of the principal's roles.")
    NOT_IN_SCOPE = ReasonSpec("not_in_scope", Check.PRIVILEGE, *_FORBIDDEN, "The token is good for one table, and this is another one, or another of the same name.", "Use the token of the table's own configuration, or the catalog's token.")
    CEILING = ReasonSpec("ceiling", Check.PRIVILEGE, *_FORBIDDEN, "The subject's ceiling allows reads only.", "Use the caller's own identity for writes.")
    LOCATION_OUTSIDE_ROOTS = ReasonSpec("location_outside_roots", Check.LOCATION, *_UNBELIEVED, "The upstream names a location that lies below no root of the catalog, in no bucket of its storages, or cannot be read.", "Add the root or the bucket to the catalog if the location is meant.")
    LOCATION_DISPUTED = ReasonSpec("location_disputed", Check.LOCATION, *_UNBELIEVED, "The upstream lets the table claim a place that is another table's, inside it or around it, and the older owner keeps it; or one outside of where the table was first seen, and that the policy does not list.", "Find out which of the two tables is wrong; the log names both. List the place at the table whose it is, or set `overlap: allowed` if they are meant to share it.")
    LOCATION_CONFLICT = ReasonSpec("location_conflict", Check.LOCATION, 409, "LocationConflictException", "No table can be served at this location; nothing was made. Choose another location, or have the catalog choose one of its own for each table", "A call would create a table at a place that is another table's, inside it or around it, or that the catalog's roots do not allow. The upstream was not asked, or only staged it.", "Have the upstream give every table a location of its own (`Locations of tables` in the page on the facade); the detail names the other table.")
    TABLE_NOT_SERVED = ReasonSpec("table_not_served", Check.LOCATION, 409, "LocationConflictException", "The catalog made the table at a location at which no table can be served. Drop it, and have the catalog choose a location of its own for each table", "The upstream created or registered the table at a place that is another table's, inside it or around it, or that the catalog's roots do not allow: none of its files would be signed.", "Drop the table, without purging it; have the upstream give every table a location of its own (`Locations of tables` in the page on the facade).")
    LOCATION_UNVOUCHED = ReasonSpec("location_unvouched", Check.LOCATION, 403, "LocationNotAllowed", "The location was chosen by a caller and is not confirmed by the catalog; leave `location`, `write.data.path` and the like out, and let the catalog choose", "A caller chose where a table or namespace lies, or registered a file there, and the place is neither `<namespace's location>/<table's name>` as the upstream reports the namespace, nor one that the policy lists. It may be the place of a table that has not been seen yet. A table whose metadata file lies outside its location counts as registered so, and is not committed to either.", "Let the catalog choose; list the place under `caller_locations` of the catalog, or as `locations` of the table.")
    INVENTORY_MISSING = ReasonSpec("inventory_missing", Check.TABLE, 503, "ServiceUnavailableException", "The tables of the catalog are still being listed, try again", "The settings ask for an inventory of the upstream (`upstreams.<name>.inventory.required`), and there is none yet, or it is too old: whose the place is that the upstream names is not known. Tables that are known already keep being signed.", "Wait for `/readyz`; the log and the status page say how far the inventory is and what holds it up.")
    OUTSIDE_TABLE = ReasonSpec("outside_table", Check.LOCATION, *_OUTSIDE, "A key lies outside the table's locations.", "`explain` marks the first differing character; sibling names that merely share a prefix are outside.")
    COPY_SOURCE_OUTSIDE = ReasonSpec("copy_source_outside", Check.LOCATION, *_OUTSIDE, "The copy source lies outside what the caller may read.", "Copy inside the table, or set `binding: by-location` and grant read on the source.")
    METADATA_PROTECTED = ReasonSpec("metadata_protected", Check.METADATA, 403, "MetadataProtected", "The metadata files of the table are protected", "`*.metadata.json` and `version-hint.text` need TABLE_FULL_METADATA; so does deleting an ancestor.", "Let the catalog write metadata; grant TABLE_FULL_METADATA to maintenance roles.")
    METADATA_SEALED = ReasonSpec("metadata_sealed", Check.METADATA, 403, "MetadataProtected", "The metadata of the table is sealed", "`metadata: sealed` closes everything below the metadata path.", "Use `metadata: protected` where engines read and write manifests.")
    WRITE_ONCE = ReasonSpec("write_once", Check.METADATA, 403, "OverwriteForbidden", "This table forbids overwriting objects", "`overwrite: forbid`: copies cannot be guarded, and a foreign If-Match or If-None-Match contradicts the guard.", "Write to a new key without conditions.")
    UNSAFE_STORAGE = ReasonSpec("unsafe_storage", Check.STORAGE, 403, "StorageNotSafe", "This request is not signed for this storage", "The store accepts unsigned x-amz-* headers, so a signed write could become a copy of any object; or it does not compare a body with its hash, so a signed bulk delete could delete any.", "Say so in the policy if the store does check; use another store; or accept the risk by name in the settings (`accept_unchecked_headers`, `accept_unchecked_payload`).")

    # the way
    CREDENTIALS_UNAVAILABLE = ReasonSpec("credentials_unavailable", Check.CREDENTIALS, 503, "ServiceUnavailableException", "Signing credentials are not available, try again", "The storage's provider has no valid credentials.", "See the log for the provider's error.")
    VEND_OFF = ReasonSpec("vend_off", Check.CREDENTIALS, 403, "ForbiddenException", "No keys are handed out for the store of this table", "The policy offers vended credentials, and the settings do not say how keys for the storage are made.", "Set `storages.<name>.vend`, or take `vended-credentials` out of the policy's `delegation`.")
    SCOPE_NOT_VENDABLE = ReasonSpec("scope_not_vendable", Check.CREDENTIALS, 403, "VendingNotPossible", "Keys cannot be handed out for this table; have its requests signed, or send them to the S3 listener", "No session policy says what was decided: a location holds characters that the store's policies cannot express, is shared with another table or volume, or objects may not be overwritten; or the table is staged by a caller who may not write it.", "The detail names the location. Move the table, or leave its storage to remote signing and the S3 listener.")
    SCOPE_TOO_LARGE = ReasonSpec("scope_too_large", Check.CREDENTIALS, 400, "ScopeTooLargeException", "The locations of this table do not fit into one session policy; have its requests signed, or send them to the S3 listener", "The session policy is longer than 2,048 characters, or too large in the form in which the session service packs it together with the session's tags.", "The detail has the size. Shorten or join the locations of the table, or take tags away from `sts.tags`.")
    SESSION_TOO_SHORT = ReasonSpec("session_too_short", Check.CREDENTIALS, 401, "NotAuthorizedException", "The bearer token ends sooner than the shortest-lived keys would; ask again with a new one", "Keys may not outlive the caller's token, which ends within the 15 minutes that a session lasts at least.", "Let the client refresh its token earlier, or let the issuer make tokens that live longer.")
    SESSION_UNPROVED = ReasonSpec("session_unproved", Check.CREDENTIALS, 503, "ServiceUnavailableException", "The keys could not be handed out, try again", "A session policy allows what was not decided, or is not understood by the check that each one passes before it is used. No session was asked for.", "A fault in signproxy: report it with the request id and the log line, which holds the policy.")
    SESSIONS_THROTTLED = ReasonSpec("sessions_throttled", Check.CREDENTIALS, 503, "ServiceUnavailableException", "Too many keys are asked for, try again later", "The session service throttles, or more sessions are waited for than are asked for at a time: 1,024, and 128 of one principal.", "Raise the quota of AssumeRole for the account, or let sessions live longer, so that fewer are asked for.")
    SESSIONS_UNAVAILABLE = ReasonSpec("sessions_unavailable", Check.CREDENTIALS, 503, "ServiceUnavailableException", "Keys are not available, try again", "The session service cannot be reached, does not answer in time, or answers 5xx; or the credentials that it is asked with have expired.", "See the detail for the fault; check `sts.endpoint`, the route to it, and the storage's credential provider.")
    SESSIONS_REFUSED = ReasonSpec("sessions_refused", Check.CREDENTIALS, 502, "BadGatewayException", "Keys cannot be handed out: the session service refuses to make them", "The session service answered that the role is missing, that these credentials or this web identity may not assume it, or that a parameter is wrong.", "The detail has its error code. Compare `sts.role`, its trust policy, its maximum session duration and `sts.external_id`.")
    SESSIONS_INVALID = ReasonSpec("sessions_invalid", Check.CREDENTIALS, 502, "BadGatewayException", "Keys cannot be handed out: the answer of the session service cannot be used", "The answer cannot be read, has no session token, has ended already, or lives longer than was asked for.", "Compare `sts.endpoint` with the service's documentation, and the clocks of both machines.")
    STORE_UNAVAILABLE = ReasonSpec("store_unavailable", Check.STORE, 503, "ServiceUnavailable", "The store is not available, try again", "The store cannot be reached, does not prove to be itself, or closed the connection before its answer.", "See the detail for the fault; check the store and the route to it.")
    STORE_TIMEOUT = ReasonSpec("store_timeout", Check.STORE, 504, "ServiceUnavailable", "The store did not answer in time", "The store took the request and did not answer, or stopped in the middle, for longer than the limit allows; whether a write took effect is not known.", "Look at the store's load; compare `s3.upstream` in the settings.")
    STORE_INVALID = ReasonSpec("store_invalid", Check.STORE, 502, "InternalError", "The answer of the store cannot be used", "The store answered something that is no HTTP, has two lengths, or is larger than allowed.", "Compare the storage's endpoint with its documentation; look for an intermediary in front of it.")
    AUDIT_UNAVAILABLE = ReasonSpec("audit_unavailable", Check.AUDIT, 503, "ServiceUnavailableException", "The audit trail is not available, try again", "`audit.on_error: deny` and the writer is unhealthy or its queue is full.", "See the log: disk full, volume read-only, or a blocked pipe.")
    CLIENT_GONE = ReasonSpec("client_gone", Check.AUDIT, 499, "", "The caller closed the connection", "The caller went away before the request was complete.", "Look at the caller's time limits.")
    INTERNAL = ReasonSpec("internal", Check.AUDIT, 503, "ServiceUnavailableException", "The request could not be served, try again", "A fault in signproxy; the log holds the trace.", "Report it with the request id.")
    # fmt: on

    @property
    def code(self) -> str:
        return self.value.code

    @property
    def check(self) -> Check:
        return self.value.check

    @property
    def status(self) -> int:
        return self.value.status


class SignproxyError(Exception):
    """Root of everything that signproxy raises on purpose."""


class Refused(SignproxyError):
    """Raise to refuse a caller's request; `detail` is for the operator and never leaves the audit trail."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason.code}: {self.detail or self.reason.value.message}"


def anew(kept: Refused) -> Refused:
    """Return a refusal to raise for one that was kept as a value.

    Raised itself, it would be kept by the frames of its own traceback: garbage that only a collection finds, and while
    the collector looks at what a thousand such requests left, no other caller is answered.
    """
    again = type(kept).__new__(type(kept), *kept.args)
    vars(again).update(vars(kept))
    return again


class Finding(NamedTuple):
    """One fault in an operator's file: where it is and what to do about it."""

    file: str
    path: str
    problem: str

    def __str__(self) -> str:
        return ": ".join(filter(None, self))


class Invalid(SignproxyError):
    """Raise when something an operator wrote cannot be used; nothing of it takes effect."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(*self.findings)

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)


class DocumentInvalid(Invalid):
    """A file is not the document that its reader expects; the reader raises it on as its own kind."""


class SettingsInvalid(Invalid):
    """The settings cannot be used."""


class PolicyInvalid(Invalid):
    """The policy cannot be used; the one in force stays."""


class ProviderInvalid(Invalid):
    """A credential provider cannot be made from its settings, or broke its contract."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the nearest known name, or nothing if none is near."""
    import difflib  # noqa: PLC0415 - only after a typing error

    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {match[0]!r}?)" if match else ""
